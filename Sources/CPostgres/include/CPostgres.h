#ifndef CPOSTGRES_H
#define CPOSTGRES_H

#include <postgresql/libpq-fe.h>
#include <stdbool.h>
#include <string.h>

// A commit waits in this function of the server for its standby (src/backend/replication/syncrep.c). The only notices from there say
// that the wait was cancelled: "The transaction has already committed locally, but might not have been replicated to the standby."
static inline void cpostgres_note(void *_Nullable unreplicated, const PGresult *_Nullable notice) {
    const char *function = PQresultErrorField(notice, PG_DIAG_SOURCE_FUNCTION);
    if (function && strcmp(function, "SyncRepWaitForLSN") == 0) *(bool *)unreplicated = true;
}

// libpq prints what the server remarks on ("relation exists, skipping") to standard error, unless a receiver is set.
static inline void cpostgres_receive_notices(PGconn *_Nonnull connection, bool *_Nonnull unreplicated) {
    PQsetNoticeReceiver(connection, cpostgres_note, unreplicated);
}

#endif
