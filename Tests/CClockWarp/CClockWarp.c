#include "CClockWarp.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/timex.h>
#include <time.h>
#include <unistd.h>

enum { WALL, MONOTONIC, BOOT, STEPS, UNSYNCHRONISED, NUMBERS };
static const int64_t SECOND = 1000000000;

/// All zero where there is no file: then nothing is moved.
static const int64_t still[NUMBERS];

static const volatile int64_t *warp(void) {
    static const volatile int64_t *volatile found;
    if (found) return found;
    const char *path = getenv("CLOCKWARP_FILE");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    void *map = file < 0 ? MAP_FAILED : mmap(NULL, sizeof still, PROT_READ, MAP_SHARED, file, 0);
    if (file >= 0) syscall(SYS_close, file);
    return found = map == MAP_FAILED ? still : map;
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static int64_t truly(clockid_t clock) {
    struct timespec time;
    syscall(SYS_clock_gettime, clock, &time);
    return time.tv_sec * SECOND + time.tv_nsec;
}

static int64_t added(clockid_t clock) {
    switch (clock) {
    case CLOCK_REALTIME: case CLOCK_REALTIME_COARSE: case CLOCK_TAI: return warp()[WALL];
    case CLOCK_MONOTONIC: case CLOCK_MONOTONIC_RAW: case CLOCK_MONOTONIC_COARSE: return warp()[MONOTONIC];
    case CLOCK_BOOTTIME: return warp()[BOOT];
    default: return 0;
    }
}

int clock_gettime(clockid_t clock, struct timespec *time) {
    static __typeof__(&clock_gettime) real;
    if (!real) real = REAL(clock_gettime);
    int result = real(clock, time);
    if (result) return result;
    int64_t more = added(clock);
    int64_t nanoseconds = time->tv_nsec + more % SECOND;
    time->tv_sec += more / SECOND;
    if (nanoseconds < 0) { nanoseconds += SECOND; time->tv_sec--; }
    if (nanoseconds >= SECOND) { nanoseconds -= SECOND; time->tv_sec++; }
    time->tv_nsec = nanoseconds;
    return 0;
}

int gettimeofday(struct timeval *restrict value, void *restrict zone) {
    (void)zone;
    struct timespec time;
    int result = clock_gettime(CLOCK_REALTIME, &time);
    *value = (struct timeval){.tv_sec = time.tv_sec, .tv_usec = time.tv_nsec / 1000};
    return result;
}

time_t time(time_t *place) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (place) *place = now.tv_sec;
    return now.tv_sec;
}

int adjtimex(struct timex *facts) {
    static __typeof__(&adjtimex) real;
    if (!real) real = REAL(adjtimex);
    int result = real(facts);
    if (warp()[UNSYNCHRONISED]) {
        facts->status |= STA_UNSYNC;
        return TIME_ERROR;
    }
    facts->status &= ~STA_UNSYNC;
    return result == TIME_ERROR ? TIME_OK : result;
}

// Timers of the monotonic clock are armed anew when it has moved. A watch of the wall clock is an eventfd that is written when the
// clock has stepped, and whose reading fails as that of a cancelled timer does.

enum { FILES = 4096 };
static struct { enum { NONE, TIMER, WATCH } kind; int64_t due; } timers[FILES];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static int settime(int file, int flags, const struct itimerspec *value, struct itimerspec *old) {
    static __typeof__(&timerfd_settime) real;
    if (!real) real = REAL(timerfd_settime);
    return real(file, flags, value, old);
}

/// With the lock held.
static int arm(int file) {
    int64_t left = timers[file].due - (truly(CLOCK_MONOTONIC) + warp()[MONOTONIC]);
    if (left < 1) left = 1;
    struct itimerspec value = {.it_value = {left / SECOND, left % SECOND}};
    return settime(file, 0, &value, NULL);
}

static void *follow(void *unused) {
    int64_t moved = warp()[MONOTONIC], steps = warp()[STEPS];
    for (;;) {
        struct timespec pause = {0, 5000000};
        syscall(SYS_nanosleep, &pause, NULL);
        if (warp()[MONOTONIC] == moved && warp()[STEPS] == steps) continue;
        pthread_mutex_lock(&lock);
        moved = warp()[MONOTONIC];
        int hasStepped = warp()[STEPS] != steps;
        steps = warp()[STEPS];
        for (int file = 0; file < FILES; file++) {
            if (timers[file].kind == TIMER && timers[file].due) arm(file);
            uint64_t one = 1;
            if (timers[file].kind == WATCH && hasStepped) syscall(SYS_write, file, &one, sizeof one);
        }
        pthread_mutex_unlock(&lock);
    }
    return unused;
}

static void begin(void) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, follow, NULL) == 0) pthread_detach(thread);
}

int timerfd_create(clockid_t clock, int flags) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    static __typeof__(&timerfd_create) real;
    if (!real) real = REAL(timerfd_create);
    pthread_once(&once, begin);
    int isWatch = clock == CLOCK_REALTIME;
    int file = isWatch ? eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC) : real(clock, flags);
    if (file < 0 || file >= FILES) return file;
    pthread_mutex_lock(&lock);
    timers[file].kind = isWatch ? WATCH : TIMER;
    timers[file].due = 0;
    pthread_mutex_unlock(&lock);
    return file;
}

int timerfd_settime(int file, int flags, const struct itimerspec *value, struct itimerspec *old) {
    if (file < 0 || file >= FILES || timers[file].kind == NONE) return settime(file, flags, value, old);
    if (timers[file].kind == WATCH) return 0;
    pthread_mutex_lock(&lock);
    int64_t given = value->it_value.tv_sec * SECOND + value->it_value.tv_nsec;
    int64_t from = flags & TFD_TIMER_ABSTIME ? 0 : truly(CLOCK_MONOTONIC) + warp()[MONOTONIC];
    timers[file].due = given ? given + from : 0;
    int result = given ? arm(file) : settime(file, 0, value, NULL);
    pthread_mutex_unlock(&lock);
    return result;
}

ssize_t read(int file, void *buffer, size_t size) {
    static __typeof__(&read) real;
    if (!real) real = REAL(read);
    ssize_t count = real(file, buffer, size);
    if (file >= 0 && file < FILES && timers[file].kind == WATCH && count == 8) {
        errno = ECANCELED;
        return -1;
    }
    return count;
}

int close(int file) {
    if (file >= 0 && file < FILES && timers[file].kind != NONE) {
        pthread_mutex_lock(&lock);
        timers[file].kind = NONE;
        pthread_mutex_unlock(&lock);
    }
    return syscall(SYS_close, file);
}

// A wait has a deadline of one clock or the other; which one, its distance from now tells. It is waited for in pieces, so that a clock
// that moves meanwhile is seen; an early end is one of those that every caller must expect.
int pthread_cond_timedwait(pthread_cond_t *restrict condition, pthread_mutex_t *restrict mutex, const struct timespec *restrict until) {
    static __typeof__(&pthread_cond_timedwait) real;
    if (!real) real = REAL(pthread_cond_timedwait);
    int64_t due = until->tv_sec * SECOND + until->tv_nsec;
    int64_t monotonic = truly(CLOCK_MONOTONIC), wall = truly(CLOCK_REALTIME);
    int64_t toMonotonic = due - (monotonic + warp()[MONOTONIC]), toWall = due - (wall + warp()[WALL]);
    int isMonotonic = llabs(toMonotonic) < llabs(toWall);
    int64_t left = isMonotonic ? toMonotonic : toWall;
    if (left < 0) left = 0;
    int64_t piece = left < 50000000 ? left : 50000000;
    int64_t end = (isMonotonic ? monotonic : wall) + piece;
    struct timespec time = {end / SECOND, end % SECOND};
    int result = real(condition, mutex, &time);
    return result == ETIMEDOUT && piece < left ? 0 : result;
}
