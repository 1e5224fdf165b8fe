#ifndef CPOSTGRESFLOOR_INTERNAL_H
#define CPOSTGRESFLOOR_INTERNAL_H

#include "CPostgresFloor.h"

#include <postgresql/libpq-fe.h>
#include <stdarg.h>
#include <stdio.h>

/// Writes the sentence and returns -1, so that callers can `return fail(…)`.
__attribute__((format(printf, 2, 3))) static inline int fail(bench_failure *failure, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(failure->text, sizeof failure->text, format, arguments);
    va_end(arguments);
    return -1;
}

/// NULL after a failure.
PGconn *connect_to(const char *url, bench_failure *failure);

/// Runs one statement without parameters outside of a pipeline.
int execute(PGconn *connection, const char *sql, bench_failure *failure);

#endif
