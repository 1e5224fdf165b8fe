#ifndef POWERCUT_RECORDER_H
#define POWERCUT_RECORDER_H

#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "powercut.h"

enum call { CALL_OPEN, CALL_WRITE, CALL_SYNC, CALL_RENAME, CALL_REMOVE, CALL_TRUNCATE, CALL_READ, CALLS };

/// One call at a time: the order of the log is the order of the effects.
void recorder_lock(void);
void recorder_unlock(void);

/// With the lock held. Writes one record; without a log nothing.
void record(enum powercut_kind kind, uint64_t place, uint64_t inode, const char *path, const void *data, size_t count);

/// With the lock held. Counts the call; whether it is the one that has to fail. `errno` says how then.
int must_fail(enum call call, int may_need_room);

/// With the lock held, before a write. In a run whose fault is `dropped`, keeps what stands there until a sync has covered it.
void keep_content(int descriptor, uint64_t inode, off_t place, size_t count);
/// With the lock held: a mark for ``settle_content``, to be taken when a sync begins.
uint64_t content_mark(void);
/// With the lock held: a sync that began at `mark` has ended. A failed one takes back what was written before it, as a kernel does that
/// drops the pages it could not write (fsync(2)): a later read of the file gives the old content, and a later sync succeeds without the new
/// one. The file keeps its length.
void settle_content(int descriptor, uint64_t inode, uint64_t mark, int has_failed);

/// Returns the path within the folder, as the log has it; NULL when it is elsewhere. `room` has PATH_MAX bytes.
const char *inside(int directory, const char *path, char *room);
/// The same for an open folder.
const char *inside_folder(int descriptor, char *room);

/// With the lock held: from now on this file is one of the folder's.
void remember_file(uint64_t inode);
/// Returns 1 when the descriptor is of a regular file of the folder.
int is_file(int descriptor, struct stat *facts);
/// Returns 1 when the descriptor is of the folder itself or of one inside it.
int is_folder(int descriptor, struct stat *facts);
/// Returns 1 when bytes that are written to the descriptor leave the program, so that a reader may record them.
int is_socket(int descriptor, struct stat *facts);

#endif
