#include "CSyncLinux.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/timerfd.h>
#include <sys/timex.h>
#include <unistd.h>

// A timer of the wall clock that never fires by itself: one million years ahead. TFD_TIMER_CANCEL_ON_SET makes the
// kernel end it with ECANCELED when the clock is set, and when the machine resumes (timerfd_create(2); the kernel's
// timerfd_resume()).
static int arm(int fd) {
    struct itimerspec never = {.it_value = {.tv_sec = (time_t)31556952 * 1000000}};
    return timerfd_settime(fd, TFD_TIMER_ABSTIME | TFD_TIMER_CANCEL_ON_SET, &never, NULL) == 0 ? 0 : -errno;
}

int csl_clock_watch_open(void) {
    int fd = timerfd_create(CLOCK_REALTIME, TFD_CLOEXEC | TFD_NONBLOCK);
    if (fd < 0) return -errno;
    int result = arm(fd);
    if (result == 0) return fd;
    close(fd);
    return result;
}

int csl_clock_watch_take(int fd) {
    uint64_t count;
    ssize_t got = read(fd, &count, sizeof count);
    int has_stepped = got < 0 && errno == ECANCELED;
    arm(fd);
    return has_stepped;
}

int csl_clock_is_synchronised(void) {
    struct timex state = {0};
    int clock = adjtimex(&state);
    return clock >= 0 && clock != TIME_ERROR && !(state.status & STA_UNSYNC);
}
