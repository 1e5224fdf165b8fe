#ifndef CPROCESSSTAND_H
#define CPROCESSSTAND_H

/// The name of the protocol of the socket behind an entry of `/proc/PID/fd`, ended by zero: `TCPv6`, `UNIX-STREAM` (net/socket.c).
///
/// Returns its length with the zero, or the negative error number.
long stand_socket_protocol(const char *descriptor, char *name, unsigned long size);

#endif
