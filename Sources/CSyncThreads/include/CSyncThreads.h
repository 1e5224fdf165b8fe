#ifndef CSYNCTHREADS_H
#define CSYNCTHREADS_H

/// Gives the calling thread a name of at most 15 bytes, which tools show; the kernel cuts the rest. Without one a thread has the name of
/// the thread that made it. (prctl(2) is variadic, so Swift does not import it.)
void csth_name_thread(const char *name);

#endif
