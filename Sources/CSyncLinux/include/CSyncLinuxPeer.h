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

// As `struct ucred` of <linux/socket.h>.
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

// 0: somebody answers at `path`. -1 with ECONNREFUSED: nobody does. Other errors leave it open.
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

// Looks at the next byte of a Unix stream without taking it, and picks up a descriptor that travels with it (SCM_RIGHTS,
// unix(7)): a peek installs it as reading does, and a read(2) would lose it. Returns a new descriptor with FD_CLOEXEC, or -1
// when none comes next. The kernel closes what there was no room for.
static inline int sync_peek_descriptor(int socket) {
    char byte;
    struct iovec piece = {.iov_base = &byte, .iov_len = 1};
    union {
        struct cmsghdr head;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control;
    struct msghdr message = {
        .msg_iov = &piece, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof control.bytes};
    if (recvmsg(socket, &message, MSG_PEEK | MSG_DONTWAIT | MSG_CMSG_CLOEXEC) <= 0) return -1;
    for (struct cmsghdr *part = CMSG_FIRSTHDR(&message); part; part = CMSG_NXTHDR(&message, part)) {
        if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
        int descriptor;
        if (part->cmsg_len < CMSG_LEN(sizeof descriptor)) continue;
        memcpy(&descriptor, CMSG_DATA(part), sizeof descriptor);
        return descriptor;
    }
    return -1;
}

// Sends `bytes`, all of them, with `descriptor` attached to the first. Returns 0 or -1 with errno set.
static inline int sync_send_descriptor(int socket, const void *bytes, size_t count, int descriptor) {
    struct iovec piece = {.iov_base = (void *)bytes, .iov_len = count};
    union {
        struct cmsghdr head;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control = {0};
    struct msghdr message = {
        .msg_iov = &piece, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof control.bytes};
    struct cmsghdr *part = CMSG_FIRSTHDR(&message);
    part->cmsg_level = SOL_SOCKET;
    part->cmsg_type = SCM_RIGHTS;
    part->cmsg_len = CMSG_LEN(sizeof descriptor);
    memcpy(CMSG_DATA(part), &descriptor, sizeof descriptor);
    ssize_t sent = sendmsg(socket, &message, MSG_NOSIGNAL);
    while (sent >= 0 && (size_t)sent < count) {
        bytes = (const char *)bytes + sent;
        count -= (size_t)sent;
        sent = send(socket, bytes, count, MSG_NOSIGNAL);
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
