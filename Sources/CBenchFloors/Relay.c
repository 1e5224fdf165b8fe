// A TCP relay that counts: what the agent and the floor put on the wire is measured outside both, in the same way.

#include "Internal.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/// Payload of one Ethernet frame: 1500 - 20 (IP) - 20 (TCP) - 12 (timestamps).
#define SEGMENT_BYTES 1448

struct bench_relay {
    int listener;
    /// Closed at the end: wakes every thread that polls the other end.
    int stop[2];
    uint16_t target_port;
    pthread_t acceptor;
    atomic_int threads;
    atomic_ullong connections, bytes[2], segments[2];
};

typedef struct carried {
    bench_relay *relay;
    int client;
} carried;

static int connect_to(uint16_t port) {
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
    if (fd < 0) return -1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (connect(fd, (struct sockaddr *)&address, sizeof address) == 0) return fd;
    close(fd);
    return -1;
}

static int write_all(int fd, const char *bytes, size_t count) {
    while (count > 0) {
        ssize_t written = send(fd, bytes, count, MSG_NOSIGNAL);
        if (written < 0 && errno == EINTR) continue;
        if (written <= 0) return -1;
        bytes += written;
        count -= (size_t)written;
    }
    return 0;
}

/// Side 0 is the client: what is read from it goes up.
static void *carry(void *argument) {
    struct carried carried = *(struct carried *)argument;
    free(argument);
    bench_relay *relay = carried.relay;
    int sides[2] = {carried.client, connect_to(relay->target_port)};
    char *buffer = malloc(256 << 10);
    int is_open = buffer != NULL && sides[1] >= 0;
    while (is_open) {
        struct pollfd watched[3] = {
            {.fd = sides[0], .events = POLLIN},
            {.fd = sides[1], .events = POLLIN},
            {.fd = relay->stop[0], .events = POLLIN},
        };
        if (poll(watched, 3, -1) < 0 && errno != EINTR) break;
        if (watched[2].revents) break;
        for (int side = 0; side < 2 && is_open; side++) {
            if (!watched[side].revents) continue;
            ssize_t count = recv(sides[side], buffer, 256 << 10, 0);
            // One side's end ends both: neither the agent nor the floor uses half-closed connections.
            is_open = count > 0 && write_all(sides[1 - side], buffer, (size_t)count) == 0;
            if (count <= 0) continue;
            atomic_fetch_add(&relay->bytes[side], (unsigned long long)count);
            atomic_fetch_add(&relay->segments[side], (unsigned long long)(count + SEGMENT_BYTES - 1) / SEGMENT_BYTES);
        }
    }
    free(buffer);
    close(sides[0]);
    if (sides[1] >= 0) close(sides[1]);
    atomic_fetch_sub(&relay->threads, 1);
    return NULL;
}

static void *accept_all(void *argument) {
    bench_relay *relay = argument;
    for (;;) {
        struct pollfd watched[2] = {
            {.fd = relay->listener, .events = POLLIN},
            {.fd = relay->stop[0], .events = POLLIN},
        };
        if (poll(watched, 2, -1) < 0 && errno != EINTR) return NULL;
        if (watched[1].revents) return NULL;
        if (!watched[0].revents) continue;
        int client = accept4(relay->listener, NULL, NULL, SOCK_CLOEXEC), on = 1;
        if (client < 0) continue;
        setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        atomic_fetch_add(&relay->connections, 1);
        atomic_fetch_add(&relay->threads, 1);
        carried *carried = malloc(sizeof *carried);
        pthread_t thread;
        if (carried) *carried = (struct carried){.relay = relay, .client = client};
        if (!carried || pthread_create(&thread, NULL, carry, carried) != 0) {
            free(carried);
            close(client);
            atomic_fetch_sub(&relay->threads, 1);
            continue;
        }
        pthread_detach(thread);
    }
}

bench_relay *bench_relay_start(uint16_t target_port, uint16_t *port, bench_failure *failure) {
    bench_relay *relay = calloc(1, sizeof *relay);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    if (!relay) {
        fail(failure, "out of memory");
        return NULL;
    }
    relay->target_port = target_port;
    relay->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    relay->stop[0] = relay->stop[1] = -1;
    if (relay->listener < 0 || pipe2(relay->stop, O_CLOEXEC) != 0
        || bind(relay->listener, (struct sockaddr *)&address, size) != 0 || listen(relay->listener, 64) != 0
        || getsockname(relay->listener, (struct sockaddr *)&address, &size) != 0
        || pthread_create(&relay->acceptor, NULL, accept_all, relay) != 0) {
        fail(failure, "listen on a loopback port: %s", strerror(errno));
        close(relay->listener);
        close(relay->stop[0]);
        close(relay->stop[1]);
        free(relay);
        return NULL;
    }
    *port = ntohs(address.sin_port);
    return relay;
}

bench_relay_counts bench_relay_read(bench_relay *relay) {
    return (bench_relay_counts){
        .connections = relay->connections,
        .bytes_up = relay->bytes[0],
        .bytes_down = relay->bytes[1],
        .segments_up = relay->segments[0],
        .segments_down = relay->segments[1],
    };
}

void bench_relay_stop(bench_relay *relay) {
    if (!relay) return;
    close(relay->stop[1]);
    pthread_join(relay->acceptor, NULL);
    while (atomic_load(&relay->threads) > 0) poll(NULL, 0, 1);
    close(relay->listener);
    close(relay->stop[0]);
    free(relay);
}
