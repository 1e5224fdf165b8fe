#include "Seal.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>

enum { PAGE = CSQLITE_PAGE_BYTES, SEAL = CSQLITE_SEAL_BYTES, HEADER = 100 };

// MARK: - The sum

// Four lanes as in XXH64 (https://github.com/Cyan4973/xxHash/blob/dev/doc/xxhash_spec.md), whose constants these are. Every
// step maps one to one what it takes in, so a change within 8 bytes always changes the sum, and any other one is missed once
// in 2^64. A page takes half a microsecond (measured), less than to read it from the memory of the kernel.
static const uint64_t P1 = 0x9E3779B185EBCA87u, P2 = 0xC2B2AE3D27D4EB4Fu, P3 = 0x165667B19E3779F9u;

static inline uint64_t turn(uint64_t value, int by) { return value << by | value >> (64 - by); }

static inline uint64_t word(const uint8_t *bytes) {
    uint64_t value;
    memcpy(&value, bytes, sizeof value);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    value = __builtin_bswap64(value);
#endif
    return value;
}

static inline uint64_t mix(uint64_t lane, uint64_t value) { return turn(lane + value * P2, 31) * P1; }

static uint64_t sum(const uint8_t *page, uint32_t number) {
    uint64_t a = number + P1, b = P2, c = P3, d = ~P1;
    int place = 0;
    for (; place + 32 <= PAGE - SEAL; place += 32) {
        a = mix(a, word(page + place));
        b = mix(b, word(page + place + 8));
        c = mix(c, word(page + place + 16));
        d = mix(d, word(page + place + 24));
    }
    for (; place < PAGE - SEAL; place += 8) a = mix(a, word(page + place));
    uint64_t all = turn(a, 1) + turn(b, 7) + turn(c, 12) + turn(d, 18);
    all = (all ^ all >> 33) * P2;
    return all ^ all >> 29;
}

int csqlite_is_sealed(const void *page, unsigned int number) {
    const uint8_t *bytes = page;
    return word(bytes + PAGE - SEAL) == sum(bytes, number);
}

static void seal(uint8_t *page, uint32_t number) {
    uint64_t value = sum(page, number);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    value = __builtin_bswap64(value);
#endif
    memcpy(page + PAGE - SEAL, &value, SEAL);
}

// MARK: - The file

// Stands in front of the file that the system's own way has opened; SQLite hands over room for both. The log and the journal
// have no seals, and the same to say when a call fails.
typedef struct {
    sqlite3_file base;
    sqlite3_file *real;
    /// The database itself, and not its log or its journal.
    int is_database;
    /// The header was read or written.
    int is_known;
    /// The header says that there is room for seals.
    int seals;
    /// End of the pages that were written before the header was known.
    sqlite3_int64 early;
    /// Up to here the file was seen to reach.
    sqlite3_int64 end;
} SealedFile;

static inline sqlite3_file *real_of(sqlite3_file *file) { return ((SealedFile *)file)->real; }

// Room that was reserved stays so: what says otherwise later is damage, and no reason to look away.
static void note_header(SealedFile *me, const uint8_t *header) {
    if (memcmp(header, "SQLite format 3", 16) != 0) return;
    me->is_known = 1;
    if ((header[16] << 8 | header[17]) == PAGE && header[20] == SEAL) me->seals = 1;
}

static _Thread_local unsigned long failed_reads;

unsigned long csqlite_failed_reads(void) { return failed_reads; }

// SQLite calls EIO, ENXIO and ERANGE of a read SQLITE_IOERR_CORRUPTFS and makes SQLITE_CORRUPT of it (3.31 and later). A medium
// that does not answer says nothing about what was written to it.
static int read_real(SealedFile *me, void *bytes, int count, sqlite3_int64 place) {
    int result = me->real->pMethods->xRead(me->real, bytes, count, place);
    if (result != SQLITE_IOERR_CORRUPTFS && result != SQLITE_IOERR_READ) return result;
    failed_reads++;
    return SQLITE_IOERR_READ;
}

// Only ENOSPC of a write is SQLITE_FULL to SQLite. A quota and the largest size of a file are the end of the room as well, and
// the cause is not known any more at a commit: SQLite forgets errno before the statement ends.
static int as_room(int result) {
    if ((result & 0xFF) != SQLITE_IOERR || (errno != EDQUOT && errno != EFBIG && errno != ENOSPC)) return result;
    return SQLITE_FULL;
}

static int is_zero(const uint8_t *bytes, int count) {
    for (int place = 0; place < count; place++)
        if (bytes[place] != 0) return 0;
    return 1;
}

static int seal_read(sqlite3_file *file, void *bytes, int count, sqlite3_int64 place) {
    SealedFile *me = (SealedFile *)file;
    // A part of a page says nothing about the page; only the header is read by itself, before anything is known.
    if (me->seals && count < PAGE && count > HEADER && place % PAGE == 0) {
        uint8_t page[PAGE];
        int result = seal_read(file, page, PAGE, place);
        memcpy(bytes, page, (size_t)count);
        return result;
    }
    int result = read_real(me, bytes, count, place);
    if (me->is_database && place == 0 && count >= HEADER && result == SQLITE_OK) note_header(me, bytes);
    if (!me->seals || count != PAGE || place % PAGE != 0) return result;
    // Past its end there is nothing, which SQLite knows; half a page is not what was written.
    if (result == SQLITE_IOERR_SHORT_READ && is_zero(bytes, count)) return result;
    if (result != SQLITE_OK && result != SQLITE_IOERR_SHORT_READ) return result;
    uint32_t number = (uint32_t)(place / PAGE + 1);
    if (csqlite_is_sealed(bytes, number)) return result;
    sqlite3_log(SQLITE_IOERR_DATA, "page %u is not as it was written", number);
    return SQLITE_IOERR_DATA;
}

static int write_real(SealedFile *me, const void *bytes, int count, sqlite3_int64 place) {
    int result = me->real->pMethods->xWrite(me->real, bytes, count, place);
    return result == SQLITE_OK ? result : as_room(result);
}

// Writes sealed pages up to `until`. Pages that a longer file has gained without a write are read as zeros, and no seal agrees with zeros.
static int fill(SealedFile *me, sqlite3_int64 until) {
    if (until <= me->end) return SQLITE_OK;
    int result = me->real->pMethods->xFileSize(me->real, &me->end);
    for (sqlite3_int64 place = (me->end + PAGE - 1) / PAGE * PAGE; result == SQLITE_OK && place + PAGE <= until; place += PAGE) {
        uint8_t page[PAGE] = {0};
        seal(page, (uint32_t)(place / PAGE + 1));
        result = write_real(me, page, PAGE, place);
    }
    return result;
}

// A new file with more pages than SQLite keeps in memory gets most of them before its first one, which has the header (VACUUM INTO).
static int seal_early(SealedFile *me) {
    int result = SQLITE_OK;
    for (sqlite3_int64 place = PAGE; result == SQLITE_OK && place < me->early; place += PAGE) {
        uint8_t page[PAGE];
        result = read_real(me, page, PAGE, place);
        if (result != SQLITE_OK && result != SQLITE_IOERR_SHORT_READ) return result;
        seal(page, (uint32_t)(place / PAGE + 1));
        result = write_real(me, page, PAGE, place);
    }
    if (result == SQLITE_OK) me->early = 0;
    return result;
}

static int seal_write(sqlite3_file *file, const void *bytes, int count, sqlite3_int64 place) {
    SealedFile *me = (SealedFile *)file;
    if (me->is_database && place == 0 && count >= HEADER) note_header(me, bytes);
    if (me->is_database && !me->is_known && me->early < place + count) me->early = place + count;
    if (!me->seals || count != PAGE || place % PAGE != 0) return write_real(me, bytes, count, place);
    int result = seal_early(me);
    if (result == SQLITE_OK) result = fill(me, place);
    if (result != SQLITE_OK) return result;
    uint8_t page[PAGE];
    memcpy(page, bytes, PAGE);
    seal(page, (uint32_t)(place / PAGE + 1));
    result = write_real(me, page, PAGE, place);
    if (result == SQLITE_OK && me->end < place + PAGE) me->end = place + PAGE;
    return result;
}

static int seal_truncate(sqlite3_file *file, sqlite3_int64 size) {
    SealedFile *me = (SealedFile *)file;
    int result = me->seals ? fill(me, size) : SQLITE_OK;
    if (result == SQLITE_OK) result = me->real->pMethods->xTruncate(me->real, size);
    if (result != SQLITE_OK) result = as_room(result);
    if (me->end > size) me->end = size;
    return result;
}

static int seal_close(sqlite3_file *file) { return real_of(file)->pMethods->xClose(real_of(file)); }
static int seal_sync(sqlite3_file *file, int flags) { return real_of(file)->pMethods->xSync(real_of(file), flags); }
static int seal_size(sqlite3_file *file, sqlite3_int64 *size) { return real_of(file)->pMethods->xFileSize(real_of(file), size); }
static int seal_lock(sqlite3_file *file, int level) { return real_of(file)->pMethods->xLock(real_of(file), level); }
static int seal_unlock(sqlite3_file *file, int level) { return real_of(file)->pMethods->xUnlock(real_of(file), level); }
static int seal_reserved(sqlite3_file *file, int *is) { return real_of(file)->pMethods->xCheckReservedLock(real_of(file), is); }
static int seal_control(sqlite3_file *file, int code, void *value) {
    return real_of(file)->pMethods->xFileControl(real_of(file), code, value);
}
static int seal_sector(sqlite3_file *file) { return real_of(file)->pMethods->xSectorSize(real_of(file)); }
static int seal_map(sqlite3_file *file, int region, int size, int extend, void volatile **at) {
    return real_of(file)->pMethods->xShmMap(real_of(file), region, size, extend, at);
}
static int seal_shm_lock(sqlite3_file *file, int offset, int count, int flags) {
    return real_of(file)->pMethods->xShmLock(real_of(file), offset, count, flags);
}
static void seal_barrier(sqlite3_file *file) { real_of(file)->pMethods->xShmBarrier(real_of(file)); }
static int seal_unmap(sqlite3_file *file, int remove) { return real_of(file)->pMethods->xShmUnmap(real_of(file), remove); }

static int seal_traits(sqlite3_file *file) {
    // From 3.48 on SQLite asks before it reads parts of pages (SQLITE_IOCAP_SUBPAGE_READ, 0x8000).
    return real_of(file)->pMethods->xDeviceCharacteristics(real_of(file)) & ~0x8000;
}

// Version 2: without mapped memory, because seals cannot be checked there.
static const sqlite3_io_methods methods = {
    .iVersion = 2, .xClose = seal_close, .xRead = seal_read, .xWrite = seal_write, .xTruncate = seal_truncate,
    .xSync = seal_sync, .xFileSize = seal_size, .xLock = seal_lock, .xUnlock = seal_unlock,
    .xCheckReservedLock = seal_reserved, .xFileControl = seal_control, .xSectorSize = seal_sector,
    .xDeviceCharacteristics = seal_traits, .xShmMap = seal_map, .xShmLock = seal_shm_lock, .xShmBarrier = seal_barrier,
    .xShmUnmap = seal_unmap,
};

// MARK: - The way to the files

static inline sqlite3_vfs *below(sqlite3_vfs *vfs) { return vfs->pAppData; }

static int seal_open(sqlite3_vfs *vfs, const char *name, sqlite3_file *file, int flags, int *given) {
    SealedFile *me = (SealedFile *)file;
    memset(me, 0, sizeof *me);
    me->is_database = (flags & SQLITE_OPEN_MAIN_DB) != 0;
    me->real = (sqlite3_file *)(me + 1);
    int result = below(vfs)->xOpen(below(vfs), name, me->real, flags, given);
    // SQLite closes what has methods, also after a failure.
    if (me->real->pMethods != NULL) me->base.pMethods = &methods;
    return result;
}

static int seal_delete(sqlite3_vfs *vfs, const char *name, int sync) { return below(vfs)->xDelete(below(vfs), name, sync); }
static int seal_access(sqlite3_vfs *vfs, const char *name, int flags, int *is) { return below(vfs)->xAccess(below(vfs), name, flags, is); }
static int seal_path(sqlite3_vfs *vfs, const char *name, int size, char *path) {
    return below(vfs)->xFullPathname(below(vfs), name, size, path);
}
static int seal_random(sqlite3_vfs *vfs, int size, char *bytes) { return below(vfs)->xRandomness(below(vfs), size, bytes); }
static int seal_sleep(sqlite3_vfs *vfs, int us) { return below(vfs)->xSleep(below(vfs), us); }
static int seal_time(sqlite3_vfs *vfs, double *time) { return below(vfs)->xCurrentTime(below(vfs), time); }
static int seal_time64(sqlite3_vfs *vfs, sqlite3_int64 *time) { return below(vfs)->xCurrentTimeInt64(below(vfs), time); }
static int seal_error(sqlite3_vfs *vfs, int size, char *text) { return below(vfs)->xGetLastError(below(vfs), size, text); }

int csqlite_register_sealing(void) {
    static sqlite3_vfs vfs;
    // The way that is the default now, and no other one.
    sqlite3_vfs *real = sqlite3_vfs_find(NULL);
    if (real == NULL) return SQLITE_ERROR;
    if (vfs.pAppData != NULL) return SQLITE_OK;
    // These programs load no extensions, so the functions for them are absent.
    vfs = (sqlite3_vfs){
        .iVersion = 2, .szOsFile = (int)sizeof(SealedFile) + real->szOsFile, .mxPathname = real->mxPathname,
        .zName = CSQLITE_SEALING, .pAppData = real, .xOpen = seal_open, .xDelete = seal_delete, .xAccess = seal_access,
        .xFullPathname = seal_path, .xRandomness = seal_random, .xSleep = seal_sleep, .xCurrentTime = seal_time,
        .xGetLastError = seal_error, .xCurrentTimeInt64 = seal_time64,
    };
    return sqlite3_vfs_register(&vfs, 0);
}

int csqlite_reserve_seals(sqlite3 *database) {
    int count = SEAL;
    return sqlite3_file_control(database, "main", SQLITE_FCNTL_RESERVE_BYTES, &count);
}

int csqlite_reserved(sqlite3 *database) {
    int count = -1;
    return sqlite3_file_control(database, "main", SQLITE_FCNTL_RESERVE_BYTES, &count) == SQLITE_OK ? count : -1;
}

int csqlite_checks_seals(sqlite3 *database) {
    sqlite3_file *file = NULL;
    int result = sqlite3_file_control(database, "main", SQLITE_FCNTL_FILE_POINTER, &file);
    return result == SQLITE_OK && file != NULL && file->pMethods == &methods && ((SealedFile *)file)->seals;
}
