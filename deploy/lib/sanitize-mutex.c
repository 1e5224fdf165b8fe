// Lets ThreadSanitizer see the mutex of Swift's library; linked into each program of `deploy/sanitize thread`.
//
// A `Mutex` that is free is taken and given back by code in our own programs, which the sanitizer watches. For one that is
// taken Swift calls into its library, which is not instrumented: what one thread wrote with the mutex held then looks as
// if it raced with what the next one reads. These functions stand before those of the library, call them, and tell the
// sanitizer. No suppression could do it: every race of what a mutex guards would look the same.
//
// The names and the convention are those of Swift 6 (stdlib/public/Synchronization/Mutex/LinuxImpl.swift).

#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>

#define SWIFT __attribute__((swiftcall))
#define SELF __attribute__((swift_context)) void *mutex

#define LOCK "$s15Synchronization12_MutexHandleV9_lockSlowyys6UInt32VF"
#define TRY_LOCK "$s15Synchronization12_MutexHandleV12_tryLockSlowSbyF"
#define UNLOCK "$s15Synchronization12_MutexHandleV11_unlockSlowyyF"

// Weak, for libraries that are loaded by programs without a sanitizer; those never come here.
__attribute__((weak)) void __tsan_acquire(void *address);
__attribute__((weak)) void __tsan_release(void *address);

static SWIFT void (*lock_behind)(uint32_t thread, SELF);
static SWIFT bool (*try_lock_behind)(SELF);
static SWIFT void (*unlock_behind)(SELF);

__attribute__((constructor)) static void find_library(void) {
    lock_behind = dlsym(RTLD_NEXT, LOCK);
    try_lock_behind = dlsym(RTLD_NEXT, TRY_LOCK);
    unlock_behind = dlsym(RTLD_NEXT, UNLOCK);
}

SWIFT void lock_slow(uint32_t thread, SELF) __asm__(LOCK);
SWIFT bool try_lock_slow(SELF) __asm__(TRY_LOCK);
SWIFT void unlock_slow(SELF) __asm__(UNLOCK);

SWIFT void lock_slow(uint32_t thread, SELF) {
    lock_behind(thread, mutex);
    __tsan_acquire(mutex);
}

SWIFT bool try_lock_slow(SELF) {
    bool is_taken = try_lock_behind(mutex);
    if (is_taken) __tsan_acquire(mutex);
    return is_taken;
}

SWIFT void unlock_slow(SELF) {
    __tsan_release(mutex);
    unlock_behind(mutex);
}
