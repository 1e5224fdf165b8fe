// Connections to the server beside those of the floor: one that measures the way to it, and one that keeps a snapshot.

#include "Internal.h"

#include <stdlib.h>

int execute(PGconn *connection, const char *sql, bench_failure *failure) {
    PGresult *result = PQexec(connection, sql);
    ExecStatusType status = PQresultStatus(result);
    PQclear(result);
    if (status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK) return 0;
    return bench_fail(failure, "PostgreSQL: %s", PQerrorMessage(connection));
}

/// Drops the remarks of the server, such as "schema does not exist, skipping".
static void ignore(void *nothing, const PGresult *notice) {
    (void)nothing;
    (void)notice;
}

PGconn *connect_to(const char *url, bench_failure *failure) {
    PGconn *connection = PQconnectdb(url);
    if (PQstatus(connection) == CONNECTION_OK) {
        PQsetNoticeReceiver(connection, ignore, NULL);
        return connection;
    }
    bench_fail(failure, "PostgreSQL: %s", PQerrorMessage(connection));
    PQfinish(connection);
    return NULL;
}

int bench_postgres_round_trip(const char *url, uint64_t *nanoseconds, bench_failure *failure) {
    PGconn *connection = connect_to(url, failure);
    if (!connection) return -1;
    int result = 0;
    uint64_t start = bench_now();
    for (int count = 0; count < 100 && result == 0; count++) result = execute(connection, "SELECT 1", failure);
    *nanoseconds = (bench_now() - start) / 100;
    PQfinish(connection);
    return result;
}

// MARK: A snapshot

struct bench_snapshot {
    PGconn *connection;
};

bench_snapshot *bench_snapshot_hold(const char *url, bench_failure *failure) {
    bench_snapshot *snapshot = calloc(1, sizeof *snapshot);
    if (!snapshot) {
        bench_fail(failure, "out of memory");
        return NULL;
    }
    snapshot->connection = connect_to(url, failure);
    if (snapshot->connection && execute(snapshot->connection, "BEGIN ISOLATION LEVEL REPEATABLE READ", failure) == 0
        && execute(snapshot->connection, "SELECT 1", failure) == 0) {
        return snapshot;
    }
    if (snapshot->connection) PQfinish(snapshot->connection);
    free(snapshot);
    return NULL;
}

int bench_snapshot_end(bench_snapshot *snapshot, bench_failure *failure) {
    int result = execute(snapshot->connection, "COMMIT", failure);
    PQfinish(snapshot->connection);
    free(snapshot);
    return result;
}
