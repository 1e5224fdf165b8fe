// The load: N connections over the Unix socket, one request at a time on each, driven by one thread so that the load
// takes as little as possible of the processors that it shares with the agent.

#include "Answer.h"
#include "Internal.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#define ANSWER_TIMEOUT_MS 60000

// MARK: Connecting

/// Connects, and as another user where `user` is not ours.
///
/// The kernel notes the effective user at connect(2) for SO_PEERCRED, and credentials belong to the thread when set by
/// the system call itself. The file system user stays root, so that the socket's folder can be reached.
static int connect_unix(const char *path, uint32_t user, bench_failure *failure) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof address.sun_path) return bench_fail(failure, "%s is too long for a socket", path);
    strcpy(address.sun_path, path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) return bench_fail(failure, "socket: %s", strerror(errno));

    uid_t ours = geteuid();
    int is_other = user != ours;
    if (is_other && syscall(SYS_setresuid, -1, user, -1) != 0) {
        close(fd);
        return bench_fail(failure, "act as user %u: %s", user, strerror(errno));
    }
    if (is_other) syscall(SYS_setfsuid, ours);
    int result = connect(fd, (struct sockaddr *)&address, sizeof address), error = errno;
    if (is_other && syscall(SYS_setresuid, -1, ours, -1) != 0) abort();
    if (result == 0) return fd;
    close(fd);
    return bench_fail(failure, "connect %s: %s", path, strerror(error));
}

static uint32_t user_of(const bench_load_plan *plan, int connection) {
    return plan->user_count > 0 ? plan->users[connection % plan->user_count] : geteuid();
}

static int send_all(int fd, const char *bytes, size_t count) {
    while (count > 0) {
        ssize_t sent = send(fd, bytes, count, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR) continue;
        if (sent < 0 && errno == EAGAIN) {
            poll(&(struct pollfd){.fd = fd, .events = POLLOUT}, 1, ANSWER_TIMEOUT_MS);
            continue;
        }
        if (sent <= 0) return -1;
        bytes += sent;
        count -= (size_t)sent;
    }
    return 0;
}

/// One mutation as JSON, without a newline. `out` has room for 512 bytes.
static int mutation_json(const bench_load_plan *plan, uint64_t index, char out[512]) {
    char payload[BENCH_PAYLOAD_BYTES];
    bench_payload(index, payload);
    char name[48] = "";
    if (plan->with_record_id) snprintf(name, sizeof name, "\"record_id\":\"rec-%012llu\",", (unsigned long long)index);
    return snprintf(
        out, 512, "{\"entity\":\"%s\",%s\"action\":\"create\",\"data\":%.*s}", plan->entity, name, BENCH_PAYLOAD_BYTES,
        payload);
}

// MARK: One mutation a request

typedef struct {
    int fd;
    answer answer;
    uint64_t request;
    uint64_t sent_at;
    char refusal[BENCH_FAILURE_BYTES];
    size_t refusal_length;
} lane;

typedef struct {
    const bench_load_plan *plan;
    uint64_t *each;
    bench_load_result *result;
    uint64_t next, finished, first_counted_at;
} load;

static void keep_refusal(void *context, const char *bytes, size_t count) {
    lane *lane = context;
    if (lane->answer.status == 201) return;
    size_t room = sizeof lane->refusal - 1 - lane->refusal_length;
    memcpy(lane->refusal + lane->refusal_length, bytes, count < room ? count : room);
    lane->refusal_length += count < room ? count : room;
}

static int send_next(load *load, lane *lane, bench_failure *failure) {
    uint64_t request = load->next++;
    char body[512], text[1024];
    int length = mutation_json(load->plan, load->plan->first_index + request, body);
    int total = snprintf(
        text, sizeof text,
        "POST /v1/mutations HTTP/1.1\r\nHost: agent\r\nContent-Type: application/json\r\n"
        "Content-Length: %d\r\n\r\n%s",
        length, body);
    lane->request = request;
    lane->refusal_length = 0;
    answer_begin(&lane->answer);
    lane->sent_at = now_ns();
    if (request == load->plan->warmup) load->first_counted_at = lane->sent_at;
    if (send_all(lane->fd, text, (size_t)total) != 0) return bench_fail(failure, "send to the agent: %s", strerror(errno));
    return 0;
}

static void finish(load *load, lane *lane) {
    uint64_t taken = now_ns() - lane->sent_at;
    load->finished++;
    if (lane->request < load->plan->warmup) return;
    load->each[lane->request - load->plan->warmup] = taken;
    if (lane->answer.status == 201) {
        load->result->accepted++;
        return;
    }
    if (load->result->refused++ > 0) return;
    snprintf(
        load->result->first_refusal, sizeof load->result->first_refusal, "%d %.*s", lane->answer.status,
        (int)lane->refusal_length, lane->refusal);
}

/// Takes what has arrived on a lane; when that ends an answer, counts it and sends the next request.
static int receive(load *load, lane *lane, bench_failure *failure) {
    char buffer[16 << 10];
    ssize_t count = recv(lane->fd, buffer, sizeof buffer, 0);
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) return 0;
    if (count <= 0) {
        return bench_fail(failure, "the agent closed a connection after %llu answers", (unsigned long long)load->finished);
    }
    if (answer_take(&lane->answer, buffer, (size_t)count, keep_refusal, lane) < 0) {
        return bench_fail(failure, "the agent's answer is not HTTP");
    }
    if (lane->answer.state != ANSWER_DONE) return 0;
    finish(load, lane);
    return load->next < load->plan->warmup + load->plan->requests ? send_next(load, lane, failure) : 0;
}

static int run_lanes(load *load, lane *lanes, int count, bench_failure *failure) {
    uint64_t total = load->plan->warmup + load->plan->requests;
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    if (epoll < 0) return bench_fail(failure, "epoll_create1: %s", strerror(errno));
    for (int i = 0; i < count; i++) {
        struct epoll_event wanted = {.events = EPOLLIN, .data.ptr = &lanes[i]};
        epoll_ctl(epoll, EPOLL_CTL_ADD, lanes[i].fd, &wanted);
    }
    int result = 0;
    for (int i = 0; i < count && load->next < total && result == 0; i++) result = send_next(load, &lanes[i], failure);
    while (result == 0 && load->finished < total) {
        // A single connection waits in recv: one system call less on each request, as a simple client has it.
        if (count == 1) {
            result = receive(load, &lanes[0], failure);
            continue;
        }
        struct epoll_event ready[64];
        int events = epoll_wait(epoll, ready, 64, ANSWER_TIMEOUT_MS);
        if (events == 0) result = bench_fail(failure, "the agent did not answer for %d s", ANSWER_TIMEOUT_MS / 1000);
        for (int i = 0; i < events && result == 0; i++) result = receive(load, ready[i].data.ptr, failure);
    }
    close(epoll);
    return result;
}

int bench_load(const bench_load_plan *plan, uint64_t *each, bench_load_result *result, bench_failure *failure) {
    memset(result, 0, sizeof *result);
    lane *lanes = calloc((size_t)plan->connections, sizeof *lanes);
    if (!lanes) return bench_fail(failure, "out of memory");
    int opened = 0, outcome = 0;
    for (; opened < plan->connections; opened++) {
        int fd = connect_unix(plan->socket_path, user_of(plan, opened), failure);
        if (fd < 0) {
            outcome = -1;
            break;
        }
        if (plan->connections > 1) fcntl(fd, F_SETFL, O_NONBLOCK);
        struct timeval patience = {.tv_sec = ANSWER_TIMEOUT_MS / 1000};
        setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
        lanes[opened].fd = fd;
    }
    load load = {.plan = plan, .each = each, .result = result};
    if (outcome == 0) outcome = run_lanes(&load, lanes, opened, failure);
    result->nanoseconds = now_ns() - load.first_counted_at;
    for (int i = 0; i < opened; i++) close(lanes[i].fd);
    free(lanes);
    return outcome;
}

// MARK: One stream of lines

typedef struct {
    char last[BENCH_FAILURE_BYTES];
    size_t length;
    int line_is_over;
} last_line;

/// Keeps the latest line of the answer: the summary, in the end.
static void keep_line(void *context, const char *bytes, size_t count) {
    last_line *line = context;
    for (size_t i = 0; i < count; i++) {
        if (line->line_is_over) line->length = 0;
        line->line_is_over = bytes[i] == '\n';
        if (!line->line_is_over && line->length + 1 < sizeof line->last) line->last[line->length++] = bytes[i];
    }
    line->last[line->length] = 0;
}

static uint64_t number_after(const char *text, const char *name) {
    const char *found = strstr(text, name);
    return found ? strtoull(found + strlen(name), NULL, 10) : 0;
}

/// Fills `out` (64 KiB) with one chunk of lines, framing included. Returns its length.
static size_t next_chunk(const bench_load_plan *plan, uint64_t *line, char *out) {
    char *body = out + 8;
    size_t length = 0;
    while (*line < plan->requests && length + 512 < (60 << 10)) {
        length += (size_t)mutation_json(plan, plan->first_index + (*line)++, body + length);
        body[length++] = '\n';
    }
    // The size has leading zeros, so that it always takes the 6 digits in front of the body.
    char size[9];
    snprintf(size, sizeof size, "%06zx\r\n", length);
    memcpy(out, size, 8);
    memcpy(body + length, "\r\n", 2);
    return 8 + length + 2;
}

int bench_load_lines(const bench_load_plan *plan, bench_load_result *result, bench_failure *failure) {
    static const char head[] =
        "POST /v1/mutations/bulk HTTP/1.1\r\nHost: agent\r\nContent-Type: application/x-ndjson\r\n"
        "Transfer-Encoding: chunked\r\n\r\n";
    memset(result, 0, sizeof *result);
    int fd = connect_unix(plan->socket_path, user_of(plan, 0), failure);
    if (fd < 0) return -1;
    fcntl(fd, F_SETFL, O_NONBLOCK);

    char *out = malloc(64 << 10), *in = malloc(64 << 10);
    answer *answer = calloc(1, sizeof *answer);
    last_line line = {0};
    if (!out || !in || !answer) return bench_fail(failure, "out of memory");
    answer_begin(answer);
    uint64_t next = 0;
    int has_ended = 0, outcome = 0;
    size_t length = sizeof head - 1, offset = 0;
    memcpy(out, head, length);

    uint64_t start = now_ns();
    // Reads as it writes. A client that only wrote would fill the socket with answers that it does not take.
    while (outcome == 0 && answer->state != ANSWER_DONE) {
        if (offset == length && !has_ended) {
            offset = 0;
            if (next < plan->requests) {
                length = next_chunk(plan, &next, out);
            } else {
                length = 5;
                memcpy(out, "0\r\n\r\n", 5);
                has_ended = 1;
            }
        }
        struct pollfd watched = {.fd = fd, .events = (short)(POLLIN | (offset < length ? POLLOUT : 0))};
        if (poll(&watched, 1, ANSWER_TIMEOUT_MS) == 0) {
            outcome = bench_fail(failure, "the agent did not answer for %d s", ANSWER_TIMEOUT_MS / 1000);
        }
        if (watched.revents & POLLOUT) {
            ssize_t sent = send(fd, out + offset, length - offset, MSG_NOSIGNAL);
            if (sent > 0) offset += (size_t)sent;
        }
        if (watched.revents & (POLLIN | POLLHUP | POLLERR)) {
            ssize_t count = recv(fd, in, 64 << 10, 0);
            if (count < 0 && errno == EAGAIN) continue;
            if (count <= 0 || answer_take(answer, in, (size_t)count, keep_line, &line) < 0) {
                outcome = bench_fail(
                    failure, "the agent's answer was cut after line %llu: %s", (unsigned long long)next, line.last);
            }
        }
    }
    result->nanoseconds = now_ns() - start;
    result->accepted = number_after(line.last, "\"accepted\":");
    result->refused = plan->requests - result->accepted;
    if (result->refused > 0) {
        snprintf(result->first_refusal, sizeof result->first_refusal, "%d %.480s", answer->status, line.last);
    }
    free(out);
    free(in);
    free(answer);
    close(fd);
    return outcome;
}

// MARK: One call

typedef struct {
    char *bytes;
    size_t size, length;
} room;

static void keep_body(void *context, const char *bytes, size_t count) {
    room *room = context;
    size_t left = room->size - 1 - room->length;
    memcpy(room->bytes + room->length, bytes, count < left ? count : left);
    room->length += count < left ? count : left;
}

int bench_call(
    const char *socket_path, const char *method, const char *target, const char *body, int timeout_ms, int *status,
    char *answer_bytes, size_t answer_size, bench_failure *failure) {
    *status = 0;
    answer_bytes[0] = 0;
    int fd = connect_unix(socket_path, geteuid(), failure);
    if (fd < 0) return -1;
    struct timeval patience = {.tv_sec = timeout_ms / 1000, .tv_usec = timeout_ms % 1000 * 1000};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    // Lines have a type of their own.
    int has_lines = strstr(target, "/bulk") != NULL;
    const char *type = !body       ? ""
                       : has_lines ? "Content-Type: application/x-ndjson\r\n"
                                   : "Content-Type: application/json\r\n";
    char head[1024];
    int length = snprintf(
        head, sizeof head, "%s %s HTTP/1.1\r\nHost: agent\r\nConnection: close\r\n%sContent-Length: %zu\r\n\r\n",
        method, target, type, body ? strlen(body) : 0);
    answer *answer = calloc(1, sizeof *answer);
    room room = {.bytes = answer_bytes, .size = answer_size};
    int outcome = 0;
    if (!answer || send_all(fd, head, (size_t)length) != 0 || (body && send_all(fd, body, strlen(body)) != 0)) {
        outcome = bench_fail(failure, "send %s %s: %s", method, target, strerror(errno));
    } else {
        answer_begin(answer);
    }
    while (outcome == 0 && answer->state != ANSWER_DONE) {
        char buffer[16 << 10];
        ssize_t count = recv(fd, buffer, sizeof buffer, 0);
        if (count <= 0 || answer_take(answer, buffer, (size_t)count, keep_body, &room) < 0) {
            outcome = bench_fail(
                failure, "no whole answer to %s %s: %s", method, target, count < 0 ? strerror(errno) : "closed");
        }
    }
    answer_bytes[room.length] = 0;
    if (outcome == 0) *status = answer->status;
    free(answer);
    close(fd);
    return outcome;
}
