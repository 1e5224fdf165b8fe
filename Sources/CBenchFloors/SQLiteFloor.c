// The speed of SQLite itself at the agent's work: the same rows, the same PRAGMAs, nothing around them.

#include "Internal.h"

#include <pthread.h>
#include <sqlite3.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

const char *bench_sqlite_version(void) { return sqlite3_libversion(); }

sqlite3 *open_database(const char *path, bench_failure *failure) {
    // The agent's opening sequence (PROTOCOL.md C2), so that both sides pay the same for a commit and for a checkpoint.
    static const char *const pragmas =
        "PRAGMA page_size=4096; PRAGMA auto_vacuum=INCREMENTAL; PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL;"
        "PRAGMA foreign_keys=ON; PRAGMA temp_store=MEMORY; PRAGMA cache_size=-8000; PRAGMA mmap_size=0;"
        "PRAGMA journal_size_limit=16777216; PRAGMA wal_autocheckpoint=1000;";
    sqlite3 *db = NULL;
    char *message = NULL;
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_PRIVATECACHE;
    if (sqlite3_open_v2(path, &db, flags, NULL) != SQLITE_OK
        || sqlite3_exec(db, pragmas, NULL, NULL, &message) != SQLITE_OK) {
        bench_fail(failure, "open %s: %s", path, message ? message : sqlite3_errmsg(db));
        sqlite3_free(message);
        sqlite3_close(db);
        return NULL;
    }
    return db;
}

int bench_sqlite_number(const char *path, const char *sql, int64_t *value, bench_failure *failure) {
    sqlite3 *db = NULL;
    sqlite3_stmt *statement = NULL;
    // Read-only, but the file of its shared memory may have to be made.
    int is_good = sqlite3_open_v2(path, &db, SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX, NULL) == SQLITE_OK
                  && sqlite3_busy_timeout(db, 10000) == SQLITE_OK && sqlite3_prepare_v2(db, sql, -1, &statement, NULL) == SQLITE_OK
                  && sqlite3_step(statement) == SQLITE_ROW && sqlite3_column_type(statement, 0) != SQLITE_NULL;
    if (is_good) *value = sqlite3_column_int64(statement, 0);
    else bench_fail(failure, "%s: %s brought no number: %s", path, sql, sqlite3_errmsg(db));
    sqlite3_finalize(statement);
    sqlite3_close(db);
    return is_good ? 0 : -1;
}

typedef struct {
    sqlite3 *db;
    sqlite3_stmt *begin, *commit, *insert_mutation, *insert_record, *delete_mutation;
    int with_record;
} writer;

static const char *const schema =
    "CREATE TABLE mutation(seq INTEGER PRIMARY KEY AUTOINCREMENT, key TEXT NOT NULL UNIQUE, entity INTEGER NOT NULL,"
    " record_id TEXT NOT NULL, action INTEGER NOT NULL, data TEXT NOT NULL, state INTEGER NOT NULL,"
    " created_at INTEGER NOT NULL) STRICT;"
    "CREATE TABLE record(rid INTEGER PRIMARY KEY, entity INTEGER NOT NULL, id TEXT NOT NULL, view TEXT,"
    " status INTEGER NOT NULL, updated_at INTEGER NOT NULL, UNIQUE(entity, id)) STRICT;";

static int writer_open(writer *writer, const char *path, int with_record, bench_failure *failure) {
    memset(writer, 0, sizeof *writer);
    writer->with_record = with_record;
    writer->db = open_database(path, failure);
    if (!writer->db) return -1;
    if (sqlite3_exec(writer->db, schema, NULL, NULL, NULL) != SQLITE_OK
        || sqlite3_prepare_v2(writer->db, "BEGIN IMMEDIATE", -1, &writer->begin, NULL) != SQLITE_OK
        || sqlite3_prepare_v2(writer->db, "COMMIT", -1, &writer->commit, NULL) != SQLITE_OK
        || sqlite3_prepare_v2(
               writer->db,
               "INSERT INTO mutation(key, entity, record_id, action, data, state, created_at)"
               " VALUES (?, 1, ?, 0, ?, 0, ?)",
               -1, &writer->insert_mutation, NULL)
            != SQLITE_OK
        || sqlite3_prepare_v2(
               writer->db, "INSERT INTO record(entity, id, view, status, updated_at) VALUES (1, ?, ?, 1, ?)", -1,
               &writer->insert_record, NULL)
            != SQLITE_OK
        || sqlite3_prepare_v2(writer->db, "DELETE FROM mutation WHERE seq = ?", -1, &writer->delete_mutation, NULL)
            != SQLITE_OK) {
        bench_fail(failure, "prepare: %s", sqlite3_errmsg(writer->db));
        return -1;
    }
    return 0;
}

static void writer_close(writer *writer) {
    sqlite3_finalize(writer->begin);
    sqlite3_finalize(writer->commit);
    sqlite3_finalize(writer->insert_mutation);
    sqlite3_finalize(writer->insert_record);
    sqlite3_finalize(writer->delete_mutation);
    sqlite3_close(writer->db);
}

static int step(writer *writer, sqlite3_stmt *statement, bench_failure *failure) {
    int code = sqlite3_step(statement);
    sqlite3_reset(statement);
    return code == SQLITE_DONE ? 0 : bench_fail(failure, "step: %s", sqlite3_errmsg(writer->db));
}

static int insert(writer *writer, uint64_t index, bench_failure *failure) {
    char key[37], name[32], payload[BENCH_PAYLOAD_BYTES];
    bench_key(index, key);
    bench_payload(index, payload);
    int length = snprintf(name, sizeof name, "rec-%012llu", (unsigned long long)index);

    sqlite3_bind_text(writer->insert_mutation, 1, key, 36, SQLITE_STATIC);
    sqlite3_bind_text(writer->insert_mutation, 2, name, length, SQLITE_STATIC);
    sqlite3_bind_text(writer->insert_mutation, 3, payload, BENCH_PAYLOAD_BYTES, SQLITE_STATIC);
    sqlite3_bind_int64(writer->insert_mutation, 4, 1795216800000 + (int64_t)index);
    if (step(writer, writer->insert_mutation, failure) != 0) return -1;
    if (!writer->with_record) return 0;

    sqlite3_bind_text(writer->insert_record, 1, name, length, SQLITE_STATIC);
    sqlite3_bind_text(writer->insert_record, 2, payload, BENCH_PAYLOAD_BYTES, SQLITE_STATIC);
    sqlite3_bind_int64(writer->insert_record, 3, 1795216800000 + (int64_t)index);
    return step(writer, writer->insert_record, failure);
}

// MARK: One thread

static int write_alone(
    writer *writer, const bench_sqlite_plan *plan, uint64_t *each, bench_cost *cost, bench_failure *failure) {
    uint64_t done = 0;
    while (done < plan->rows) {
        uint64_t before = now_ns();
        if (step(writer, writer->begin, failure) != 0) return -1;
        for (int i = 0; i < plan->rows_per_commit && done < plan->rows; i++, done++) {
            if (insert(writer, done, failure) != 0) return -1;
        }
        if (step(writer, writer->commit, failure) != 0) return -1;
        if (each) each[cost->commits] = now_ns() - before;
        cost->commits++;
    }
    for (uint64_t gone = 0; plan->deletes && gone < plan->rows;) {
        if (step(writer, writer->begin, failure) != 0) return -1;
        for (int i = 0; i < plan->rows_per_commit && gone < plan->rows; i++) {
            sqlite3_bind_int64(writer->delete_mutation, 1, (int64_t)++gone);
            if (step(writer, writer->delete_mutation, failure) != 0) return -1;
        }
        if (step(writer, writer->commit, failure) != 0) return -1;
    }
    return 0;
}

// MARK: Group commit by many threads
//
// A thread that hands in a row while no other one commits becomes the leader. It takes all waiting rows up to the limit, commits
// them in one transaction, wakes their threads, and passes the lead to the first that came in meanwhile. That needs no timer and no
// thread of its own.

typedef struct waiter {
    uint64_t index;
    int is_done, must_lead;
    pthread_cond_t wake;
    struct waiter *next;
} waiter;

typedef struct {
    pthread_mutex_t lock;
    waiter *first, *last;
    int has_leader;
    atomic_int has_failed;
    /// The next row that no thread has taken: keys grow with time for the group as they do for the agent.
    atomic_ullong next_row;
    writer *writer;
    const bench_sqlite_plan *plan;
    uint64_t *each;
    uint64_t commits;
    bench_failure *failure;
} group;

/// Commits one group. Called with the lock held and the lead taken; gives both back.
static void lead(group *group) {
    waiter *taken = group->first, *end = taken;
    for (int count = 1; end->next && count < group->plan->rows_per_commit; count++) end = end->next;
    group->first = end->next;
    if (!group->first) group->last = NULL;
    end->next = NULL;
    pthread_mutex_unlock(&group->lock);

    int result = step(group->writer, group->writer->begin, group->failure);
    for (waiter *waiter = taken; waiter && result == 0; waiter = waiter->next) {
        result = insert(group->writer, waiter->index, group->failure);
    }
    if (result == 0) result = step(group->writer, group->writer->commit, group->failure);

    pthread_mutex_lock(&group->lock);
    group->commits++;
    if (result != 0) group->has_failed = 1;
    while (taken) {
        // The owner may be gone as soon as it sees is_done, and its node with it.
        waiter *next = taken->next;
        taken->is_done = 1;
        pthread_cond_signal(&taken->wake);
        taken = next;
    }
    group->has_leader = 0;
    if (group->first) {
        group->has_leader = 1;
        group->first->must_lead = 1;
        pthread_cond_signal(&group->first->wake);
    }
}

static void hand_in(group *group, uint64_t index) {
    waiter self = {.index = index};
    pthread_cond_init(&self.wake, NULL);
    pthread_mutex_lock(&group->lock);
    if (group->last) group->last->next = &self; else group->first = &self;
    group->last = &self;
    if (!group->has_leader) {
        group->has_leader = 1;
        self.must_lead = 1;
    }
    while (!self.is_done && !self.must_lead) pthread_cond_wait(&self.wake, &group->lock);
    if (!self.is_done) lead(group);
    pthread_mutex_unlock(&group->lock);
    pthread_cond_destroy(&self.wake);
}

static void *produce(void *argument) {
    group *group = argument;
    for (;;) {
        uint64_t index = atomic_fetch_add(&group->next_row, 1);
        if (index >= group->plan->rows || group->has_failed) return NULL;
        uint64_t before = now_ns();
        hand_in(group, index);
        if (group->each) group->each[index] = now_ns() - before;
    }
}

static int write_together(
    writer *writer, const bench_sqlite_plan *plan, uint64_t *each, bench_cost *cost, bench_failure *failure) {
    group group = {.writer = writer, .plan = plan, .each = each, .failure = failure};
    pthread_mutex_init(&group.lock, NULL);
    pthread_t threads[plan->threads];
    int started = 0;
    while (started < plan->threads && pthread_create(&threads[started], NULL, produce, &group) == 0) started++;
    for (int i = 0; i < started; i++) pthread_join(threads[i], NULL);
    pthread_mutex_destroy(&group.lock);
    cost->commits = group.commits;
    if (started < plan->threads) return bench_fail(failure, "no more than %d threads could be started", started);
    return group.has_failed ? -1 : 0;
}

int bench_sqlite_floor(const bench_sqlite_plan *plan, uint64_t *each, bench_cost *cost, bench_failure *failure) {
    char path[4096], side[4096 + 8];
    snprintf(path, sizeof path, "%s/floor.db", plan->folder);
    writer writer;
    *cost = (bench_cost){.rows = plan->rows};
    int result = writer_open(&writer, path, plan->with_record, failure);
    if (result == 0) {
        uint64_t start = now_ns();
        result = plan->threads > 1 ? write_together(&writer, plan, each, cost, failure)
                                   : write_alone(&writer, plan, each, cost, failure);
        cost->nanoseconds = now_ns() - start;
    }
    writer_close(&writer);
    unlink(path);
    snprintf(side, sizeof side, "%s-wal", path);
    unlink(side);
    snprintf(side, sizeof side, "%s-shm", path);
    unlink(side);
    return result;
}
