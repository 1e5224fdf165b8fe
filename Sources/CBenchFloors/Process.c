#include "Internal.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

/// Our environment with `more` in front: the first of a name counts for getenv(3). The caller frees it.
static char **joined_environment(const char *const *more) {
    size_t ours = 0, added = 0;
    while (environ[ours]) ours++;
    while (more && more[added]) added++;
    char **all = calloc(ours + added + 1, sizeof *all);
    if (!all) return NULL;
    for (size_t i = 0; i < added; i++) all[i] = (char *)more[i];
    memcpy(all + added, environ, ours * sizeof *all);
    return all;
}

int bench_start(
    const char *const *arguments, const char *const *environment, const char *log_path, pid_t *pid, int *stdout_fd,
    bench_failure *failure) {
    int ends[2] = {-1, -1};
    int log = open(log_path, O_CREAT | O_WRONLY | O_APPEND | O_CLOEXEC, 0600);
    if (log < 0) return bench_fail(failure, "open %s: %s", log_path, strerror(errno));
    char **all = joined_environment(environment);
    if (!all || (stdout_fd && pipe2(ends, O_CLOEXEC) != 0)) {
        free(all);
        close(log);
        return bench_fail(failure, "start %s: %s", arguments[0], strerror(errno));
    }

    pid_t parent = getpid();
    pid_t child = fork();
    if (child == 0) {
        // Only calls that are safe after fork in a program with threads.
        sigset_t none;
        sigemptyset(&none);
        sigprocmask(SIG_SETMASK, &none, NULL);
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent) _exit(127);
        int nothing = open("/dev/null", O_RDONLY);
        dup2(nothing, 0);
        dup2(stdout_fd ? ends[1] : log, 1);
        dup2(log, 2);
        execve(arguments[0], (char *const *)arguments, all);
        _exit(127);
    }
    int error = errno;
    free(all);
    close(log);
    if (stdout_fd) close(ends[1]);
    if (child < 0) {
        if (stdout_fd) close(ends[0]);
        return bench_fail(failure, "start %s: %s", arguments[0], strerror(error));
    }
    *pid = child;
    if (stdout_fd) *stdout_fd = ends[0];
    return 0;
}

/// Returns 1 when the child has ended. Does not collect it.
static int has_ended(pid_t pid) {
    siginfo_t info = {0};
    return waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == pid;
}

/// Waits until `fd` can be read. The child's end is noticed within 100 ms, since a grandchild may hold `fd` open.
static int wait_readable(int fd, pid_t pid, uint64_t deadline, bench_failure *failure) {
    for (;;) {
        struct pollfd watched = {.fd = fd, .events = POLLIN};
        if (poll(&watched, 1, 100) > 0) return 0;
        if (has_ended(pid)) return bench_fail(failure, "the program ended instead of getting ready");
        if (now_ns() >= deadline) return bench_fail(failure, "the program did not get ready in time");
    }
}

int bench_read_line(int fd, pid_t pid, int timeout_ms, char *line, size_t size, bench_failure *failure) {
    uint64_t deadline = now_ns() + (uint64_t)timeout_ms * 1000000u;
    size_t length = 0;
    while (length + 1 < size) {
        if (wait_readable(fd, pid, deadline, failure) != 0) return -1;
        ssize_t count = read(fd, line + length, 1);
        if (count <= 0) return bench_fail(failure, "the program closed its output before a whole line");
        if (line[length] == '\n') {
            line[length] = 0;
            return 0;
        }
        length++;
    }
    return bench_fail(failure, "the program printed a line of more than %zu bytes", size - 1);
}

int bench_notify_open(const char *path, int *fd, bench_failure *failure) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof address.sun_path) return bench_fail(failure, "%s is too long for a socket", path);
    strcpy(address.sun_path, path);
    *fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    unlink(path);
    if (*fd < 0 || bind(*fd, (struct sockaddr *)&address, sizeof address) != 0) {
        return bench_fail(failure, "bind %s: %s", path, strerror(errno));
    }
    return 0;
}

int bench_notify_wait(int fd, pid_t pid, int timeout_ms, bench_failure *failure) {
    uint64_t deadline = now_ns() + (uint64_t)timeout_ms * 1000000u;
    for (;;) {
        if (wait_readable(fd, pid, deadline, failure) != 0) return -1;
        char message[4096];
        ssize_t count = recv(fd, message, sizeof message - 1, 0);
        if (count <= 0) continue;
        message[count] = 0;
        if (strstr(message, "READY=1")) return 0;
    }
}

int bench_stop(pid_t pid, int signal, int timeout_ms) {
    if (pid <= 0) return -1;
    kill(pid, signal);
    uint64_t deadline = now_ns() + (uint64_t)timeout_ms * 1000000u;
    while (!has_ended(pid)) {
        if (now_ns() >= deadline) kill(pid, SIGKILL);
        poll(NULL, 0, 2);
    }
    int status = 0;
    return waitpid(pid, &status, 0) == pid ? status : -1;
}

void bench_how_ended(pid_t pid, bench_failure *words) {
    siginfo_t info = {0};
    words->text[0] = 0;
    if (waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid != pid) return;
    bench_fail(words, "ended %s %d", info.si_code == CLD_EXITED ? "with status" : "by signal", info.si_status);
}

uint64_t bench_process_cpu(pid_t pid) {
    clockid_t clock;
    struct timespec time;
    if (clock_getcpuclockid(pid, &clock) != 0 || clock_gettime(clock, &time) != 0) return 0;
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

int64_t bench_file_system(const char *path) {
    struct statfs system;
    return statfs(path, &system) == 0 ? (int64_t)system.f_type : -1;
}

static int remove_one(const char *path, const struct stat *status, int kind, struct FTW *where) {
    (void)status;
    (void)kind;
    (void)where;
    // A file that cannot be removed stays; the walk goes on with the rest.
    remove(path);
    return 0;
}

void bench_remove_tree(const char *path) { nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS); }

static void *await_signal(void *argument) {
    char *path = argument;
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGHUP);
    int signal = 0;
    sigwait(&signals, &signal);
    bench_remove_tree(path);
    _exit(128 + signal);
}

int bench_remove_on_signal(const char *path, bench_failure *failure) {
    static char folder[4096];
    snprintf(folder, sizeof folder, "%s", path);
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGHUP);
    // Blocked before any other thread starts, so that only the one that waits gets them.
    pthread_sigmask(SIG_BLOCK, &signals, NULL);
    signal(SIGPIPE, SIG_IGN);
    pthread_t thread;
    if (pthread_create(&thread, NULL, await_signal, folder) != 0) return bench_fail(failure, "cannot start a thread");
    pthread_detach(thread);
    return 0;
}
