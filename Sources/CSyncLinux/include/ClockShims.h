// The wall clock's steps.
#ifndef CSYNCLINUX_CLOCK_SHIMS_H
#define CSYNCLINUX_CLOCK_SHIMS_H

// A descriptor that becomes readable when the wall clock was set or the machine resumed; -errno when there is none.
int csl_clock_watch_open(void);
// After it became readable: 1 if the clock stepped. It watches on.
int csl_clock_watch_take(int fd);

// 1 when the kernel says that its wall clock is synchronised (adjtimex(2): not STA_UNSYNC, not TIME_ERROR).
int csl_clock_is_synchronised(void);

#endif
