#ifndef CCLOCKWARP_H
#define CCLOCKWARP_H

// A library to be preloaded (LD_PRELOAD) into a program that shall live months in a minute. The file CLOCKWARP_FILE holds five
// numbers of 64 bits, which a test changes while the program runs:
//
//   0  nanoseconds added to CLOCK_REALTIME
//   1  nanoseconds added to CLOCK_MONOTONIC
//   2  nanoseconds added to CLOCK_BOOTTIME
//   3  steps of the wall clock: a change ends each wait for one (timerfd with TFD_TIMER_CANCEL_ON_SET)
//   4  not 0: the kernel says that the wall clock is not synchronised (adjtimex)
//
// Timers and timed waits follow: what was due within a month that has passed at once is due at once.

#endif
