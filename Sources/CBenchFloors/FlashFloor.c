#include "Internal.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

int bench_flash_floor(const char *folder, size_t count, uint64_t *each, bench_cost *cost, bench_failure *failure) {
    char path[4096];
    snprintf(path, sizeof path, "%s/fdatasync", folder);
    int fd = open(path, O_CREAT | O_TRUNC | O_WRONLY | O_APPEND | O_CLOEXEC, 0600);
    if (fd < 0) return bench_fail(failure, "open %s: %s", path, strerror(errno));

    // Not zeros: a file system or a device below it may treat them as nothing to write.
    char page[4096];
    for (size_t i = 0; i < sizeof page; i++) page[i] = (char)(i * 31 + 7);

    uint64_t start = now_ns();
    int result = 0;
    for (size_t i = 0; i < count && result == 0; i++) {
        uint64_t before = now_ns();
        if (write(fd, page, sizeof page) != (ssize_t)sizeof page || fdatasync(fd) != 0) {
            result = bench_fail(failure, "write and fdatasync %s: %s", path, strerror(errno));
        }
        each[i] = now_ns() - before;
    }
    *cost = (bench_cost){.rows = count, .commits = count, .nanoseconds = now_ns() - start};
    close(fd);
    unlink(path);
    return result;
}
