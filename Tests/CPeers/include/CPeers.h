#ifndef CPEERS_H
#define CPEERS_H

// The C half of peerbench: the load for other programs that keep messages, with the rows that the agent gets.
//
// Functions that can fail return 0 or -1 and then put one sentence into `failure`.

#include <CBenchFloors.h>

typedef enum { BENCH_PEER_REDIS, BENCH_PEER_BEANSTALKD, BENCH_PEER_NATS, BENCH_PEER_MQTT } bench_peer;

typedef struct {
    bench_peer peer;
    /// Port of the broker at 127.0.0.1.
    uint16_t port;
    int connections;
    uint64_t requests;
} bench_peer_plan;

/// Makes the queue that the load needs: a stream of JetStream, a session that wants the messages of MQTT.
int bench_peer_prepare(bench_peer peer, uint16_t port, bench_failure *failure);

/// The rows of the other loads, one message a request, one at a time on each connection, each until it is acknowledged.
/// `each` has room for `requests` values.
int bench_peer_load(const bench_peer_plan *plan, uint64_t *each, uint64_t *nanoseconds, bench_failure *failure);

/// The same rows as lines of syslog over TCP, which has no acknowledgements.
int bench_peer_lines(uint16_t port, uint64_t count, bench_failure *failure);

#endif
