// One writer is one thread with one connection in libpq's pipeline mode. A group takes two round trips: what a decision has to read, and
// one burst that locks the head, numbers the commits and writes. Nothing is sent by itself in between, so the lock is never held while the
// server waits for the client.
//
// The statements are those that a hub needs for its own tables (HubPostgres, PostgresSchema.swift), in the cheapest form known: keys and
// fingerprints as UUIDs, devices as numbers, arrays in the binary format. The load creates records, as that of `agentbench fleet` does.

#include "Internal.h"

#include <arpa/inet.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define PUSHES 16
#define MUTATIONS 20
#define ROWS (PUSHES * MUTATIONS)
#define DEVICES 512
#define WRITERS_MAX 64

// MARK: Statements

/// The tables: as those of the hub, without columns that stay NULL for this load, and with its indexes on what is written.
static const char *const tables[] = {
    "DROP SCHEMA IF EXISTS bench_floor CASCADE",
    "CREATE SCHEMA bench_floor",
    "SET search_path = bench_floor",
    "CREATE TABLE hub(one BIGINT PRIMARY KEY)",
    "INSERT INTO hub VALUES(1)",
    "CREATE TABLE commit_log(n BIGINT PRIMARY KEY, head BIGINT NOT NULL, applied BIGINT NOT NULL)",
    "INSERT INTO commit_log VALUES(1, 0, 0)",
    "CREATE TABLE record(entity TEXT COLLATE \"C\" NOT NULL, id TEXT COLLATE \"C\" NOT NULL, version BIGINT NOT NULL, data TEXT,"
    " hlc TEXT NOT NULL, writer TEXT NOT NULL, origin_key TEXT NOT NULL, updated_at_ms BIGINT NOT NULL, PRIMARY KEY(entity, id))",
    "CREATE INDEX record_by_commit ON record((entity || ''), version, id)",
    "CREATE TABLE device(id INT PRIMARY KEY, applied BIGINT NOT NULL, last_seen_ms BIGINT NOT NULL)",
    "CREATE TABLE replica(device INT PRIMARY KEY, max_seq BIGINT NOT NULL, acked_seq BIGINT NOT NULL, last_seen_ms BIGINT NOT NULL)",
    "CREATE TABLE mutation_key(device INT NOT NULL, key UUID NOT NULL, fingerprint UUID NOT NULL, seq BIGINT NOT NULL,"
    " status SMALLINT NOT NULL, version BIGINT NOT NULL, at_ms BIGINT NOT NULL, PRIMARY KEY(device, key))",
};

enum statement { find_keys, find_records, find_replicas, find_head, begin, put_devices, put_replicas, lock_head, put_rows, trim, commit };

/// Statements of the second round trip begin with this one.
#define FIRST_OF_BURST begin
#define STATEMENTS (commit + 1)

static const char *const statements[STATEMENTS] = {
    // OFFSET 0 keeps a planner without statistics from turning the join around.
    [find_keys] = "SELECT k.status, k.version FROM unnest($1::int[], $2::uuid[]) AS u(device, key) CROSS JOIN LATERAL"
                  " (SELECT status, version FROM mutation_key AS m WHERE m.device = u.device AND m.key = u.key OFFSET 0) AS k",
    [find_records] = "SELECT r.* FROM unnest($1::text[]) AS u(id) CROSS JOIN LATERAL (SELECT id, version, data, hlc, writer FROM record"
                     " WHERE entity = 'readings' AND id = u.id OFFSET 0) AS r",
    [find_replicas] = "SELECT r.* FROM unnest($1::int[]) AS u(device) CROSS JOIN LATERAL (SELECT max_seq, acked_seq FROM replica"
                      " WHERE device = u.device OFFSET 0) AS r",
    [find_head] = "SELECT n, head FROM commit_log ORDER BY n DESC LIMIT 1",
    [begin] = "BEGIN",
    // In order, so that two writers cannot wait for each other.
    [put_devices] = "INSERT INTO device SELECT u, $2::bigint, $3::bigint FROM unnest($1::int[]) AS u ORDER BY u"
                    " ON CONFLICT(id) DO UPDATE SET applied = device.applied + excluded.applied, last_seen_ms = excluded.last_seen_ms",
    [put_replicas] = "INSERT INTO replica SELECT d, s, s, $3::bigint FROM unnest($1::int[], $2::bigint[]) AS u(d, s) ORDER BY d"
                     " ON CONFLICT(device) DO UPDATE SET max_seq = excluded.max_seq, acked_seq = excluded.acked_seq,"
                     " last_seen_ms = excluded.last_seen_ms",
    // Locked and never updated: a snapshot that stays open leaves no dead versions of it to walk through.
    [lock_head] = "SELECT one FROM hub WHERE one = 1 FOR UPDATE",
    // A key that is there fails, and so does a record that is there: it divides by zero.
    [put_rows] =
        "WITH h AS (INSERT INTO commit_log SELECT c.n + 1, c.head + $9::bigint, c.applied + $9::bigint"
        " FROM (SELECT * FROM commit_log ORDER BY n DESC LIMIT 1) AS c RETURNING head),"
        " u AS (SELECT v.*, h.head - $9::bigint + v.n AS version FROM h, unnest($1::int[], $2::uuid[], $3::uuid[], $4::bigint[],"
        " $5::text[], $6::text[], $7::text[], $8::text[]) WITH ORDINALITY"
        " AS v(device, key, fingerprint, seq, id, data, hlc, writer, n)),"
        " k AS (INSERT INTO mutation_key SELECT device, key, fingerprint, seq, 0, version, $10::bigint FROM u),"
        " r AS (INSERT INTO record SELECT 'readings', id, version, data, hlc, writer, key::text, $10::bigint FROM u"
        " ON CONFLICT DO NOTHING RETURNING 1)"
        " SELECT (SELECT head FROM h) / (CASE WHEN (SELECT count(*) FROM r) = $9::bigint THEN 1 ELSE 0 END)",
    [trim] = "DELETE FROM commit_log WHERE n = (SELECT max(n) FROM commit_log) - 10000",
    [commit] = "COMMIT",
};

// MARK: Parameters

enum { type_int = 23, type_bigint = 20, type_text = 25, type_uuid = 2950 };

/// One parameter in the binary format: a number, or an array as array_recv reads it.
typedef struct {
    char *bytes;
    size_t size, room;
} parameter;

static void put(parameter *to, const void *bytes, size_t count) {
    if (to->size + count > to->room) {
        to->room = 2 * (to->size + count) + 256;
        to->bytes = realloc(to->bytes, to->room);
        if (!to->bytes) abort();
    }
    memcpy(to->bytes + to->size, bytes, count);
    to->size += count;
}

static void put_int(parameter *to, uint32_t value) {
    uint32_t ordered = htonl(value);
    put(to, &ordered, sizeof ordered);
}

static void put_bigint(parameter *to, uint64_t value) {
    put_int(to, (uint32_t)(value >> 32));
    put_int(to, (uint32_t)value);
}

static void number(parameter *to, uint64_t value) {
    to->size = 0;
    put_bigint(to, value);
}

static void array(parameter *to, uint32_t type, uint32_t count) {
    to->size = 0;
    // Dimensions, no NULL, type, length and first index.
    uint32_t head[] = {1, 0, type, count, 1};
    for (size_t index = 0; index < sizeof head / sizeof *head; index++) put_int(to, head[index]);
}

static void element(parameter *to, const void *bytes, size_t count) {
    put_int(to, (uint32_t)count);
    put(to, bytes, count);
}

static void element_int(parameter *to, uint32_t value) {
    put_int(to, 4);
    put_int(to, value);
}

static void element_bigint(parameter *to, uint64_t value) {
    put_int(to, 8);
    put_bigint(to, value);
}

// MARK: One writer

typedef struct {
    PGconn *connection;
    uint32_t index;
    uint64_t groups, end, cpu;
    uint64_t pushes[DEVICES];
    int has_failed;
    bench_failure failure;
    parameter devices, seqs, applied, now, count;
    parameter row_devices, keys, fingerprints, row_seqs, ids, data, clocks, writers;
} writer;

struct bench_postgres {
    int count;
    writer writers[];
};

static uint64_t thread_cpu(void) {
    struct timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

/// Sixteen bytes that differ for each number: the first part counts, as in a UUIDv7.
static void make_uuid(uint64_t number, char out[16]) {
    uint64_t mixed = (number + 1) * 0x9e3779b97f4a7c15u;
    for (int at = 0; at < 8; at++) {
        out[at] = (char)(number >> (56 - 8 * at));
        out[8 + at] = (char)(mixed >> (8 * at));
    }
}

/// The next push of 16 devices of this writer; no other writer has them.
static void fill(writer *self) {
    struct timespec time;
    clock_gettime(CLOCK_REALTIME, &time);
    array(&self->devices, type_int, PUSHES);
    array(&self->seqs, type_bigint, PUSHES);
    number(&self->applied, MUTATIONS);
    number(&self->now, (uint64_t)time.tv_sec * 1000u + (uint64_t)time.tv_nsec / 1000000u);
    number(&self->count, ROWS);
    array(&self->row_devices, type_int, ROWS);
    array(&self->row_seqs, type_bigint, ROWS);
    array(&self->keys, type_uuid, ROWS);
    array(&self->fingerprints, type_uuid, ROWS);
    parameter *texts[] = {&self->ids, &self->data, &self->clocks, &self->writers};
    for (int index = 0; index < 4; index++) array(texts[index], type_text, ROWS);
    for (uint32_t push = 0; push < PUSHES; push++) {
        uint32_t place = (uint32_t)((self->groups * PUSHES + push) % DEVICES), device = self->index * DEVICES + place;
        char name[32], id[48], uuid[16], document[BENCH_PAYLOAD_BYTES];
        int name_size = snprintf(name, sizeof name, "fleet-%u", device);
        for (uint32_t at = 0; at < MUTATIONS; at++) {
            uint64_t seq = self->pushes[place] * MUTATIONS + at + 1, row = (uint64_t)device << 32 | seq;
            element_int(&self->row_devices, device);
            element_bigint(&self->row_seqs, seq);
            make_uuid(row, uuid);
            element(&self->keys, uuid, sizeof uuid);
            make_uuid(~row, uuid);
            element(&self->fingerprints, uuid, sizeof uuid);
            element(&self->ids, id, (size_t)snprintf(id, sizeof id, "%s-%llu", name, (unsigned long long)seq));
            bench_payload(row, document);
            element(&self->data, document, sizeof document);
            element(&self->clocks, "0199c3f2a1b4-0007-9f2c11ab", 26);
            element(&self->writers, name, (size_t)name_size);
        }
        self->pushes[place]++;
        element_int(&self->devices, device);
        element_bigint(&self->seqs, self->pushes[place] * MUTATIONS);
    }
}

static int send_one(writer *self, enum statement statement, int count, parameter *const parameters[]) {
    const char *values[10];
    int sizes[10], formats[10];
    for (int index = 0; index < count; index++) {
        values[index] = parameters[index]->bytes;
        sizes[index] = (int)parameters[index]->size;
        formats[index] = 1;
    }
    char name[8];
    snprintf(name, sizeof name, "s%d", statement);
    return PQsendQueryPrepared(self->connection, name, count, values, sizes, formats, 1) == 1 ? 0 : -1;
}

/// Reads the results of a round trip. What a push brings is new, so no key and no record may be found.
static int receive(writer *self, enum statement first, enum statement last) {
    for (int statement = first; statement <= (int)last; statement++) {
        PGresult *result = PQgetResult(self->connection);
        ExecStatusType status = PQresultStatus(result);
        int is_good = status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK;
        if (!is_good) bench_fail(&self->failure, "PostgreSQL, statement %d: %s", statement, PQresultErrorMessage(result));
        if (is_good && (statement == find_keys || statement == find_records) && PQntuples(result) > 0) {
            is_good = 0;
            bench_fail(&self->failure, "PostgreSQL: a new row is there already");
        }
        PQclear(result);
        if (!is_good) return -1;
        // Each statement's results end with a NULL.
        if (PQgetResult(self->connection)) return bench_fail(&self->failure, "PostgreSQL: a result too many");
    }
    PGresult *result = PQgetResult(self->connection);
    int is_sync = PQresultStatus(result) == PGRES_PIPELINE_SYNC;
    PQclear(result);
    return is_sync ? 0 : bench_fail(&self->failure, "PostgreSQL: the end of the burst is missing");
}

static int write_group(writer *self) {
    fill(self);
    int sent = send_one(self, find_keys, 2, (parameter *[]){&self->row_devices, &self->keys})
               | send_one(self, find_records, 1, (parameter *[]){&self->ids})
               | send_one(self, find_replicas, 1, (parameter *[]){&self->devices}) | send_one(self, find_head, 0, NULL);
    if (sent != 0 || PQpipelineSync(self->connection) != 1) {
        return bench_fail(&self->failure, "PostgreSQL: %s", PQerrorMessage(self->connection));
    }
    if (receive(self, find_keys, find_head) != 0) return -1;
    parameter *rows[] = {
        &self->row_devices, &self->keys, &self->fingerprints, &self->row_seqs, &self->ids,
        &self->data,        &self->clocks, &self->writers,    &self->count,    &self->now,
    };
    sent = send_one(self, begin, 0, NULL)
           | send_one(self, put_devices, 3, (parameter *[]){&self->devices, &self->applied, &self->now})
           | send_one(self, put_replicas, 3, (parameter *[]){&self->devices, &self->seqs, &self->now})
           | send_one(self, lock_head, 0, NULL) | send_one(self, put_rows, 10, rows) | send_one(self, trim, 0, NULL)
           | send_one(self, commit, 0, NULL);
    if (sent != 0 || PQpipelineSync(self->connection) != 1) {
        return bench_fail(&self->failure, "PostgreSQL: %s", PQerrorMessage(self->connection));
    }
    if (receive(self, FIRST_OF_BURST, commit) != 0) return -1;
    self->groups++;
    return 0;
}

static void *write_groups(void *argument) {
    writer *self = argument;
    uint64_t cpu = thread_cpu();
    while (!self->has_failed && bench_now() < self->end) self->has_failed = write_group(self) != 0;
    self->cpu = thread_cpu() - cpu;
    return NULL;
}

// MARK: The floor

static int prepare(writer *self, const char *url, bench_failure *failure) {
    self->connection = connect_to(url, failure);
    if (!self->connection) return -1;
    if (self->index == 0) {
        for (size_t at = 0; at < sizeof tables / sizeof *tables; at++) {
            if (execute(self->connection, tables[at], failure) != 0) return -1;
        }
    }
    if (execute(self->connection, "SET search_path = bench_floor", failure) != 0) return -1;
    // Compiling a statement would take longer than all the groups that use it.
    if (execute(self->connection, "SET jit = off", failure) != 0) return -1;
    for (int statement = 0; statement < STATEMENTS; statement++) {
        char name[8];
        snprintf(name, sizeof name, "s%d", statement);
        PGresult *result = PQprepare(self->connection, name, statements[statement], 0, NULL);
        ExecStatusType status = PQresultStatus(result);
        PQclear(result);
        if (status != PGRES_COMMAND_OK) {
            return bench_fail(failure, "PostgreSQL, statement %d: %s", statement, PQerrorMessage(self->connection));
        }
    }
    return PQenterPipelineMode(self->connection) == 1 ? 0 : bench_fail(failure, "PostgreSQL: no pipeline mode");
}

bench_postgres *bench_postgres_open(const char *url, int writers, bench_failure *failure) {
    if (writers < 1 || writers > WRITERS_MAX) {
        bench_fail(failure, "1 to %d writers", WRITERS_MAX);
        return NULL;
    }
    bench_postgres *floor = calloc(1, sizeof *floor + (size_t)writers * sizeof(writer));
    if (!floor) {
        bench_fail(failure, "out of memory");
        return NULL;
    }
    floor->count = writers;
    for (int index = 0; index < writers; index++) {
        floor->writers[index].index = (uint32_t)index;
        if (prepare(&floor->writers[index], url, failure) == 0) continue;
        bench_postgres_close(floor);
        return NULL;
    }
    return floor;
}

int bench_postgres_run(bench_postgres *floor, uint64_t nanoseconds, bench_cost *cost, bench_failure *failure) {
    pthread_t threads[WRITERS_MAX];
    uint64_t start = bench_now(), groups = 0;
    int started = 0, has_failed = 0;
    *cost = (bench_cost){0};
    for (int index = 0; index < floor->count; index++) groups += floor->writers[index].groups;
    for (; started < floor->count; started++) {
        writer *self = &floor->writers[started];
        self->end = start + nanoseconds;
        if (pthread_create(&threads[started], NULL, write_groups, self) != 0) break;
    }
    for (int index = 0; index < started; index++) pthread_join(threads[index], NULL);
    cost->nanoseconds = bench_now() - start;
    if (started < floor->count) return bench_fail(failure, "cannot start a thread");
    for (int index = 0; index < floor->count; index++) {
        writer *self = &floor->writers[index];
        if (self->has_failed && !has_failed++) *failure = self->failure;
        cost->commits += self->groups;
        cost->cpu_nanoseconds += self->cpu;
    }
    cost->commits -= groups;
    cost->rows = cost->commits * ROWS;
    return has_failed ? -1 : 0;
}

void bench_postgres_close(bench_postgres *floor) {
    if (!floor) return;
    for (int index = floor->count - 1; index >= 0; index--) {
        writer *self = &floor->writers[index];
        bench_failure unheard;
        // The last one removes the tables, so that the server does not clean them up during the next measurement.
        if (index == 0 && self->connection && PQexitPipelineMode(self->connection) == 1) {
            execute(self->connection, "DROP SCHEMA IF EXISTS bench_floor CASCADE", &unheard);
            execute(self->connection, "CHECKPOINT", &unheard);
        }
        if (self->connection) PQfinish(self->connection);
        parameter *all[] = {
            &self->devices, &self->seqs, &self->applied, &self->now, &self->count, &self->row_devices, &self->keys,
            &self->fingerprints, &self->row_seqs, &self->ids, &self->data, &self->clocks, &self->writers,
        };
        for (size_t at = 0; at < sizeof all / sizeof *all; at++) free(all[at]->bytes);
    }
    free(floor);
}
