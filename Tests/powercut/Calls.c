// The calls themselves. Each does what the C library's function of that name does, and says so to the recorder.

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "Recorder.h"

/// The function that stands behind ours.
#define BEHIND(result, name, ...) \
    static result (*behind)(__VA_ARGS__); \
    if (!behind) behind = (result(*)(__VA_ARGS__))dlsym(RTLD_NEXT, #name);

// MARK: Names

static int behind_openat(int directory, const char *path, int flags, mode_t mode) {
    BEHIND(int, openat, int, const char *, int, ...)
    return behind(directory, path, flags, mode);
}

static int open_file(int directory, const char *path, int flags, mode_t mode) {
    char room[PATH_MAX];
    const char *name = inside(directory, path, room);
    if (!name) return behind_openat(directory, path, flags, mode);
    recorder_lock();
    struct stat facts;
    int is_new = (flags & O_CREAT) && fstatat(directory, path, &facts, AT_SYMLINK_NOFOLLOW) != 0;
    int descriptor = must_fail(CALL_OPEN, is_new) ? -1 : behind_openat(directory, path, flags, mode);
    int error = errno;
    if (descriptor >= 0 && fstat(descriptor, &facts) == 0 && S_ISREG(facts.st_mode)) {
        remember_file(facts.st_ino);
        if (is_new) {
            record(POWERCUT_CREATE, 0, facts.st_ino, name, NULL, 0);
        } else if (flags & O_TRUNC) {
            record(POWERCUT_TRUNCATE, 0, facts.st_ino, NULL, NULL, 0);
        }
    }
    recorder_unlock();
    errno = error;
    return descriptor;
}

#define MODE \
    mode_t mode = 0; \
    if (flags & (O_CREAT | O_TMPFILE)) { \
        va_list list; \
        va_start(list, flags); \
        mode = va_arg(list, mode_t); \
        va_end(list); \
    }

int open(const char *path, int flags, ...) { MODE return open_file(AT_FDCWD, path, flags, mode); }
int open64(const char *path, int flags, ...) { MODE return open_file(AT_FDCWD, path, flags, mode); }
int openat(int directory, const char *path, int flags, ...) { MODE return open_file(directory, path, flags, mode); }
int openat64(int directory, const char *path, int flags, ...) { MODE return open_file(directory, path, flags, mode); }
int creat(const char *path, mode_t mode) { return open_file(AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC, mode); }

int mkdir(const char *path, mode_t mode) {
    BEHIND(int, mkdir, const char *, mode_t)
    char room[PATH_MAX];
    const char *name = inside(AT_FDCWD, path, room);
    if (!name) return behind(path, mode);
    recorder_lock();
    int result = must_fail(CALL_OPEN, 1) ? -1 : behind(path, mode);
    int error = errno;
    if (result == 0) record(POWERCUT_MKDIR, 0, 0, name, NULL, 0);
    recorder_unlock();
    errno = error;
    return result;
}

static int give_name(
    enum powercut_kind kind, int from, const char *path, int to, const char *target, unsigned flags,
    int (*behind)(int, const char *, int, const char *, unsigned)
) {
    char room[PATH_MAX], second_room[PATH_MAX];
    const char *name = inside(from, path, room), *new_name = inside(to, target, second_room);
    if (!name || !new_name) return behind(from, path, to, target, flags);
    recorder_lock();
    int result = must_fail(CALL_RENAME, 1) ? -1 : behind(from, path, to, target, flags);
    int error = errno;
    if (result == 0) record(kind, 0, 0, name, new_name, strlen(new_name));
    recorder_unlock();
    errno = error;
    return result;
}

static int behind_renameat2(int from, const char *path, int to, const char *target, unsigned flags) {
    BEHIND(int, renameat2, int, const char *, int, const char *, unsigned)
    return behind(from, path, to, target, flags);
}

static int behind_linkat(int from, const char *path, int to, const char *target, unsigned flags) {
    BEHIND(int, linkat, int, const char *, int, const char *, int)
    return behind(from, path, to, target, (int)flags);
}

int rename(const char *path, const char *target) {
    return give_name(POWERCUT_RENAME, AT_FDCWD, path, AT_FDCWD, target, 0, behind_renameat2);
}

int renameat(int from, const char *path, int to, const char *target) {
    return give_name(POWERCUT_RENAME, from, path, to, target, 0, behind_renameat2);
}

int renameat2(int from, const char *path, int to, const char *target, unsigned flags) {
    return give_name(POWERCUT_RENAME, from, path, to, target, flags, behind_renameat2);
}

int link(const char *path, const char *target) {
    return give_name(POWERCUT_LINK, AT_FDCWD, path, AT_FDCWD, target, 0, behind_linkat);
}

int linkat(int from, const char *path, int to, const char *target, int flags) {
    return give_name(POWERCUT_LINK, from, path, to, target, (unsigned)flags, behind_linkat);
}

static int remove_name(int directory, const char *path, int flags) {
    BEHIND(int, unlinkat, int, const char *, int)
    char room[PATH_MAX];
    const char *name = inside(directory, path, room);
    if (!name) return behind(directory, path, flags);
    recorder_lock();
    int result = must_fail(CALL_REMOVE, 0) ? -1 : behind(directory, path, flags);
    int error = errno;
    if (result == 0) record(POWERCUT_REMOVE, 0, 0, name, NULL, 0);
    recorder_unlock();
    errno = error;
    return result;
}

int unlink(const char *path) { return remove_name(AT_FDCWD, path, 0); }
int unlinkat(int directory, const char *path, int flags) { return remove_name(directory, path, flags); }
int rmdir(const char *path) { return remove_name(AT_FDCWD, path, AT_REMOVEDIR); }

// MARK: Content

static ssize_t behind_pwrite(int descriptor, const void *bytes, size_t count, off_t place) {
    BEHIND(ssize_t, pwrite64, int, const void *, size_t, off_t)
    return behind(descriptor, bytes, count, place);
}

static ssize_t write_file(int descriptor, const void *bytes, size_t count, off_t place, uint64_t inode) {
    recorder_lock();
    keep_content(descriptor, inode, place, count);
    ssize_t result = must_fail(CALL_WRITE, 1) ? -1 : behind_pwrite(descriptor, bytes, count, place);
    int error = errno;
    if (result > 0) record(POWERCUT_WRITE, (uint64_t)place, inode, NULL, bytes, (size_t)result);
    recorder_unlock();
    errno = error;
    return result;
}

/// Written at the descriptor's own place, as one who writes forward does.
static ssize_t append_file(int descriptor, const void *bytes, size_t count, struct stat *facts) {
    off_t place = fcntl(descriptor, F_GETFL) & O_APPEND ? facts->st_size : lseek(descriptor, 0, SEEK_CUR);
    ssize_t result = write_file(descriptor, bytes, count, place, facts->st_ino);
    if (result > 0) lseek(descriptor, place + result, SEEK_SET);
    return result;
}

static int read_fails(int descriptor) {
    struct stat facts;
    if (!is_file(descriptor, &facts)) return 0;
    recorder_lock();
    int fails = must_fail(CALL_READ, 0), error = errno;
    recorder_unlock();
    errno = error;
    return fails;
}

ssize_t read(int descriptor, void *bytes, size_t count) {
    BEHIND(ssize_t, read, int, void *, size_t)
    return read_fails(descriptor) ? -1 : behind(descriptor, bytes, count);
}

ssize_t pread64(int descriptor, void *bytes, size_t count, off_t place) {
    BEHIND(ssize_t, pread64, int, void *, size_t, off_t)
    return read_fails(descriptor) ? -1 : behind(descriptor, bytes, count, place);
}

ssize_t pread(int descriptor, void *bytes, size_t count, off_t place) { return pread64(descriptor, bytes, count, place); }

static void note_sent(const struct stat *facts, const void *bytes, size_t count) {
    recorder_lock();
    record(POWERCUT_SENT, 0, facts->st_ino, NULL, bytes, count);
    recorder_unlock();
}

ssize_t write(int descriptor, const void *bytes, size_t count) {
    BEHIND(ssize_t, write, int, const void *, size_t)
    struct stat facts;
    if (is_file(descriptor, &facts)) return append_file(descriptor, bytes, count, &facts);
    if (is_socket(descriptor, &facts)) note_sent(&facts, bytes, count);
    return behind(descriptor, bytes, count);
}

ssize_t pwrite64(int descriptor, const void *bytes, size_t count, off_t place) {
    struct stat facts;
    if (is_file(descriptor, &facts)) return write_file(descriptor, bytes, count, place, facts.st_ino);
    return behind_pwrite(descriptor, bytes, count, place);
}

ssize_t pwrite(int descriptor, const void *bytes, size_t count, off_t place) {
    return pwrite64(descriptor, bytes, count, place);
}

ssize_t writev(int descriptor, const struct iovec *parts, int count) {
    BEHIND(ssize_t, writev, int, const struct iovec *, int)
    struct stat facts;
    if (is_socket(descriptor, &facts)) {
        for (int index = 0; index < count; index++) note_sent(&facts, parts[index].iov_base, parts[index].iov_len);
    } else if (count > 0 && is_file(descriptor, &facts)) {
        // It may take less than it is given.
        return append_file(descriptor, parts[0].iov_base, parts[0].iov_len, &facts);
    }
    return behind(descriptor, parts, count);
}

ssize_t send(int descriptor, const void *bytes, size_t count, int flags) {
    BEHIND(ssize_t, send, int, const void *, size_t, int)
    struct stat facts;
    if (is_socket(descriptor, &facts)) note_sent(&facts, bytes, count);
    return behind(descriptor, bytes, count, flags);
}

ssize_t sendto(
    int descriptor, const void *bytes, size_t count, int flags, const struct sockaddr *address, socklen_t length
) {
    BEHIND(ssize_t, sendto, int, const void *, size_t, int, const struct sockaddr *, socklen_t)
    struct stat facts;
    if (is_socket(descriptor, &facts)) note_sent(&facts, bytes, count);
    return behind(descriptor, bytes, count, flags, address, length);
}

ssize_t sendmsg(int descriptor, const struct msghdr *message, int flags) {
    BEHIND(ssize_t, sendmsg, int, const struct msghdr *, int)
    struct stat facts;
    if (is_socket(descriptor, &facts)) {
        for (size_t index = 0; index < message->msg_iovlen; index++) {
            note_sent(&facts, message->msg_iov[index].iov_base, message->msg_iov[index].iov_len);
        }
    }
    return behind(descriptor, message, flags);
}

int ftruncate64(int descriptor, off_t length) {
    BEHIND(int, ftruncate64, int, off_t)
    struct stat facts;
    if (!is_file(descriptor, &facts)) return behind(descriptor, length);
    recorder_lock();
    int result = must_fail(CALL_TRUNCATE, length > facts.st_size) ? -1 : behind(descriptor, length);
    int error = errno;
    if (result == 0) record(POWERCUT_TRUNCATE, (uint64_t)length, facts.st_ino, NULL, NULL, 0);
    recorder_unlock();
    errno = error;
    return result;
}

int ftruncate(int descriptor, off_t length) { return ftruncate64(descriptor, length); }

/// The recorder cannot log these requests. The program is told that the file system does not support them, as many do not.
int ioctl(int descriptor, unsigned long request, ...) {
    BEHIND(int, ioctl, int, unsigned long, ...)
    va_list list;
    va_start(list, request);
    void *argument = va_arg(list, void *);
    va_end(list);
    struct stat facts;
    if (_IOC_TYPE(request) == 0x94 && is_file(descriptor, &facts)) {
        errno = EOPNOTSUPP;
        return -1;
    }
    return behind(descriptor, request, argument);
}

int posix_fallocate64(int descriptor, off_t place, off_t length) {
    BEHIND(int, posix_fallocate64, int, off_t, off_t)
    struct stat facts;
    return is_file(descriptor, &facts) ? EOPNOTSUPP : behind(descriptor, place, length);
}

int fallocate64(int descriptor, int mode, off_t place, off_t length) {
    BEHIND(int, fallocate64, int, int, off_t, off_t)
    struct stat facts;
    if (!is_file(descriptor, &facts)) return behind(descriptor, mode, place, length);
    errno = EOPNOTSUPP;
    return -1;
}

int posix_fallocate(int descriptor, off_t place, off_t length) { return posix_fallocate64(descriptor, place, length); }
int fallocate(int descriptor, int mode, off_t place, off_t length) { return fallocate64(descriptor, mode, place, length); }

// MARK: Sync

static int sync_file(int descriptor, int (*behind)(int)) {
    static uint64_t last;
    struct stat facts;
    char room[PATH_MAX];
    const char *name = NULL;
    if (is_folder(descriptor, &facts)) {
        name = inside_folder(descriptor, room);
    } else if (!is_file(descriptor, &facts)) {
        return behind(descriptor);
    }
    recorder_lock();
    // No two processes that write one log have the same numbers.
    uint64_t number = (uint64_t)getpid() << 32 | ++last;
    int fails = must_fail(CALL_SYNC, 1), error = errno;
    uint64_t mark = content_mark();
    record(name ? POWERCUT_FOLDER : POWERCUT_SYNC, number, facts.st_ino, name, NULL, 0);
    recorder_unlock();
    int result = fails ? -1 : behind(descriptor);
    if (!fails) error = errno;
    recorder_lock();
    if (!name) settle_content(descriptor, facts.st_ino, mark, result != 0);
    record(result == 0 ? POWERCUT_SYNCED : POWERCUT_UNSYNCED, number, facts.st_ino, NULL, NULL, 0);
    recorder_unlock();
    errno = error;
    return result;
}

static int behind_fsync(int descriptor) {
    BEHIND(int, fsync, int)
    return behind(descriptor);
}

static int behind_fdatasync(int descriptor) {
    BEHIND(int, fdatasync, int)
    return behind(descriptor);
}

int fsync(int descriptor) { return sync_file(descriptor, behind_fsync); }
int fdatasync(int descriptor) { return sync_file(descriptor, behind_fdatasync); }
