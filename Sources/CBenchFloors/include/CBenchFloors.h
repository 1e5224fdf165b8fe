#ifndef CBENCHFLOORS_H
#define CBENCHFLOORS_H

// The C half of agentbench: the floors that the product is measured against, and the load that it is measured with.
//
// It is C so that a floor carries nothing of ours (no Swift runtime, no code of the product), and so that the load
// costs as little as it can of the processors that it shares with the agent.
//
// Functions that can fail return 0 or -1 and then put one sentence into `failure`. Times are CLOCK_MONOTONIC
// nanoseconds.

#include <stddef.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/types.h>

#define BENCH_FAILURE_BYTES 512
#define BENCH_PAYLOAD_BYTES 200

typedef struct {
    char text[BENCH_FAILURE_BYTES];
} bench_failure;

/// Writes the sentence and returns -1, so that callers can `return bench_fail(…)`.
int bench_fail(bench_failure *failure, const char *format, ...) __attribute__((format(printf, 2, 3)));

// MARK: The rows (Rows.c)

/// The document of row `index`: a JSON object of exactly BENCH_PAYLOAD_BYTES bytes, the same in every run. It looks
/// like a reading with a remark, and compresses like one. No NUL at the end.
void bench_payload(uint64_t index, char out[BENCH_PAYLOAD_BYTES]);

/// The idempotency key of row `index`: 36 characters in the form of a UUIDv7, and a NUL.
void bench_key(uint64_t index, char out[37]);

// MARK: Floors

/// Rows and time of one run of a floor.
typedef struct {
    uint64_t rows;
    uint64_t nanoseconds;
    /// Transactions: rows / commits is how far group commit went.
    uint64_t commits;
    /// CPU of the threads that did the work; 0 where it is not measured.
    uint64_t cpu_nanoseconds;
} bench_cost;

/// Appends 4096 bytes and calls fdatasync, `count` times; `each[i]` is the time of one of them.
int bench_flash_floor(const char *folder, size_t count, uint64_t *each, bench_cost *cost, bench_failure *failure);

typedef struct {
    const char *folder;
    uint64_t rows;
    /// More than 1: that many threads hand in one row each and wait for its commit. A thread that finds no leader commits for all.
    int threads;
    /// Rows of a transaction; with several threads the most of a group.
    int rows_per_commit;
    /// A second table with the record itself, as the mirror of the agent has it.
    int with_record;
    /// Each row is deleted again in the end, as many in a transaction. With one thread only.
    int deletes;
} bench_sqlite_plan;

/// Inserts rows into SQLite with the agent's PRAGMAs. `each` (may be NULL) gets the time from handing in a row to its
/// commit, or with one thread that of each transaction; it has room for `rows` values.
int bench_sqlite_floor(const bench_sqlite_plan *plan, uint64_t *each, bench_cost *cost, bench_failure *failure);

typedef struct {
    /// Database file, made by bench_drain_prepare.
    const char *database;
    const char *url;
    const char *token;
    const char *device;
    const char *replica;
    const char *entity;
    /// Mutations of a request.
    int batch;
} bench_drain_plan;

/// Makes a database with `rows` waiting rows.
int bench_drain_prepare(const char *database, uint64_t rows, bench_failure *failure);

/// Reads the waiting rows, makes the JSON of a push, gzips and posts it, checks that each mutation was accepted, and
/// marks the rows done, until none waits. The CPU is that of the calling thread, which does all of it.
int bench_drain_floor(const bench_drain_plan *plan, bench_cost *cost, bench_failure *failure);

const char *bench_sqlite_version(void);

/// The first value of a statement's first row in a database that others may have open, as a number. Fails when there is none.
int bench_sqlite_number(const char *path, const char *sql, int64_t *value, bench_failure *failure);

// MARK: Load

typedef struct {
    const char *socket_path;
    int connections;
    uint64_t requests;
    /// Requests before the clock starts; they are not in the results.
    uint64_t warmup;
    uint64_t first_index;
    const char *entity;
    /// Names the records `rec-INDEX`; otherwise the agent mints ids.
    int with_record_id;
    /// Connect as these users, in turn, if there are any: the agent counts connections by user. Needs root.
    const uint32_t *users;
    int user_count;
} bench_load_plan;

/// The answers to a load. Only 201 counts as accepted.
typedef struct {
    uint64_t accepted;
    uint64_t refused;
    uint64_t nanoseconds;
    /// Head and body of the first answer that was no 201, cut.
    char first_refusal[BENCH_FAILURE_BYTES];
} bench_load_result;

/// One mutation a request, one request at a time on each connection. `each` has room for `requests` values.
int bench_load(const bench_load_plan *plan, uint64_t *each, bench_load_result *result, bench_failure *failure);

/// The same rows as one NDJSON stream over one connection. `warmup` and `connections` mean nothing here.
int bench_load_lines(const bench_load_plan *plan, bench_load_result *result, bench_failure *failure);

/// One request with its whole answer, as any app would make it. `body` may be NULL. The answer's body is cut at
/// `answer_size - 1` bytes and ends with a NUL. `status` 0 means that no answer came.
int bench_call(
    const char *socket_path, const char *method, const char *target, const char *body, int timeout_ms, int *status,
    char *answer, size_t answer_size, bench_failure *failure);

// MARK: The wire (Relay.c)

typedef struct bench_relay bench_relay;

/// The traffic of a relay, both ways; the bytes are those that TCP carried.
typedef struct {
    uint64_t connections;
    uint64_t bytes_up;
    uint64_t bytes_down;
    /// Segments of 1448 bytes that the pieces would fill on Ethernet: the base of the estimate of TCP/IP headers.
    uint64_t segments_up;
    uint64_t segments_down;
} bench_relay_counts;

/// Listens on a port of 127.0.0.1 that the kernel chooses and carries each connection to `target_port`.
bench_relay *bench_relay_start(uint16_t target_port, uint16_t *port, bench_failure *failure);
/// The same to a Unix socket, and every byte arrives `delay_ns` (more than 0) after it was sent, in either direction: half of the round
/// trip. Pieces follow each other as on a wire, they do not wait for each other. Making a connection is not delayed.
bench_relay *bench_relay_start_late(const char *target_socket, uint64_t delay_ns, uint16_t *port, bench_failure *failure);
bench_relay_counts bench_relay_read(bench_relay *relay);
void bench_relay_stop(bench_relay *relay);

// MARK: Links (Network.c)

/// Moves this process, which must not have made a thread yet, into an empty network namespace of its own; without root, into
/// a user namespace as well, where it is user 0.
int bench_own_network(bench_failure *failure);

/// Gives this process, and those that it starts, a file of its own in the place of /etc/hosts, which it may change while they run.
int bench_own_hosts(const char *file, bench_failure *failure);

/// Opens a socket in the network namespace of another process, to switch links there.
int bench_link_socket(pid_t pid, int *descriptor, bench_failure *failure);

/// Switches a link on or off. `at` gets the moment just before.
int bench_link_switch(int descriptor, const char *name, int on, uint64_t *at, bench_failure *failure);

typedef struct bench_wire bench_wire;

typedef struct {
    /// One way.
    uint64_t delay_ns;
    /// Each way, headers of IP included.
    uint64_t bits_per_second;
    /// A TCP connection that carried nothing for so long is forgotten, as by a NAT: none of its packets passes any more, and neither
    /// end is told. 0: never.
    uint64_t forgets_after_ns;
} bench_wire_plan;

/// A slow link (Wire.c): a TUN device here, and one in the network namespace of another process. Both are down and have no
/// address yet. NULL after a failure.
bench_wire *bench_wire_start(
    pid_t far, const char *near_name, const char *far_name, const bench_wire_plan *plan, bench_failure *failure);
/// From now on the link is like that.
void bench_wire_change(bench_wire *wire, const bench_wire_plan *plan);
void bench_wire_stop(bench_wire *wire);

/// Connects, shakes hands and asks once, on a connection of its own; the time is that until TLS stood: a round trip for TCP,
/// and the handshake.
int bench_handshake_floor(const char *url, const char *ca_file, uint64_t *nanoseconds, bench_failure *failure);

uint64_t bench_now(void);

// MARK: Processes (Process.c)

/// Starts a program with standard error in `log_path`. It dies with the calling thread, so start children from the main
/// thread. `stdout_fd` (may be NULL) gets the reading end of its standard output; otherwise that goes to the log as
/// well. `environment` (may be NULL) is added to ours: "NAME=VALUE" strings and a NULL.
int bench_start(
    const char *const *arguments, const char *const *environment, const char *log_path, pid_t *pid, int *stdout_fd,
    bench_failure *failure);

/// Waits until `fd` has a whole line and reads it without its end. Fails when `pid` ends or the time is over.
int bench_read_line(int fd, pid_t pid, int timeout_ms, char *line, size_t size, bench_failure *failure);

/// The socket for sd_notify(3): bind it, put its path into NOTIFY_SOCKET of a child, wait for READY=1.
int bench_notify_open(const char *path, int *fd, bench_failure *failure);
int bench_notify_wait(int fd, pid_t pid, int timeout_ms, bench_failure *failure);

/// Sends the signal and collects the child; SIGKILL after `timeout_ms`. Returns the wait status, or -1.
int bench_stop(pid_t pid, int signal, int timeout_ms);

/// Says in words how the child ended, such as "ended by signal 9"; empty while it runs. It is not collected.
void bench_how_ended(pid_t pid, bench_failure *words);

/// CPU that the process has used since its start, all threads, user and system; 0 when there is none.
uint64_t bench_process_cpu(pid_t pid);

/// f_type of statfs(2), or -1.
int64_t bench_file_system(const char *path);

/// Removes a folder with all that is in it. Does not follow links.
void bench_remove_tree(const char *path);

/// From now on SIGINT, SIGTERM and SIGHUP remove that folder and end the program; children die with it.
int bench_remove_on_signal(const char *path, bench_failure *failure);

#endif
