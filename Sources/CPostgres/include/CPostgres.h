#ifndef CPOSTGRES_H
#define CPOSTGRES_H

#include <postgresql/libpq-fe.h>

static inline void cpostgres_ignore(void *_Nullable nothing, const char *_Nullable message) {
    (void)nothing;
    (void)message;
}

// libpq prints what the server remarks on ("relation exists, skipping") to standard error, unless somebody takes it.
static inline void cpostgres_silence(PGconn *_Nonnull connection) {
    PQsetNoticeProcessor(connection, cpostgres_ignore, (void *)0);
}

#endif
