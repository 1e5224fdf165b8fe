#include "SocketShims.h"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>

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

    counts->sent = info.tcpi_bytes_sent;
    counts->received = info.tcpi_bytes_received;
    counts->acknowledged = info.tcpi_bytes_acked;
    counts->since_last_ack_ms = info.tcpi_last_ack_recv;
    return true;
}
