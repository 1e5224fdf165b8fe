#ifndef CPOSTGRESFLOOR_H
#define CPOSTGRESFLOOR_H

// The floor of the hub on PostgreSQL: the statements that a group of pushes cannot do without, from C, without HTTP, JSON and decisions.
//
// A target of its own, so that of all programs which measure only agentbench needs libpq.

#include "CBenchFloors.h"

/// Open connections with tables of their own. Made, used and closed by one thread.
typedef struct bench_postgres bench_postgres;

/// Connects that many writers, and makes the tables in the schema `bench_floor` of the database (what was there is removed).
///
/// The processes of the server that belong to the writers live until bench_postgres_close, so their CPU can be read before and after a
/// run. NULL after a failure.
bench_postgres *bench_postgres_open(const char *url, int writers, bench_failure *failure);

/// Writes for that long: each writer one group after the other, 16 pushes of 20 mutations in two round trips. `commits` of the cost are
/// groups, its CPU is that of the writers' threads.
int bench_postgres_run(bench_postgres *floor, uint64_t nanoseconds, bench_cost *cost, bench_failure *failure);

/// Removes the tables. `floor` may be NULL.
void bench_postgres_close(bench_postgres *floor);

/// The mean time of 100 statements with a trivial answer, one after the other.
int bench_postgres_round_trip(const char *url, uint64_t *nanoseconds, bench_failure *failure);

/// The first value of a statement's first row, as a number. Fails when there is none.
int bench_postgres_number(const char *url, const char *sql, int64_t *value, bench_failure *failure);

/// A connection with an open transaction that keeps one snapshot, as pg_dump does for as long as it runs. NULL after a failure.
typedef struct bench_snapshot bench_snapshot;
bench_snapshot *bench_snapshot_hold(const char *url, bench_failure *failure);

/// Ends the transaction. Fails when the server had ended it before: then nothing was held.
int bench_snapshot_end(bench_snapshot *snapshot, bench_failure *failure);

#endif
