#ifndef POWERCUT_H
#define POWERCUT_H

// Loaded before the C library (LD_PRELOAD), this library sees what a program asks of one folder, and what it says on its
// sockets. It writes both down in one order, or lets precisely one call fail. It is never linked into a program.
//
//   POWERCUT_ROOT    the folder; without it nothing happens
//   POWERCUT_LOG     where to write everything down, outside of the folder
//   POWERCUT_FAULT   CALL:NTH:ERRNO:once or CALL:NTH:ERRNO:sticky, such as sync:3:5:once; CALL is open, write, sync, rename,
//                    remove, truncate or read. Calls are counted from 1 on. With ENOSPC, EDQUOT and EFBIG only calls count that
//                    can need room. sync:NTH:ERRNO:dropped fails once as well, and takes back what the file was given since
//                    the last sync that succeeded: later syncs say nothing about it.
//   POWERCUT_COUNT   a file that says at the end how many calls of each kind there were, by EIO and by ENOSPC
//
// A record of the log, in the byte order of the machine, is this header, then path, then data:
//
//   offset  size  content
//        0     4  magic: 0x45435045
//        4     4  kind, as below
//        8     8  place in the file, length, or the number of a sync
//       16     8  inode
//       24     4  bytes of the path, relative to the folder
//       28     4  bytes of the data
//
// Not seen: stores to mapped memory (of SQLite's files only -shm, which recovery does not need), io_uring, raw system calls
// and what stdio writes by itself.

enum powercut_kind {
    POWERCUT_FOUND = 12,    ///< inode, path, data: a file that was there before the log began
    POWERCUT_CREATE = 1,    ///< path: a new, empty file
    POWERCUT_WRITE = 2,     ///< place, inode, data
    POWERCUT_TRUNCATE = 3,  ///< length, inode
    POWERCUT_SYNC = 4,      ///< number, inode: of a file; begins, and what is above it in the log is covered
    POWERCUT_FOLDER = 13,   ///< number, inode, path: the sync of a folder begins
    POWERCUT_SYNCED = 5,    ///< number: has returned, all is well
    POWERCUT_UNSYNCED = 6,  ///< number: has returned an error
    POWERCUT_RENAME = 7,    ///< path, and the new one as data
    POWERCUT_LINK = 8,      ///< path, and the new one as data
    POWERCUT_REMOVE = 9,    ///< path
    POWERCUT_MKDIR = 10,    ///< path; with the place 1 it was there before the log began
    POWERCUT_SENT = 11,     ///< data, about to leave on the socket whose inode it is
};

#endif
