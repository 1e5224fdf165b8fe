#include "CWallClock.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

/// Seconds to add; 0 without a file, or with one that holds no number.
static long offset(void) {
    static int file = -2;
    if (file == -2) {
        const char *path = getenv("WALLCLOCK_FILE");
        int opened = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
        // High up, out of the way of programs that count their descriptors or are handed some.
        file = opened < 0 ? -1 : fcntl(opened, F_DUPFD_CLOEXEC, 701);
        if (opened >= 0) close(opened);
    }
    char text[32];
    ssize_t count = file < 0 ? 0 : pread(file, text, sizeof text - 1, 0);
    if (count <= 0) return 0;
    text[count] = 0;
    return atol(text);
}

int clock_gettime(clockid_t clock, struct timespec *time) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int result = real(clock, time);
    if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE || clock == CLOCK_TAI)) {
        time->tv_sec += offset();
    }
    return result;
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
