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
