// Links of our own to make and break: network namespaces, and the least that reaching a hub by TLS takes.

#include "Internal.h"

#include <curl/curl.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <unistd.h>

static int write_file(const char *path, const char *text) {
    int file = open(path, O_WRONLY | O_CLOEXEC);
    if (file < 0) return -1;
    ssize_t written = write(file, text, strlen(text));
    close(file);
    return written == (ssize_t)strlen(text) ? 0 : -1;
}

int bench_own_network(bench_failure *failure) {
    unsigned uid = geteuid(), gid = getegid();
    if (unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0) {
        // Root may do it without a user namespace, where those are forbidden.
        if (unshare(CLONE_NEWNET) == 0) return 0;
        return bench_fail(failure, "unshare: %s", strerror(errno));
    }
    // user_namespaces(7): one user may map itself, and its group once setgroups is given up.
    char users[32], groups[32];
    snprintf(users, sizeof users, "0 %u 1", uid);
    snprintf(groups, sizeof groups, "0 %u 1", gid);
    if (write_file("/proc/self/uid_map", users) != 0 || write_file("/proc/self/setgroups", "deny") != 0
        || write_file("/proc/self/gid_map", groups) != 0) {
        return bench_fail(failure, "map the user into a namespace: %s", strerror(errno));
    }
    return 0;
}

int bench_own_hosts(const char *file, bench_failure *failure) {
    if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0
        || mount(file, "/etc/hosts", NULL, MS_BIND, NULL) != 0) {
        return bench_fail(failure, "a file in the place of /etc/hosts: %s", strerror(errno));
    }
    return 0;
}

int bench_link_socket(pid_t pid, int *descriptor, bench_failure *failure) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/ns/net", (int)pid);
    int own = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    int other = open(path, O_RDONLY | O_CLOEXEC);
    int opened = -1;
    // A socket belongs to the namespace in which it was opened, wherever its owner goes.
    if (own >= 0 && other >= 0 && setns(other, CLONE_NEWNET) == 0) {
        opened = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        if (setns(own, CLONE_NEWNET) != 0) {
            close(opened);
            opened = -1;
        }
    }
    int error = errno;
    close(own);
    close(other);
    if (opened < 0) return bench_fail(failure, "a socket in the network namespace of %d: %s", (int)pid, strerror(error));
    *descriptor = opened;
    return 0;
}

int bench_link_switch(int descriptor, const char *name, int on, uint64_t *at, bench_failure *failure) {
    struct ifreq request = {0};
    snprintf(request.ifr_name, sizeof request.ifr_name, "%s", name);
    if (ioctl(descriptor, SIOCGIFFLAGS, &request) != 0) return bench_fail(failure, "%s: %s", name, strerror(errno));
    request.ifr_flags = (short)(on ? request.ifr_flags | IFF_UP : request.ifr_flags & ~IFF_UP);
    *at = now_ns();
    if (ioctl(descriptor, SIOCSIFFLAGS, &request) != 0) return bench_fail(failure, "switch %s: %s", name, strerror(errno));
    return 0;
}

uint64_t bench_now(void) { return now_ns(); }

static size_t forget(char *bytes, size_t size, size_t count, void *context) {
    (void)bytes;
    (void)context;
    return size * count;
}

int bench_handshake_floor(const char *url, const char *ca_file, uint64_t *nanoseconds, bench_failure *failure) {
    CURL *curl = curl_easy_init();
    if (!curl) return bench_fail(failure, "curl: out of memory");
    curl_easy_setopt(curl, CURLOPT_URL, url);
    curl_easy_setopt(curl, CURLOPT_CAINFO, ca_file);
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, forget);
    curl_easy_setopt(curl, CURLOPT_TIMEOUT, 10L);
    CURLcode code = curl_easy_perform(curl);
    curl_off_t microseconds = 0;
    if (code == CURLE_OK) code = curl_easy_getinfo(curl, CURLINFO_APPCONNECT_TIME_T, &microseconds);
    curl_easy_cleanup(curl);
    if (code != CURLE_OK) return bench_fail(failure, "%s: %s", url, curl_easy_strerror(code));
    *nanoseconds = (uint64_t)microseconds * 1000u;
    return 0;
}
