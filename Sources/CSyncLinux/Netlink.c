#define _GNU_SOURCE
#include "NetlinkShims.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

int csl_netlink_open(int protocol, uint32_t groups, int receive_bytes) {
    int descriptor = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, protocol);
    if (descriptor < 0) return -errno;
    struct sockaddr_nl address = {.nl_family = AF_NETLINK, .nl_groups = groups};
    int problem = 0;
    if (receive_bytes > 0
        && setsockopt(descriptor, SOL_SOCKET, SO_RCVBUF, &receive_bytes, sizeof receive_bytes) != 0) {
        problem = errno;
    } else if (bind(descriptor, (struct sockaddr *)&address, sizeof address) != 0) {
        problem = errno;
    }
    if (problem == 0) return descriptor;
    close(descriptor);
    return -problem;
}

ssize_t csl_netlink_receive(int descriptor, void *buffer, size_t size, uint32_t *sender, uint32_t *group) {
    struct sockaddr_nl address = {0};
    struct iovec piece = {.iov_base = buffer, .iov_len = size};
    struct msghdr message = {
        .msg_name = &address, .msg_namelen = sizeof address, .msg_iov = &piece, .msg_iovlen = 1};
    ssize_t count;
    // MSG_TRUNC: the result is the datagram's own length, so that a cut one is noticed.
    do count = recvmsg(descriptor, &message, MSG_DONTWAIT | MSG_TRUNC); while (count < 0 && errno == EINTR);
    if (count < 0) return -errno;
    // An address of another size is not a netlink peer's; no peer has this number.
    *sender = message.msg_namelen == sizeof address ? address.nl_pid : UINT32_MAX;
    *group = message.msg_namelen == sizeof address ? address.nl_groups : 0;
    return count;
}

int csl_netlink_send(int descriptor, const void *bytes, size_t size) {
    struct sockaddr_nl kernel = {.nl_family = AF_NETLINK};
    ssize_t count;
    do count = sendto(descriptor, bytes, size, 0, (struct sockaddr *)&kernel, sizeof kernel);
    while (count < 0 && errno == EINTR);
    if (count < 0) return -errno;
    return (size_t)count == size ? 0 : -EIO;
}

int csl_event_open(void) {
    int descriptor = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    return descriptor < 0 ? -errno : descriptor;
}

void csl_event_raise(int descriptor) {
    uint64_t one = 1;
    // A full counter is raised already.
    ssize_t ignored = write(descriptor, &one, sizeof one);
    (void)ignored;
}

void csl_event_clear(int descriptor) {
    uint64_t count;
    ssize_t ignored = read(descriptor, &count, sizeof count);
    (void)ignored;
}

int csl_wait_readable(int first, int second, int timeout_ms) {
    struct pollfd polled[2] = {{.fd = first, .events = POLLIN}, {.fd = second, .events = POLLIN}};
    int count = poll(polled, 2, timeout_ms);
    // EINTR and the like: the caller looks at both and comes back.
    if (count < 0) return 3;
    return (polled[0].revents != 0 ? 1 : 0) | (polled[1].revents != 0 ? 2 : 0);
}

int csl_resolve(const char *host, char *text, int limit) {
    struct addrinfo wish = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM}, *found = NULL;
    int code = getaddrinfo(host, NULL, &wish, &found);
    if (code != 0) return code < 0 ? code : -code;
    int count = 0;
    for (struct addrinfo *one = found; one && count < limit; one = one->ai_next) {
        const void *address;
        if (one->ai_family == AF_INET) address = &((struct sockaddr_in *)one->ai_addr)->sin_addr;
        else if (one->ai_family == AF_INET6) address = &((struct sockaddr_in6 *)one->ai_addr)->sin6_addr;
        else continue;
        char *place = text + (size_t)count * INET6_ADDRSTRLEN;
        if (inet_ntop(one->ai_family, address, place, INET6_ADDRSTRLEN)) count++;
    }
    freeaddrinfo(found);
    return count;
}

const char *csl_resolve_error_text(int code) {
    return gai_strerror(code);
}
