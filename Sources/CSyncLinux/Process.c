#define _GNU_SOURCE
#include "ProcessShims.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

int csl_harden_process(void) {
    if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0) return errno;
    struct rlimit none = {0, 0};
    if (setrlimit(RLIMIT_CORE, &none) != 0) return errno;
    return 0;
}

void csl_limit_arenas(int count) {
    mallopt(M_ARENA_MAX, count);
}

int csl_file_system_magic(const char *path, uint32_t *magic) {
    struct statfs status;
    int result;
    do result = statfs(path, &status); while (result != 0 && errno == EINTR);
    if (result != 0) return errno;
    *magic = (uint32_t)status.f_type;
    return 0;
}

int csl_signal_pipe(int ends[2]) {
    if (pipe2(ends, O_CLOEXEC) != 0) return errno;
    // The handler must never wait, whatever thread it interrupts.
    if (fcntl(ends[1], F_SETFL, O_NONBLOCK) != 0) return errno;
    return 0;
}

// Written before a handler is installed, and read in it: by another thread, too, while the next signal gets the same handler.
static atomic_int signal_descriptor = -1;
// Bit n: signal n came and was not handed on yet.
static atomic_ullong pending_signals = 0;
_Static_assert(ATOMIC_INT_LOCK_FREE == 2 && ATOMIC_LLONG_LOCK_FREE == 2, "a signal handler may not take a lock");

static void note_signal(int number) {
    int before = errno;
    unsigned char byte = (unsigned char)number;
    // Before the byte: the reader of the byte then finds the bit.
    atomic_fetch_or(&pending_signals, 1ULL << (number & 63));
    // The byte only wakes the reader. A full pipe will do that as well, so no kind of signal is lost behind many of another.
    ssize_t ignored = write(atomic_load(&signal_descriptor), &byte, 1);
    (void)ignored;
    errno = before;
}

static int install(int number, void (*handler)(int)) {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = handler;
    action.sa_flags = SA_RESTART;
    sigfillset(&action.sa_mask);
    return sigaction(number, &action, NULL) == 0 ? 0 : errno;
}

int csl_catch_signal(int number, int descriptor) {
    atomic_store(&signal_descriptor, descriptor);
    return install(number, note_signal);
}

uint64_t csl_take_signals(void) {
    return atomic_exchange(&pending_signals, 0);
}

int csl_release_signal(int number) {
    return install(number, SIG_DFL);
}

static void pass_over(int number) {
    (void)number;
}

int csl_pass_over_signal(int number) {
    // A handler, where SIG_IGN would do: a program that is executed later inherits that, and no handler.
    return install(number, pass_over);
}

int csl_start_program(const char *path, const char *argument, pid_t *process) {
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attributes;
    int result = posix_spawn_file_actions_init(&files);
    if (result != 0) return result;
    result = posix_spawnattr_init(&attributes);
    if (result != 0) {
        posix_spawn_file_actions_destroy(&files);
        return result;
    }
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    char *const words[] = {(char *)path, (char *)argument, NULL};
    char *const surroundings[] = {"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", NULL};
    if ((result = posix_spawnattr_setsigmask(&attributes, &none)) == 0
        && (result = posix_spawnattr_setsigdefault(&attributes, &all)) == 0
        && (result = posix_spawnattr_setpgroup(&attributes, 0)) == 0
        && (result = posix_spawnattr_setflags(
                &attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP)) == 0
        && (result = posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDWR, 0)) == 0
        && (result = posix_spawn_file_actions_adddup2(&files, 0, 1)) == 0
        && (result = posix_spawn_file_actions_adddup2(&files, 0, 2)) == 0
        && (result = posix_spawn_file_actions_addclosefrom_np(&files, 3)) == 0
        && (result = posix_spawn_file_actions_addchdir_np(&files, "/")) == 0)
        result = posix_spawn(process, path, &files, &attributes, words, surroundings);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&files);
    return result;
}

int csl_wait_for_child(pid_t process, int milliseconds, int *status) {
    // A tenth of a second is soon enough for what is waited for; a descriptor of the process needs Linux 5.3.
    for (int waited = 0;; waited += 100) {
        pid_t ended = waitpid(process, status, WNOHANG);
        if (ended == process) return 1;
        if (ended < 0 && errno != EINTR) return -errno;
        if (waited >= milliseconds) return 0;
        poll(NULL, 0, 100);
    }
}
