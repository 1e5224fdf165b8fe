#ifndef CBENCHFLOORS_INTERNAL_H
#define CBENCHFLOORS_INTERNAL_H

#include "CBenchFloors.h"

#include <stdio.h>
#include <time.h>

static inline uint64_t now_ns(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static inline uint64_t thread_cpu_ns(void) {
    struct timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

/// Opens a database with the PRAGMAs of the agent's store. NULL after a failure.
struct sqlite3 *open_database(const char *path, bench_failure *failure);

#endif
