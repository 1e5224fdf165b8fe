#ifndef CSYNCLINUX_NETLINK_SHIMS_H
#define CSYNCLINUX_NETLINK_SHIMS_H

#include <linux/if_addr.h>
#include <linux/if_link.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

// Numbers come from the kernel's headers above (enumerators, which Swift imports). The functions below do what Swift cannot express:
// casts of struct sockaddr_nl, and ancillary facts of recvmsg(2).

/// A netlink socket, close-on-exec and non-blocking, bound to the multicast groups of the mask.
/// `receive_bytes`: SO_RCVBUF, 0 for the system's default. Returns a descriptor, or -errno.
int csl_netlink_open(int protocol, uint32_t groups, int receive_bytes);

/// One datagram. `sender`: nl_pid, 0 for the kernel. `group`: bit mask of the group it was sent to, 0 for none.
/// Returns its whole length, which is more than `size` when it was cut; or -errno (-EAGAIN: nothing there).
ssize_t csl_netlink_receive(int descriptor, void *buffer, size_t size, uint32_t *sender, uint32_t *group);

/// Sends one message to the kernel. Returns 0 or -errno.
int csl_netlink_send(int descriptor, const void *bytes, size_t size);

/// eventfd(2), close-on-exec and non-blocking. Returns a descriptor, or -errno.
int csl_event_open(void);
/// Wakes the threads that poll it.
void csl_event_raise(int descriptor);
/// Takes back all raises so far.
void csl_event_clear(int descriptor);

/// Waits until one of the two is readable (`second` may be -1) or the time is over (-1: no end). Returns a mask: 1 the
/// first, 2 the second, 0 the time is over. An error condition counts as readable.
int csl_wait_readable(int first, int second, int timeout_ms);

/// Numeric addresses of a host, each written as inet_ntop(3) does and ended by NUL, one after another in the order of
/// RFC 6724. Blocks as long as the system's resolver does. Returns how many, at most `limit`, or the EAI_* number
/// (negative). `text` needs `limit` * 46 bytes.
int csl_resolve(const char *host, char *text, int limit);
const char *csl_resolve_error_text(int code);

#endif
