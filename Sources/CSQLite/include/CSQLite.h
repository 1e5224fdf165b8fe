#ifndef CSQLITE_H
#define CSQLITE_H

#include <malloc.h>
#include <sqlite3.h>

#include "Seal.h"

// SQLITE_TRANSIENT is a cast macro that Swift cannot import; these two bind a copy.
static inline int csqlite_bind_text(sqlite3_stmt *statement, int index, const char *text, int length) {
    return sqlite3_bind_text(statement, index, text, length, SQLITE_TRANSIENT);
}
static inline int csqlite_bind_blob(sqlite3_stmt *statement, int index, const void *bytes, int length) {
    return sqlite3_bind_blob(statement, index, bytes, length, SQLITE_TRANSIENT);
}

// Nothing here asks SQLite how much memory it uses; counting it takes a mutex with every allocation of a statement.
// To be called before the first connection is opened; later it changes nothing.
static inline int csqlite_count_no_memory(void) { return sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0); }

// Swift does not import variadic functions: the switches of a connection that take one int.
static inline int csqlite_switch(sqlite3 *database, int option, int on) {
    return sqlite3_db_config(database, option, on, (int *)0);
}

// Frees the pages that a connection keeps, and gives back to the system what the C library holds of all that was freed
// (malloc_trim(3)): by itself it keeps the memory of a burst of work for ever.
static inline void csqlite_release(sqlite3 *database) {
    sqlite3_db_release_memory(database);
    malloc_trim(0);
}

#endif
