// The load for other programs that keep messages: the same rows as for the agent, one request at a time on each connection,
// and the time until the program says that it has the message.

#include "CPeers.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define ANSWER_TIMEOUT_S 30

typedef struct {
    int fd;
    int number;
    char in[8192];
    size_t held;
    char error[200];
} line;

static int broken(line *line, const char *words) {
    snprintf(line->error, sizeof line->error, "%s: %s", words, strerror(errno));
    return -1;
}

static int open_line(line *line, uint16_t port) {
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct timeval patience = {.tv_sec = ANSWER_TIMEOUT_S};
    int one = 1;
    line->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (line->fd < 0) return broken(line, "socket");
    setsockopt(line->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    setsockopt(line->fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    if (connect(line->fd, (struct sockaddr *)&address, sizeof address) != 0) return broken(line, "connect");
    return 0;
}

static int put(line *line, const void *bytes, size_t count) {
    const char *rest = bytes;
    while (count > 0) {
        ssize_t sent = send(line->fd, rest, count, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR) continue;
        if (sent <= 0) return broken(line, "send");
        rest += sent;
        count -= (size_t)sent;
    }
    return 0;
}

static int more(line *line) {
    if (line->held == sizeof line->in) return broken(line, "an answer that is too long");
    ssize_t count = recv(line->fd, line->in + line->held, sizeof line->in - line->held, 0);
    if (count <= 0) return broken(line, count == 0 ? "closed" : "receive");
    line->held += (size_t)count;
    return 0;
}

static void drop(line *line, size_t count) {
    line->held -= count;
    memmove(line->in, line->in + count, line->held);
}

/// Waits for `count` bytes and copies them out.
static int take(line *line, char *out, size_t count) {
    while (line->held < count) {
        if (more(line) != 0) return -1;
    }
    memcpy(out, line->in, count);
    drop(line, count);
    return 0;
}

/// Waits for a line that ends with CR LF; what of it fits goes to `out`, without its end.
static int take_text(line *line, char *out, size_t size) {
    for (;;) {
        char *end = memmem(line->in, line->held, "\r\n", 2);
        if (end) {
            size_t length = (size_t)(end - line->in);
            snprintf(out, size, "%.*s", (int)length, line->in);
            drop(line, length + 2);
            return 0;
        }
        if (more(line) != 0) return -1;
    }
}

static int said(line *line, const char *what) {
    snprintf(line->error, sizeof line->error, "it said \"%.150s\"", what);
    return -1;
}

// MARK: redis (RESP) and beanstalkd: a request, a line

static int redis_send(line *line, const char *payload) {
    char text[512];
    int length = snprintf(
        text, sizeof text, "*3\r\n$5\r\nRPUSH\r\n$5\r\nbench\r\n$%d\r\n%.*s\r\n", BENCH_PAYLOAD_BYTES, BENCH_PAYLOAD_BYTES,
        payload);
    char answer[200];
    if (put(line, text, (size_t)length) != 0 || take_text(line, answer, sizeof answer) != 0) return -1;
    return answer[0] == ':' ? 0 : said(line, answer);
}

static int beanstalkd_send(line *line, const char *payload) {
    char text[512];
    int length =
        snprintf(text, sizeof text, "put 0 0 60 %d\r\n%.*s\r\n", BENCH_PAYLOAD_BYTES, BENCH_PAYLOAD_BYTES, payload);
    char answer[200];
    if (put(line, text, (size_t)length) != 0 || take_text(line, answer, sizeof answer) != 0) return -1;
    return strncmp(answer, "INSERTED", 8) == 0 ? 0 : said(line, answer);
}

// MARK: NATS (docs.nats.io, client protocol): an acknowledgement of JetStream is a message to the inbox that was named

static int nats_answer(line *line, char *out, size_t size) {
    for (;;) {
        char text[512];
        if (take_text(line, text, sizeof text) != 0) return -1;
        if (strcmp(text, "PING") == 0) {
            if (put(line, "PONG\r\n", 6) != 0) return -1;
            continue;
        }
        if (strncmp(text, "MSG ", 4) != 0) return said(line, text);
        size_t length = strtoul(strrchr(text, ' ') + 1, NULL, 10);
        char body[8192];
        if (length + 2 > sizeof body || take(line, body, length + 2) != 0) return broken(line, "an answer that is too long");
        snprintf(out, size, "%.*s", (int)length, body);
        return 0;
    }
}

static int nats_hello(line *line) {
    char text[4096];
    if (take_text(line, text, sizeof text) != 0) return -1;
    int length = snprintf(
        text, sizeof text, "CONNECT {\"verbose\":false,\"pedantic\":false,\"name\":\"bench\"}\r\nSUB _INBOX.%d 1\r\nPING\r\n",
        line->number);
    if (put(line, text, (size_t)length) != 0 || take_text(line, text, sizeof text) != 0) return -1;
    return strcmp(text, "PONG") == 0 ? 0 : said(line, text);
}

static int nats_ask(line *line, const char *subject, const char *body, int count, const char *expected) {
    char text[1024], answer[4096];
    int length = snprintf(text, sizeof text, "PUB %s _INBOX.%d %d\r\n%.*s\r\n", subject, line->number, count, count, body);
    if (put(line, text, (size_t)length) != 0 || nats_answer(line, answer, sizeof answer) != 0) return -1;
    return strstr(answer, expected) && !strstr(answer, "\"error\"") ? 0 : said(line, answer);
}

static int nats_prepare(line *line) {
    const char *stream = "{\"name\":\"BENCH\",\"subjects\":[\"bench\"],\"storage\":\"file\",\"num_replicas\":1}";
    return nats_ask(line, "$JS.API.STREAM.CREATE.BENCH", stream, (int)strlen(stream), "BENCH");
}

static int nats_send(line *line, const char *payload) {
    return nats_ask(line, "bench", payload, BENCH_PAYLOAD_BYTES, "\"seq\"");
}

// MARK: MQTT 3.1.1

static int mqtt_connect(line *line, const char *client, int clean) {
    char packet[128] = {0x10, 0, 0, 4, 'M', 'Q', 'T', 'T', 4, (char)(clean ? 2 : 0), 0, 0};
    size_t name = strlen(client);
    packet[12] = 0;
    packet[13] = (char)name;
    memcpy(packet + 14, client, name);
    packet[1] = (char)(12 + name);
    char answer[4];
    if (put(line, packet, 14 + name) != 0 || take(line, answer, 4) != 0) return -1;
    return answer[0] == 0x20 && answer[3] == 0 ? 0 : said(line, "no CONNACK");
}

static int mqtt_hello(line *line) {
    char name[32];
    snprintf(name, sizeof name, "bench-%d", line->number);
    return mqtt_connect(line, name, 1);
}

/// A broker without a subscriber keeps no messages. So this makes a session that stays subscribed and is away.
static int mqtt_prepare(line *line) {
    static const char subscribe[] = {(char)0x82, 10, 0, 1, 0, 5, 'b', 'e', 'n', 'c', 'h', 1};
    char answer[5];
    if (put(line, subscribe, sizeof subscribe) != 0 || take(line, answer, 5) != 0) return -1;
    if ((unsigned char)answer[0] != 0x90 || answer[4] != 1) return said(line, "no SUBACK");
    return put(line, "\xE0\0", 2);
}

static int mqtt_send(line *line, const char *payload) {
    char packet[16 + BENCH_PAYLOAD_BYTES] = {0x32};
    int rest = 2 + 5 + 2 + BENCH_PAYLOAD_BYTES;
    packet[1] = (char)(rest % 128 + 128);
    packet[2] = (char)(rest / 128);
    memcpy(packet + 3, "\0\5bench\0\1", 9);
    memcpy(packet + 12, payload, BENCH_PAYLOAD_BYTES);
    char answer[4];
    if (put(line, packet, 12 + BENCH_PAYLOAD_BYTES) != 0 || take(line, answer, 4) != 0) return -1;
    return answer[0] == 0x40 ? 0 : said(line, "no PUBACK");
}

// MARK: The load

typedef struct {
    int (*hello)(line *);
    int (*send)(line *, const char *payload);
} protocol;

static protocol protocol_of(bench_peer peer) {
    switch (peer) {
    case BENCH_PEER_REDIS: return (protocol){NULL, redis_send};
    case BENCH_PEER_BEANSTALKD: return (protocol){NULL, beanstalkd_send};
    case BENCH_PEER_NATS: return (protocol){nats_hello, nats_send};
    case BENCH_PEER_MQTT: return (protocol){mqtt_hello, mqtt_send};
    }
    abort();
}

typedef struct {
    const bench_peer_plan *plan;
    uint64_t *each;
    atomic_ullong next;
    atomic_int has_failed;
    pthread_barrier_t start;
    bench_failure *failure;
} crew;

typedef struct {
    crew *crew;
    int number;
} worker;

static void *work(void *argument) {
    worker *worker = argument;
    crew *crew = worker->crew;
    protocol protocol = protocol_of(crew->plan->peer);
    line *line = calloc(1, sizeof *line);
    line->number = worker->number;
    int result = open_line(line, crew->plan->port);
    if (result == 0 && protocol.hello) result = protocol.hello(line);
    pthread_barrier_wait(&crew->start);
    while (result == 0 && !crew->has_failed) {
        uint64_t index = atomic_fetch_add(&crew->next, 1);
        if (index >= crew->plan->requests) break;
        char payload[BENCH_PAYLOAD_BYTES];
        bench_payload(index, payload);
        uint64_t before = bench_now();
        result = protocol.send(line, payload);
        crew->each[index] = bench_now() - before;
    }
    if (result != 0 && atomic_exchange(&crew->has_failed, 1) == 0) bench_fail(crew->failure, "%s", line->error);
    if (line->fd > 0) close(line->fd);
    free(line);
    return NULL;
}

int bench_peer_prepare(bench_peer peer, uint16_t port, bench_failure *failure) {
    line line = {.number = 0};
    int result = open_line(&line, port);
    if (result == 0 && peer == BENCH_PEER_NATS) {
        result = nats_hello(&line) == 0 ? nats_prepare(&line) : -1;
    } else if (result == 0 && peer == BENCH_PEER_MQTT) {
        result = mqtt_connect(&line, "away", 0) == 0 ? mqtt_prepare(&line) : -1;
    }
    if (line.fd > 0) close(line.fd);
    return result == 0 ? 0 : bench_fail(failure, "%s", line.error);
}

int bench_peer_load(const bench_peer_plan *plan, uint64_t *each, uint64_t *nanoseconds, bench_failure *failure) {
    crew crew = {.plan = plan, .each = each, .failure = failure};
    pthread_t threads[plan->connections];
    worker workers[plan->connections];
    pthread_barrier_init(&crew.start, NULL, (unsigned)plan->connections + 1);
    for (int i = 0; i < plan->connections; i++) {
        workers[i] = (worker){&crew, i + 1};
        if (pthread_create(&threads[i], NULL, work, &workers[i]) != 0) abort();
    }
    pthread_barrier_wait(&crew.start);
    uint64_t start = bench_now();
    for (int i = 0; i < plan->connections; i++) pthread_join(threads[i], NULL);
    *nanoseconds = bench_now() - start;
    pthread_barrier_destroy(&crew.start);
    return crew.has_failed ? -1 : 0;
}

int bench_peer_lines(uint16_t port, uint64_t count, bench_failure *failure) {
    line line = {.number = 0};
    int result = open_line(&line, port);
    for (uint64_t i = 0; i < count && result == 0; i++) {
        char payload[BENCH_PAYLOAD_BYTES], text[BENCH_PAYLOAD_BYTES + 64];
        bench_payload(i, payload);
        int length = snprintf(text, sizeof text, "<13>Nov 22 10:00:00 bench app: %.*s\n", BENCH_PAYLOAD_BYTES, payload);
        result = put(&line, text, (size_t)length);
    }
    if (line.fd > 0) close(line.fd);
    return result == 0 ? 0 : bench_fail(failure, "%s", line.error);
}
