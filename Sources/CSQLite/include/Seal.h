#ifndef CSQLITE_SEAL_H
#define CSQLITE_SEAL_H

#include <sqlite3.h>

// Flash flips bits, and SQLite does not look: it finds what contradicts the structure of its trees, not another digit in a
// document, another name in an index or another number in a counter. So the last 8 bytes of every page of a database file
// are a sum of all before them and of the number of the page. It is written whenever a page goes into the file and checked
// whenever one is read from it; a page that does not agree fails with SQLITE_IOERR_DATA.
//
// The room for it is what the file format has for such things: "bytes of unused reserved space at the end of each page",
// byte 20 of the header (https://www.sqlite.org/fileformat2.html, 1.3.4). So every program that has SQLite can read the
// file, and none that does not know of the seals may write it. SQLite's own extension for the same, cksumvfs, is not in the
// library of Debian; it takes a page of zeros for a good one, and a page at the place of another one, too.
//
// Pages in the log (-wal) have sums of SQLite's own, which are checked when it is opened after a crash.
//
// The same place says of all its files what SQLite does not: that a read which failed is no damage (SQLITE_IOERR_READ), and that
// a quota or the largest size of a file is the end of the room (SQLITE_FULL).

#define CSQLITE_PAGE_BYTES 4096
#define CSQLITE_SEAL_BYTES 8

/// The name by which connections ask for it.
#define CSQLITE_SEALING "sealing"

/// Makes the name known; once in a process.
int csqlite_register_sealing(void);

/// Returns 1 when the 4,096 bytes of this page end with its seal.
///
/// - Parameter number: The number of the page, from 1 on.
int csqlite_is_sealed(const void *page, unsigned int number);

/// Returns 1 for the result of a call that found a page which does not agree with its seal.
static inline int csqlite_is_broken_seal(int result) { return result == SQLITE_IOERR_DATA; }

/// Returns 1 for the result of a call that could not read from the medium. SQLite itself takes that for damage.
static inline int csqlite_is_failed_read(int result) { return result == SQLITE_IOERR_READ; }

/// The number of reads that have failed so on this thread. A check of the whole file takes a page that it does not get for a damaged one.
unsigned long csqlite_failed_reads(void);

/// `SQLITE_IOERR_READ`.
static inline int csqlite_failed_read(void) { return SQLITE_IOERR_READ; }

/// Reserves the room in a database that has no page yet, or for the next VACUUM.
int csqlite_reserve_seals(sqlite3 *database);

/// Bytes that the open database has reserved at the end of its pages.
int csqlite_reserved(sqlite3 *database);

/// Returns 1 when the pages that this connection reads from its file are checked by their seals.
int csqlite_checks_seals(sqlite3 *database);

#endif
