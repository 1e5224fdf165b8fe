#ifndef CSYNCLINUX_PEER_H
#define CSYNCLINUX_PEER_H

// Unix sockets: what Swift cannot say itself. `struct ucred` needs _GNU_SOURCE, which Swift's Glibc module does not
// set, and `struct sockaddr_un` imports as a tuple of 108 elements. Every function returns 0 (or a count), or -1 with
// errno set.

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/un.h>
#include <unistd.h>

#ifndef SO_PEERGROUPS
#define SO_PEERGROUPS 59 // include/uapi/asm-generic/socket.h, since Linux 4.13
#endif

// The process at the other end of a Unix socket, as `struct ucred` of <linux/socket.h>.
typedef struct sync_peer {
    int32_t pid;
    uint32_t uid;
    uint32_t gid;
} sync_peer;

// SO_PEERCRED, unix(7): who called connect().
static inline int sync_peer_credentials(int descriptor, sync_peer *peer) {
    socklen_t size = sizeof *peer;
    if (getsockopt(descriptor, SOL_SOCKET, SO_PEERCRED, peer, &size) != 0) return -1;
    if (size != sizeof *peer) {
        errno = EINVAL;
        return -1;
    }
    return 0;
}

// SO_PEERGROUPS: the supplementary groups of who called connect(). Writes at most `capacity` of them and returns how
// many there are; more than `capacity` means that none was written.
static inline int sync_peer_groups(int descriptor, uint32_t *groups, int capacity) {
    socklen_t size = (socklen_t)((size_t)capacity * sizeof *groups);
    if (getsockopt(descriptor, SOL_SOCKET, SO_PEERGROUPS, groups, &size) != 0 && errno != ERANGE) return -1;
    return (int)(size / sizeof *groups);
}

static inline int sync_unix_address(const char *path, struct sockaddr_un *address) {
    size_t length = strlen(path);
    if (length == 0 || length >= sizeof address->sun_path) {
        errno = length == 0 ? EINVAL : ENAMETOOLONG;
        return -1;
    }
    memset(address, 0, sizeof *address);
    address->sun_family = AF_UNIX;
    memcpy(address->sun_path, path, length + 1);
    return 0;
}

// A new listening socket at `path`, whose file has `mode` less the umask from its first moment on: bind() takes the
// mode from the socket's own inode (net/unix/af_unix.c, unix_bind_bsd), so there is no need to change the umask of
// the whole process.
static inline int sync_unix_listen(const char *path, uint32_t mode, int backlog) {
    struct sockaddr_un address;
    if (sync_unix_address(path, &address) != 0) return -1;
    int descriptor = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (descriptor < 0) return -1;
    int bound = 0;
    if (fchmod(descriptor, (mode_t)mode) == 0 && bind(descriptor, (struct sockaddr *)&address, sizeof address) == 0) {
        bound = 1;
        if (listen(descriptor, backlog) == 0) return descriptor;
    }
    int problem = errno;
    if (bound) unlink(path);
    close(descriptor);
    errno = problem;
    return -1;
}

// 0: a process listens at `path`. -1 with ECONNREFUSED: none does. Other errors leave it open.
static inline int sync_unix_probe(const char *path) {
    struct sockaddr_un address;
    if (sync_unix_address(path, &address) != 0) return -1;
    int descriptor = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (descriptor < 0) return -1;
    int result = connect(descriptor, (struct sockaddr *)&address, sizeof address);
    int problem = errno;
    close(descriptor);
    errno = problem;
    return result;
}

// Most descriptors that the kernel lets one message carry: SCM_MAX_FD, include/net/scm.h.
#define SYNC_RIGHTS_MAX 253

// Control messages that carry descriptors into this process (level SOL_SOCKET).
#define SYNC_SCM_RIGHTS 0x01 // what the sender attached, unix(7)
#define SYNC_SCM_PIDFD 0x04  // the sender itself, where SO_PASSPIDFD is set: include/linux/socket.h, since Linux 6.5

// Room for all control messages of one read: the descriptors (1,032 bytes), and credentials, security label and pidfd,
// which come as well where a service manager has asked for them (PassCredentials=, PassSecurity= of systemd.socket(5)).
#define SYNC_CONTROL_MAX 2048

// The descriptors in `size` bytes of control messages, in their order; reads nothing but these bytes.
//
//     offset  size                     struct cmsghdr, recvmsg(2); the next one begins at a multiple of sizeof(size_t)
//     0       sizeof(size_t)           cmsg_len, header included
//     +       4                        cmsg_level
//     +       4                        cmsg_type
//     +       cmsg_len less header     data; of these two types whole ints, a rest is ignored
//
// Ends at a message that is shorter than its header or longer than what is left. Writes at most `capacity` descriptors of
// messages of `type`, and returns how many there are.
static inline int sync_control_descriptors(const void *control, size_t size, int type, int32_t *descriptors, int capacity) {
    const size_t head = sizeof(struct cmsghdr);
    const unsigned char *bytes = (const unsigned char *)control;
    int count = 0;
    for (size_t at = 0; size - at >= head;) {
        struct cmsghdr part;
        memcpy(&part, bytes + at, head);
        if (part.cmsg_len < head || part.cmsg_len > size - at) break;
        if (part.cmsg_level == SOL_SOCKET && part.cmsg_type == type) {
            for (size_t place = head; part.cmsg_len - place >= sizeof(int32_t); place += sizeof(int32_t)) {
                if (count < capacity) memcpy(&descriptors[count], bytes + at + place, sizeof(int32_t));
                count++;
            }
        }
        const size_t rest = size - at - part.cmsg_len, padding = (0 - part.cmsg_len) & (sizeof(size_t) - 1);
        if (rest <= padding) break;
        at = size - rest + padding;
    }
    return count;
}

// Looks at the next byte of a Unix stream without taking it, and accepts the descriptors that travel with it (SCM_RIGHTS,
// unix(7)): a peek installs them in this process as reading does, and a read(2) would let the kernel close them. All of them
// are accepted, since each that is installed and not found would stay open for ever, and all but the first are closed.
//
// Sets `first` to a descriptor with FD_CLOEXEC, which belongs to the caller, or to -1. Returns how many were attached, 0 also
// when nothing can be read; -1 when the kernel could not hand over all of them (MSG_CTRUNC: this process is out of
// descriptors), and then none is left open.
static inline int sync_peek_descriptors(int socket, int32_t *first) {
    char byte;
    struct iovec piece = {.iov_base = &byte, .iov_len = 1};
    union {
        struct cmsghdr head;
        char bytes[SYNC_CONTROL_MAX];
    } control;
    struct msghdr message = {
        .msg_iov = &piece, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof control.bytes};
    *first = -1;
    ssize_t got;
    do got = recvmsg(socket, &message, MSG_PEEK | MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    while (got < 0 && errno == EINTR);
    if (got < 0) return 0;
    const int capacity = SYNC_CONTROL_MAX / sizeof(int32_t);
    int32_t found[SYNC_CONTROL_MAX / sizeof(int32_t)];
    int count = sync_control_descriptors(control.bytes, message.msg_controllen, SYNC_SCM_PIDFD, found, capacity);
    for (int index = 0; index < count; index++) close(found[index]);
    count = sync_control_descriptors(control.bytes, message.msg_controllen, SYNC_SCM_RIGHTS, found, capacity);
    const int keeps = count > 0 && !(message.msg_flags & MSG_CTRUNC);
    for (int index = keeps ? 1 : 0; index < count; index++) close(found[index]);
    if (keeps) *first = found[0];
    return message.msg_flags & MSG_CTRUNC ? -1 : count;
}

// Sends `bytes`, all of them, with `count` descriptors (1 to SYNC_RIGHTS_MAX) attached to the first. Returns 0, or -1 with
// errno set.
static inline int sync_send_descriptors(int socket, const void *bytes, size_t size, const int32_t *descriptors, int count) {
    if (size == 0 || count < 1 || count > SYNC_RIGHTS_MAX) {
        errno = EINVAL;
        return -1;
    }
    struct iovec piece = {.iov_base = (void *)bytes, .iov_len = size};
    union {
        struct cmsghdr head;
        char bytes[CMSG_SPACE(SYNC_RIGHTS_MAX * sizeof(int32_t))];
    } control = {0};
    struct msghdr message = {
        .msg_iov = &piece, .msg_iovlen = 1, .msg_control = control.bytes,
        .msg_controllen = CMSG_SPACE((size_t)count * sizeof(int32_t))};
    struct cmsghdr *part = CMSG_FIRSTHDR(&message);
    part->cmsg_level = SOL_SOCKET;
    part->cmsg_type = SCM_RIGHTS;
    part->cmsg_len = CMSG_LEN((size_t)count * sizeof(int32_t));
    memcpy(CMSG_DATA(part), descriptors, (size_t)count * sizeof(int32_t));
    ssize_t sent;
    do sent = sendmsg(socket, &message, MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);
    // The kernel may take less than all: the descriptors went with the first part.
    while (sent >= 0 && (size_t)sent < size) {
        bytes = (const char *)bytes + sent;
        size -= (size_t)sent;
        do sent = send(socket, bytes, size, MSG_NOSIGNAL);
        while (sent < 0 && errno == EINTR);
    }
    return sent < 0 ? -1 : 0;
}

// A connected Unix stream, or -1 with errno set.
static inline int sync_unix_connect(const char *path) {
    struct sockaddr_un address;
    if (sync_unix_address(path, &address) != 0) return -1;
    int descriptor = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (descriptor < 0) return -1;
    if (connect(descriptor, (struct sockaddr *)&address, sizeof address) == 0) return descriptor;
    int problem = errno;
    close(descriptor);
    errno = problem;
    return -1;
}

// 1: a listening stream socket, 0: anything else.
static inline int sync_is_listening(int descriptor) {
    int type = 0, listening = 0;
    socklen_t size = sizeof type;
    if (getsockopt(descriptor, SOL_SOCKET, SO_TYPE, &type, &size) != 0) return 0;
    size = sizeof listening;
    if (getsockopt(descriptor, SOL_SOCKET, SO_ACCEPTCONN, &listening, &size) != 0) return 0;
    return type == SOCK_STREAM && listening;
}

#endif
