#include "Recorder.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

struct header {
    uint32_t magic, kind;
    uint64_t place, inode;
    uint32_t path_bytes, data_bytes;
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static char root[PATH_MAX];
static size_t root_bytes;
static int log_descriptor = -1;

// Inodes of the folder's files. A program of ours opens a few dozen of them; one that does not fit ends the run.
#define FILES 4096
static uint64_t files[FILES];
static size_t file_count;
static dev_t device;

static const char *const names[CALLS] = {"open", "write", "sync", "rename", "remove", "truncate", "read"};
static long counts[CALLS], counts_with_room[CALLS];
static struct {
    int call, error, is_sticky, drops;
    long number;
} fault = {.call = -1};

void recorder_lock(void) { pthread_mutex_lock(&mutex); }
void recorder_unlock(void) { pthread_mutex_unlock(&mutex); }

static void read_fault(const char *text) {
    char name[16], when[16];
    if (sscanf(text, "%15[^:]:%ld:%d:%15s", name, &fault.number, &fault.error, when) != 4) abort();
    for (int call = 0; call < CALLS; call++) {
        if (strcmp(name, names[call]) == 0) fault.call = call;
    }
    if (fault.call < 0) abort();
    fault.is_sticky = strcmp(when, "sticky") == 0;
    fault.drops = strcmp(when, "dropped") == 0;
}

static const char *relative(const char *path) {
    if (!root_bytes || strncmp(path, root, root_bytes) != 0) return NULL;
    if (path[root_bytes] == 0) return path + root_bytes;
    return path[root_bytes] == '/' ? path + root_bytes + 1 : NULL;
}

/// Logs the content of the folder at the start, so that the log alone tells its later content.
static int note_found(const char *path, const struct stat *facts, int type, struct FTW *level) {
    (void)level;
    const char *name = relative(path);
    if (!name || !*name) return 0;
    if (type == FTW_D) record(POWERCUT_MKDIR, 1, facts->st_ino, name, NULL, 0);
    if (!S_ISREG(facts->st_mode)) return 0;
    remember_file(facts->st_ino);
    size_t count = (size_t)facts->st_size;
    int descriptor = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
    void *content = count ? mmap(NULL, count, PROT_READ, MAP_PRIVATE, descriptor, 0) : NULL;
    if (descriptor < 0 || content == MAP_FAILED) abort();
    record(POWERCUT_FOUND, 0, facts->st_ino, name, content, count);
    if (content) munmap(content, count);
    syscall(SYS_close, descriptor);
    return 0;
}

static int remember_found(const char *path, const struct stat *facts, int type, struct FTW *level) {
    (void)path, (void)type, (void)level;
    if (S_ISREG(facts->st_mode)) remember_file(facts->st_ino);
    return 0;
}

__attribute__((constructor)) static void begin(void) {
    const char *folder = getenv("POWERCUT_ROOT"), *log = getenv("POWERCUT_LOG"), *rule = getenv("POWERCUT_FAULT");
    struct stat facts;
    if (!folder || !realpath(folder, root) || stat(root, &facts) != 0) return;
    root_bytes = strlen(root);
    device = facts.st_dev;
    if (rule) read_fault(rule);
    if (!log) return;
    int opened = (int)syscall(SYS_openat, AT_FDCWD, log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    // Far above the descriptors that a program counts on.
    log_descriptor = fcntl(opened, F_DUPFD_CLOEXEC, 900);
    if (opened >= 0) syscall(SYS_close, opened);
    if (log_descriptor < 0) abort();
    // A second process goes on where the first one has ended in good order.
    int is_first = lseek(log_descriptor, 0, SEEK_END) == 0;
    if (nftw(root, is_first ? note_found : remember_found, 16, FTW_PHYS) != 0) abort();
}

__attribute__((destructor)) static void end(void) {
    const char *path = getenv("POWERCUT_COUNT");
    if (!path || !root_bytes) return;
    int descriptor = (int)syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    for (int call = 0; call < CALLS; call++) {
        char line[96];
        int length = snprintf(line, sizeof line, "%s %ld %ld\n", names[call], counts[call], counts_with_room[call]);
        syscall(SYS_write, descriptor, line, (size_t)length);
    }
    syscall(SYS_close, descriptor);
}

void record(enum powercut_kind kind, uint64_t place, uint64_t inode, const char *path, const void *data, size_t count) {
    if (log_descriptor < 0) return;
    struct header header = {0x45435045, kind, place, inode, path ? (uint32_t)strlen(path) : 0, (uint32_t)count};
    struct iovec parts[3] = {{&header, sizeof header}, {(void *)path, header.path_bytes}, {(void *)data, count}};
    long written = syscall(SYS_writev, log_descriptor, parts, 3);
    // A log with a gap would prove something that did not happen.
    if (written != (long)(sizeof header + header.path_bytes + count)) abort();
}

int must_fail(enum call call, int may_need_room) {
    counts[call]++;
    if (may_need_room) counts_with_room[call]++;
    if (fault.call != (int)call) return 0;
    int is_space = fault.error == ENOSPC || fault.error == EDQUOT || fault.error == EFBIG;
    if (is_space && !may_need_room) return 0;
    long number = is_space ? counts_with_room[call] : counts[call];
    if (number != fault.number && !(fault.is_sticky && number > fault.number)) return 0;
    errno = fault.error;
    return 1;
}

/// The content of a file before a write that no sync has covered yet; the newest first.
struct old_content {
    struct old_content *next;
    uint64_t inode, number;
    off_t place;
    size_t count;
    uint8_t bytes[];
};
static struct old_content *old_contents;
static uint64_t content_number;

/// The same file once more, for a descriptor may be open for one direction alone.
static int open_again(int descriptor, int flags) {
    char link[40];
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    int again = (int)syscall(SYS_openat, AT_FDCWD, link, flags | O_CLOEXEC);
    if (again < 0) abort();
    return again;
}

void keep_content(int descriptor, uint64_t inode, off_t place, size_t count) {
    if (!fault.drops) return;
    struct old_content *old = calloc(1, sizeof *old + count);
    if (!old) abort();
    // Bytes beyond the end read as zeros, as those of a dropped page do.
    int again = open_again(descriptor, O_RDONLY);
    if (syscall(SYS_pread64, again, old->bytes, count, place) < 0) abort();
    syscall(SYS_close, again);
    old->inode = inode, old->place = place, old->count = count, old->number = ++content_number;
    old->next = old_contents;
    old_contents = old;
}

uint64_t content_mark(void) { return content_number; }

void settle_content(int descriptor, uint64_t inode, uint64_t mark, int has_failed) {
    if (!fault.drops) return;
    int again = has_failed ? open_again(descriptor, O_WRONLY) : -1;
    for (struct old_content **link = &old_contents; *link;) {
        struct old_content *old = *link;
        if (old->inode != inode || old->number > mark) {
            link = &old->next;
            continue;
        }
        if (has_failed && syscall(SYS_pwrite64, again, old->bytes, old->count, old->place) != (long)old->count) abort();
        *link = old->next;
        free(old);
    }
    if (again >= 0) syscall(SYS_close, again);
}

/// The name of an open file as the kernel has it.
static int name_of(int descriptor, char *room) {
    char link[40];
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    ssize_t count = readlink(link, room, PATH_MAX - 1);
    room[count < 0 ? 0 : count] = 0;
    return count > 0;
}

const char *inside(int directory, const char *path, char *room) {
    if (!root_bytes) return NULL;
    if (path[0] == '/') return relative(path);
    char folder[PATH_MAX];
    if (directory == AT_FDCWD ? !getcwd(folder, sizeof folder) : !name_of(directory, folder)) return NULL;
    if (snprintf(room, PATH_MAX, "%s/%s", folder, path) >= PATH_MAX) return NULL;
    return relative(room);
}

const char *inside_folder(int descriptor, char *room) {
    return name_of(descriptor, room) ? relative(room) : NULL;
}

void remember_file(uint64_t inode) {
    for (size_t index = 0; index < file_count; index++) {
        if (files[index] == inode) return;
    }
    if (file_count == FILES) abort();
    files[file_count++] = inode;
}

int is_file(int descriptor, struct stat *facts) {
    if (!root_bytes || fstat(descriptor, facts) != 0 || !S_ISREG(facts->st_mode) || facts->st_dev != device) return 0;
    for (size_t index = 0; index < file_count; index++) {
        if (files[index] == facts->st_ino) return 1;
    }
    return 0;
}

int is_folder(int descriptor, struct stat *facts) {
    char room[PATH_MAX];
    return root_bytes && fstat(descriptor, facts) == 0 && S_ISDIR(facts->st_mode) && inside_folder(descriptor, room) != NULL;
}

int is_socket(int descriptor, struct stat *facts) {
    return log_descriptor >= 0 && fstat(descriptor, facts) == 0 && S_ISSOCK(facts->st_mode);
}
