#include "SocketShims.h"
#include "CurlShims.h"

#include <arpa/inet.h>
#include <linux/sock_diag.h>
#include <linux/sockios.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

// enum in the kernel's net/tcp_states.h, which user space does not get; the numbers are those of /proc/net/tcp.
enum { csl_tcp_established = 1, csl_tcp_syn_sent = 2 };

// A socket for IPv6 may speak IPv4: its peer's address is ::ffff:0:0/96 then (RFC 4291, 2.5.5.2).
static bool is_ipv6(int socket, int domain) {
    if (domain != AF_INET6) return false;
    struct sockaddr_in6 peer;
    socklen_t length = sizeof peer;
    if (getpeername(socket, (struct sockaddr *)&peer, &length) != 0) return true;
    return !IN6_IS_ADDR_V4MAPPED(&peer.sin6_addr);
}

// No member of struct tcp_info says how many segments were thrown away, but the socket's own counter does (Linux 4.12).
static uint32_t dropped_segments(int socket) {
    uint32_t memory[SK_MEMINFO_VARS] = {0};
    socklen_t length = sizeof memory;
    if (getsockopt(socket, SOL_SOCKET, SO_MEMINFO, memory, &length) != 0) return 0;
    return length >= (SK_MEMINFO_DROPS + 1) * sizeof *memory ? memory[SK_MEMINFO_DROPS] : 0;
}

// struct tcp_info comes from the kernel's header: glibc's own copy ends before the byte counters. The kernel fills in what
// it knows and says how much that was, so an older one is noticed by the length.
bool csl_tcp_counts(int socket, struct csl_tcp_counts *counts) {
    int domain = 0;
    socklen_t length = sizeof domain;
    if (getsockopt(socket, SOL_SOCKET, SO_DOMAIN, &domain, &length) != 0) return false;
    if (domain != AF_INET && domain != AF_INET6) return false;

    struct tcp_info info;
    memset(&info, 0, sizeof info);
    length = sizeof info;
    if (getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &length) != 0) return false;
    if (length < offsetof(struct tcp_info, tcpi_bytes_sent) + sizeof info.tcpi_bytes_sent) return false;

    bool has_timestamps = info.tcpi_options & TCPI_OPT_TIMESTAMPS;
    bool has_sack = info.tcpi_options & TCPI_OPT_SACK;
    counts->sent = info.tcpi_bytes_sent;
    counts->received = info.tcpi_bytes_received;
    counts->acknowledged = info.tcpi_bytes_acked;
    counts->since_last_ack_ms = info.tcpi_last_ack_recv;
    counts->segments_out = info.tcpi_segs_out;
    counts->segments_in = info.tcpi_segs_in;
    counts->data_segments_in = info.tcpi_data_segs_in;
    counts->dropped_segments_in = dropped_segments(socket);
    counts->early_segments_in = length >= offsetof(struct tcp_info, tcpi_rcv_ooopack) + sizeof info.tcpi_rcv_ooopack
        ? info.tcpi_rcv_ooopack : 0;
    counts->repeated_segments_out = info.tcpi_total_retrans;
    counts->payload_in = info.tcpi_rcv_mss;
    counts->has_selective_acknowledgements = has_sack;
    counts->header_bytes = (is_ipv6(socket, domain) ? 40 : 20) + 20 + (has_timestamps ? 12 : 0);
    if (info.tcpi_state == csl_tcp_syn_sent) {
        // Which options there will be is up to the answer; all are asked for.
        counts->header_bytes += has_timestamps ? 0 : 12;
        counts->more_in_syn = 8;
    } else {
        counts->more_in_syn = 4 + (info.tcpi_options & TCPI_OPT_WSCALE ? 4 : 0) + (has_sack && !has_timestamps ? 4 : 0);
    }
    counts->is_established = info.tcpi_state == csl_tcp_established;
    return true;
}

bool csl_tcp_progress(int socket, struct csl_tcp_progress *progress) {
    struct csl_tcp_counts counts;
    if (!csl_tcp_counts(socket, &counts)) return false;
    int waiting = 0;
    if (ioctl(socket, SIOCOUTQ, &waiting) != 0) return false;
    progress->acknowledged = counts.acknowledged;
    progress->waiting = waiting;
    return true;
}

static bool is_end(const struct sockaddr_storage *end, const char *address, int port) {
    char text[INET6_ADDRSTRLEN] = "";
    int found = -1;
    if (end->ss_family == AF_INET) {
        const struct sockaddr_in *in = (const struct sockaddr_in *)end;
        inet_ntop(AF_INET, &in->sin_addr, text, sizeof text);
        found = ntohs(in->sin_port);
    } else if (end->ss_family == AF_INET6) {
        const struct sockaddr_in6 *in = (const struct sockaddr_in6 *)end;
        inet_ntop(AF_INET6, &in->sin6_addr, text, sizeof text);
        found = ntohs(in->sin6_port);
    }
    return found == port && strcmp(text, address) == 0;
}

bool csl_is_tcp_between(int socket, const char *local, int local_port, const char *remote, int remote_port) {
    struct sockaddr_storage end;
    socklen_t length = sizeof end;
    if (getsockname(socket, (struct sockaddr *)&end, &length) != 0 || !is_end(&end, local, local_port)) return false;
    length = sizeof end;
    return getpeername(socket, (struct sockaddr *)&end, &length) == 0 && is_end(&end, remote, remote_port);
}

bool csl_address_text(const struct curl_sockaddr *address, char *text, int size) {
    char host[INET6_ADDRSTRLEN];
    const struct sockaddr *found = &address->addr;
    const void *bytes;
    in_port_t port;
    if (address->family == AF_INET) {
        bytes = &((const struct sockaddr_in *)found)->sin_addr;
        port = ((const struct sockaddr_in *)found)->sin_port;
    } else if (address->family == AF_INET6) {
        bytes = &((const struct sockaddr_in6 *)found)->sin6_addr;
        port = ((const struct sockaddr_in6 *)found)->sin6_port;
    } else {
        return false;
    }
    if (!inet_ntop(address->family, bytes, host, sizeof host)) return false;
    return snprintf(text, (size_t)size, "%s|%d", host, ntohs(port)) < size;
}
