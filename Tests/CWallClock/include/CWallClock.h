#ifndef CWALLCLOCK_H
#define CWALLCLOCK_H

// A library to be preloaded (LD_PRELOAD) into a program whose wall clock should be wrong. It adds the seconds that the file
// WALLCLOCK_FILE holds, read again at every call, so that a clock can jump while the program runs. Monotonic and boot time,
// timers and waits stay true, which is what tells a wrong wall clock from a stopped machine.

#endif
