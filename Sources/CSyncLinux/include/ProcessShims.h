#ifndef CSYNCLINUX_PROCESS_SHIMS_H
#define CSYNCLINUX_PROCESS_SHIMS_H

#include <stdint.h>
#include <sys/types.h>

// Calls that the Swift importer leaves out: variadic ones and those behind _GNU_SOURCE.

/// f_type of statfs(2). Returns 0 or errno.
int csl_file_system_magic(const char *path, uint32_t *magic);

/// Forbids core dumps and ptrace by other processes of the same user: PR_SET_DUMPABLE 0 and RLIMIT_CORE 0.
/// Returns 0, or the errno of the first step that failed.
int csl_harden_process(void);

/// The C library makes no more heaps than this (M_ARENA_MAX of mallopt(3)).
void csl_limit_arenas(int count);

/// Installs a handler that only writes the signal's number as one byte to `descriptor`. SA_RESTART, so that calls
/// elsewhere in the program go on. Returns 0 or errno.
int csl_catch_signal(int signal, int descriptor);

/// pipe2(2) with O_CLOEXEC: ends[0] is read, ends[1] is written and never waits. Returns 0 or errno.
int csl_signal_pipe(int ends[2]);

/// Signals that were caught since the last call, bit n for signal n: equal ones that came in between count once.
uint64_t csl_take_signals(void);

/// Puts the default action back. Returns 0 or errno.
int csl_release_signal(int signal);

/// From now on the signal comes and does nothing. Returns 0 or errno.
int csl_pass_over_signal(int signal);

/// Starts a program with this one argument, in a process group of its own, with `/` as its folder, no descriptor but /dev/null as its
/// first three, default signal actions and the environment PATH alone. Returns 0, or the errno of what failed.
int csl_start_program(const char *path, const char *argument, pid_t *process);

/// Waits for the end of a child, at most so long. Returns 1 when it has ended (`status` as of waitpid(2)), 0 when the time is over, or
/// -errno.
int csl_wait_for_child(pid_t process, int milliseconds, int *status);

#endif
