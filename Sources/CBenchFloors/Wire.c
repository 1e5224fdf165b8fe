// A slow link between two network namespaces: what goes in at one end comes out at the other a while later, and no faster
// than the link carries. The kernels of small machines lack netem, so the packets of two TUN devices are carried here, under
// the real TCP of both sides.

#include "Internal.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

/// A TUN device of 1500 bytes MTU.
#define PACKET_BYTES 1500
/// Most packets that wait at an end of the link, as in a modem; more are dropped. 200 packets are 0.24 s at 10 Mbit/s.
#define QUEUE_PACKETS 200
/// Most packets that are under way besides: all that a link of 100 Mbit/s and 100 ms can hold.
#define UNDERWAY_PACKETS 1024

typedef struct packet {
    /// When it is there.
    uint64_t due;
    uint16_t size;
    char bytes[PACKET_BYTES];
} packet;

typedef struct direction {
    packet *packets;
    size_t first, count;
    /// When the last of them has left.
    uint64_t busy;
} direction;

/// A TCP connection that a packet was seen of.
typedef struct flow {
    /// Both ends, the lesser first; 0: this place is free.
    uint64_t one, other;
    uint64_t last;
} flow;

#define FLOWS 256

struct bench_wire {
    int ends[2];
    int stop[2];
    pthread_mutex_t lock;
    /// Guarded by the lock; the carrier works by the copy that it has taken.
    bench_wire_plan wanted;
    bench_wire_plan plan;
    flow flows[FLOWS];
    direction ways[2];
    pthread_t carrier;
};

static const size_t capacity = QUEUE_PACKETS + UNDERWAY_PACKETS;

static int open_tun(const char *name) {
    struct ifreq request = {.ifr_flags = IFF_TUN | IFF_NO_PI};
    int device = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
    if (device < 0) return -1;
    snprintf(request.ifr_name, sizeof request.ifr_name, "%s", name);
    if (ioctl(device, TUNSETIFF, &request) == 0) return device;
    close(device);
    return -1;
}

/// Returns 1 when the NAT lets this packet pass. It drops packets of connections that it has forgotten.
static int passes(struct bench_wire *wire, const unsigned char *bytes, size_t size, uint64_t now) {
    size_t head = size >= 20 ? (size_t)(bytes[0] & 15) * 4 : 0;
    if (head < 20 || bytes[0] >> 4 != 4 || bytes[9] != IPPROTO_TCP || size < head + 14) return 1;
    uint64_t from = 0, to = 0;
    for (int byte = 0; byte < 4; byte++) {
        from = from << 8 | bytes[12 + byte];
        to = to << 8 | bytes[16 + byte];
    }
    from = from << 16 | (uint64_t)bytes[head] << 8 | bytes[head + 1];
    to = to << 16 | (uint64_t)bytes[head + 2] << 8 | bytes[head + 3];
    uint64_t one = from < to ? from : to, other = from < to ? to : from;
    int begins = (bytes[head + 13] & 0x12) == 0x02;
    flow *known = NULL, *oldest = &wire->flows[0];
    for (int place = 0; place < FLOWS; place++) {
        flow *flow = &wire->flows[place];
        if (flow->one == one && flow->other == other) known = flow;
        if (flow->last < oldest->last) oldest = flow;
    }
    uint64_t limit = wire->plan.forgets_after_ns;
    if (!begins && limit && (!known || now - known->last > limit)) return 0;
    if (!known) known = oldest;
    *known = (flow){.one = one, .other = other, .last = now};
    return 1;
}

/// Takes what came in at the near end; drops what no longer fits.
static void take(struct bench_wire *wire, int side, uint64_t now) {
    direction *way = &wire->ways[side];
    char bytes[PACKET_BYTES];
    ssize_t size;
    while ((size = read(wire->ends[side], bytes, sizeof bytes)) > 0) {
        if (!passes(wire, (unsigned char *)bytes, (size_t)size, now)) continue;
        uint64_t begins = way->busy > now ? way->busy : now;
        uint64_t lasts = (uint64_t)size * 8u * 1000000000u / wire->plan.bits_per_second;
        uint64_t waits = (uint64_t)QUEUE_PACKETS * PACKET_BYTES * 8u * 1000000000u / wire->plan.bits_per_second;
        if (way->count == capacity || begins - now > waits) continue;
        packet *packet = &way->packets[(way->first + way->count++) % capacity];
        way->busy = begins + lasts;
        packet->due = way->busy + wire->plan.delay_ns;
        packet->size = (uint16_t)size;
        memcpy(packet->bytes, bytes, (size_t)size);
    }
}

/// Hands over what is there by now.
///
/// Returns when the next one is; 0 when none is under way.
static uint64_t hand_over(struct bench_wire *wire, int side, uint64_t now) {
    direction *way = &wire->ways[side];
    while (way->count > 0) {
        packet *packet = &way->packets[way->first];
        if (packet->due > now) return packet->due;
        // A device that is down takes nothing: lost, as on any link.
        ssize_t written = write(wire->ends[1 - side], packet->bytes, packet->size);
        (void)written;
        way->first = (way->first + 1) % capacity;
        way->count--;
    }
    return 0;
}

static void *carry(void *argument) {
    struct bench_wire *wire = argument;
    for (;;) {
        uint64_t now = now_ns(), next = 0;
        pthread_mutex_lock(&wire->lock);
        wire->plan = wire->wanted;
        pthread_mutex_unlock(&wire->lock);
        for (int side = 0; side < 2; side++) {
            take(wire, side, now);
            uint64_t due = hand_over(wire, side, now);
            if (due && (!next || due < next)) next = due;
        }
        struct pollfd watched[3] = {
            {.fd = wire->ends[0], .events = POLLIN},
            {.fd = wire->ends[1], .events = POLLIN},
            {.fd = wire->stop[0], .events = POLLIN},
        };
        uint64_t wait = next > now ? next - now : 0;
        struct timespec timeout = {.tv_sec = (time_t)(wait / 1000000000u), .tv_nsec = (long)(wait % 1000000000u)};
        if (ppoll(watched, 3, next ? &timeout : NULL, NULL) < 0 && errno != EINTR) return NULL;
        if (watched[2].revents) return NULL;
    }
}

bench_wire *bench_wire_start(
    pid_t far, const char *near_name, const char *far_name, const bench_wire_plan *plan, bench_failure *failure) {
    struct bench_wire *wire = calloc(1, sizeof *wire);
    if (!wire) {
        bench_fail(failure, "out of memory");
        return NULL;
    }
    wire->plan = wire->wanted = *plan;
    pthread_mutex_init(&wire->lock, NULL);
    wire->stop[0] = wire->stop[1] = wire->ends[1] = -1;
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/ns/net", (int)far);
    int own = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    int other = open(path, O_RDONLY | O_CLOEXEC);
    wire->ends[0] = open_tun(near_name);
    // A device is made in the namespace in which it is opened, wherever its owner goes.
    if (own >= 0 && other >= 0 && setns(other, CLONE_NEWNET) == 0) {
        wire->ends[1] = open_tun(far_name);
        int error = errno;
        if (setns(own, CLONE_NEWNET) != 0) abort();
        errno = error;
    }
    int error = errno;
    if (own >= 0) close(own);
    if (other >= 0) close(other);
    errno = error;
    for (int side = 0; side < 2; side++) wire->ways[side].packets = calloc(capacity, sizeof(packet));
    if (wire->ends[0] >= 0 && wire->ends[1] >= 0 && wire->ways[0].packets && wire->ways[1].packets
        && pipe2(wire->stop, O_CLOEXEC) == 0 && pthread_create(&wire->carrier, NULL, carry, wire) == 0) {
        return wire;
    }
    bench_fail(failure, "a link to the network namespace of %d by /dev/net/tun: %s", (int)far, strerror(errno));
    for (int side = 0; side < 2; side++) {
        if (wire->ends[side] >= 0) close(wire->ends[side]);
        if (wire->stop[side] >= 0) close(wire->stop[side]);
        free(wire->ways[side].packets);
    }
    free(wire);
    return NULL;
}

void bench_wire_change(bench_wire *wire, const bench_wire_plan *plan) {
    pthread_mutex_lock(&wire->lock);
    wire->wanted = *plan;
    pthread_mutex_unlock(&wire->lock);
}

void bench_wire_stop(bench_wire *wire) {
    if (!wire) return;
    close(wire->stop[1]);
    pthread_join(wire->carrier, NULL);
    close(wire->stop[0]);
    for (int side = 0; side < 2; side++) {
        close(wire->ends[side]);
        free(wire->ways[side].packets);
    }
    free(wire);
}
