#ifndef CPOSTGRESFLOOR_INTERNAL_H
#define CPOSTGRESFLOOR_INTERNAL_H

#include "CPostgresFloor.h"

#include <postgresql/libpq-fe.h>
#include <stdio.h>

/// NULL after a failure.
PGconn *connect_to(const char *url, bench_failure *failure);

/// Runs one statement without parameters outside of a pipeline.
int execute(PGconn *connection, const char *sql, bench_failure *failure);

#endif
