// A TCP relay that counts: what the agent and the floor put on the wire is measured outside both, in the same way. It can also stand
// for the way to a server on another machine, and then delivers each byte late.

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
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/// Payload of one Ethernet frame: 1500 - 20 (IP) - 20 (TCP) - 12 (timestamps).
#define SEGMENT_BYTES 1448

struct bench_relay {
    int listener;
    /// Closed at the end: wakes every thread that polls the other end.
    int stop[2];
    uint16_t target_port;
    /// A Unix socket in the place of a port; empty: the port.
    struct sockaddr_un target_socket;
    /// Time that each byte is on its way, in either direction.
    uint64_t delay_ns;
    pthread_t acceptor;
    atomic_int threads;
    atomic_ullong connections, bytes[2], segments[2];
};

typedef struct carried {
    bench_relay *relay;
    int client;
} carried;

static int connect_to(const bench_relay *relay) {
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(relay->target_port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    if (relay->target_socket.sun_path[0]) {
        const struct sockaddr *target = (const struct sockaddr *)&relay->target_socket;
        int local = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (local < 0 || connect(local, target, sizeof relay->target_socket) == 0) return local;
        close(local);
        return -1;
    }
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
    int sides[2] = {carried.client, connect_to(relay)};
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

/// Bytes that one side has sent and the other does not have yet, in their order.
typedef struct piece {
    struct piece *next;
    uint64_t due;
    size_t size, sent;
    char bytes[];
} piece;

typedef struct {
    piece *first, **last;
    size_t bytes;
} queue;

/// Bytes on their way in one direction from which on nothing more is read, as a full window does.
#define QUEUE_BYTES (8u << 20)
#define PIECE_BYTES (64u << 10)

static int take_in(bench_relay *relay, int side, int fd, queue *queue, char *buffer) {
    ssize_t count = recv(fd, buffer, PIECE_BYTES, MSG_DONTWAIT);
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) return 0;
    if (count <= 0) return -1;
    piece *piece = malloc(sizeof *piece + (size_t)count);
    if (!piece) return -1;
    *piece = (struct piece){.due = now_ns() + relay->delay_ns, .size = (size_t)count};
    memcpy(piece->bytes, buffer, (size_t)count);
    *queue->last = piece;
    queue->last = &piece->next;
    queue->bytes += piece->size;
    atomic_fetch_add(&relay->bytes[side], (unsigned long long)count);
    atomic_fetch_add(&relay->segments[side], (unsigned long long)(count + SEGMENT_BYTES - 1) / SEGMENT_BYTES);
    return 0;
}

/// Writes what is due. Fails when the receiver is gone; one that is slow gets the rest later.
static int hand_on(int fd, queue *queue) {
    while (queue->first && queue->first->due <= now_ns()) {
        piece *piece = queue->first;
        ssize_t count = send(fd, piece->bytes + piece->sent, piece->size - piece->sent, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (count < 0 && (errno == EAGAIN || errno == EINTR)) return 0;
        if (count < 0) return -1;
        piece->sent += (size_t)count;
        queue->bytes -= (size_t)count;
        if (piece->sent < piece->size) continue;
        queue->first = piece->next;
        if (!queue->first) queue->last = &queue->first;
        free(piece);
    }
    return 0;
}

/// Returns the events to wait for at one side: bytes of its own, unless as many are on their way already, and room for those of the other
/// that are due.
static short events_of(const queue *own, const queue *other, int is_ended, uint64_t now) {
    short events = 0;
    if (!is_ended && own->bytes < QUEUE_BYTES) events |= POLLIN;
    if (other->first && other->first->due <= now) events |= POLLOUT;
    return events;
}

/// Does the same as carry, but each piece arrives `delay_ns` after it came in. Many pieces are on their way at a time, as on a wire: a sender that does
/// not wait for answers is not slowed down.
static void *carry_late(void *argument) {
    struct carried carried = *(struct carried *)argument;
    free(argument);
    bench_relay *relay = carried.relay;
    int sides[2] = {carried.client, connect_to(relay)};
    queue queues[2] = {{.last = &queues[0].first}, {.last = &queues[1].first}};
    char *buffer = malloc(PIECE_BYTES);
    int is_open = buffer != NULL && sides[1] >= 0, is_ended = 0;
    // Otherwise the kernel may wake this thread 50 microseconds late.
    prctl(PR_SET_TIMERSLACK, 1000);
    while (is_open && !(is_ended && !queues[0].first && !queues[1].first)) {
        uint64_t now = now_ns(), next = UINT64_MAX;
        struct pollfd watched[3] = {{.fd = relay->stop[0], .events = POLLIN}};
        for (int side = 0; side < 2; side++) {
            const queue *other = &queues[1 - side];
            watched[1 + side] = (struct pollfd){.fd = sides[side], .events = events_of(&queues[side], other, is_ended, now)};
            if (other->first && other->first->due > now && other->first->due < next) next = other->first->due;
            // Without a wish poll would still report the end of a side, again and again.
            if (watched[1 + side].events == 0) watched[1 + side].fd = -1;
        }
        uint64_t wait = next == UINT64_MAX ? 1000000000u : next - now;
        struct timespec timeout = {.tv_sec = (time_t)(wait / 1000000000u), .tv_nsec = (long)(wait % 1000000000u)};
        if (ppoll(watched, 3, &timeout, NULL) < 0 && errno != EINTR) break;
        if (watched[0].revents) break;
        for (int side = 0; side < 2 && is_open; side++) {
            short seen = watched[1 + side].revents;
            // One side's end ends both, after what is on its way.
            if (seen & (POLLIN | POLLHUP | POLLERR) && !is_ended) {
                is_ended = take_in(relay, side, sides[side], &queues[side], buffer) != 0;
            }
            is_open = hand_on(sides[side], &queues[1 - side]) == 0;
        }
    }
    for (int side = 0; side < 2; side++) {
        for (piece *piece = queues[side].first, *next; piece; piece = next) {
            next = piece->next;
            free(piece);
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
        if (!carried || pthread_create(&thread, NULL, relay->delay_ns > 0 ? carry_late : carry, carried) != 0) {
            free(carried);
            close(client);
            atomic_fetch_sub(&relay->threads, 1);
            continue;
        }
        pthread_detach(thread);
    }
}

/// Takes over `relay`; NULL after a failure.
static bench_relay *begin(bench_relay *relay, uint16_t *port, bench_failure *failure) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    relay->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    relay->stop[0] = relay->stop[1] = -1;
    if (relay->listener < 0 || pipe2(relay->stop, O_CLOEXEC) != 0
        || bind(relay->listener, (struct sockaddr *)&address, size) != 0 || listen(relay->listener, 64) != 0
        || getsockname(relay->listener, (struct sockaddr *)&address, &size) != 0
        || pthread_create(&relay->acceptor, NULL, accept_all, relay) != 0) {
        bench_fail(failure, "listen on a loopback port: %s", strerror(errno));
        close(relay->listener);
        close(relay->stop[0]);
        close(relay->stop[1]);
        free(relay);
        return NULL;
    }
    *port = ntohs(address.sin_port);
    return relay;
}

static bench_relay *make(bench_failure *failure) {
    bench_relay *relay = calloc(1, sizeof *relay);
    if (!relay) bench_fail(failure, "out of memory");
    return relay;
}

bench_relay *bench_relay_start(uint16_t target_port, uint16_t *port, bench_failure *failure) {
    bench_relay *relay = make(failure);
    if (!relay) return NULL;
    relay->target_port = target_port;
    return begin(relay, port, failure);
}

bench_relay *bench_relay_start_late(const char *target_socket, uint64_t delay_ns, uint16_t *port, bench_failure *failure) {
    bench_relay *relay = make(failure);
    if (!relay) return NULL;
    relay->delay_ns = delay_ns;
    relay->target_socket.sun_family = AF_UNIX;
    if (strlen(target_socket) >= sizeof relay->target_socket.sun_path) {
        bench_fail(failure, "%s is too long for a socket", target_socket);
        free(relay);
        return NULL;
    }
    strcpy(relay->target_socket.sun_path, target_socket);
    return begin(relay, port, failure);
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
