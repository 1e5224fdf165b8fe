// Connections to the server beside those of the floor: one measures the way to it, one reads a figure, and one keeps a snapshot.

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

int bench_postgres_number(const char *url, const char *sql, int64_t *value, bench_failure *failure) {
    PGconn *connection = connect_to(url, failure);
    if (!connection) return -1;
    PGresult *result = PQexec(connection, sql);
    int is_good = PQresultStatus(result) == PGRES_TUPLES_OK && PQntuples(result) > 0 && !PQgetisnull(result, 0, 0);
    if (is_good) *value = strtoll(PQgetvalue(result, 0, 0), NULL, 10);
    else bench_fail(failure, "PostgreSQL: %s brought no number: %s", sql, PQerrorMessage(connection));
    PQclear(result);
    PQfinish(connection);
    return is_good ? 0 : -1;
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
