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

/// Where `path` is within the folder, as the log has it; NULL when it is elsewhere. `room` has PATH_MAX bytes.
const char *inside(int directory, const char *path, char *room);
/// The same for an open folder.
const char *inside_folder(int descriptor, char *room);

/// With the lock held: from now on this file is one of the folder's.
void remember_file(uint64_t inode);
/// Whether the descriptor is of a regular file of the folder.
int is_file(int descriptor, struct stat *facts);
/// Whether the descriptor is of a folder inside the folder, or of itself.
int is_folder(int descriptor, struct stat *facts);
/// Whether what is written to the descriptor leaves the program, and somebody writes it down.
int is_socket(int descriptor, struct stat *facts);

#endif
