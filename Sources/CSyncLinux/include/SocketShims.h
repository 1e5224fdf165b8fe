#ifndef CSYNCLINUX_SOCKET_SHIMS_H
#define CSYNCLINUX_SOCKET_SHIMS_H

#include <stdbool.h>
#include <stdint.h>

/// The kernel's counts of one TCP connection since it was opened. Bytes are payload of TCP, so they contain TLS and not the TCP/IP headers.
struct csl_tcp_counts {
    uint64_t sent;                  ///< with repeats; one more than the payload once FIN is sent is possible
    uint64_t received;              ///< each byte once, in order: what came twice or was thrown away is not in it
    uint64_t acknowledged;
    uint32_t since_last_ack_ms;
    uint32_t segments_out;          ///< all of them: SYN, repeats and bare acknowledgements too
    uint32_t segments_in;           ///< all of them: what came twice or was thrown away too
    uint32_t data_segments_in;      ///< those of them that carried payload
    uint32_t dropped_segments_in;   ///< those of them that were thrown away: already there, or no room (SO_MEMINFO); a lone
                                    ///< question whether this end is alive is among them
    uint32_t early_segments_in;     ///< those of them that came before an earlier one did
    uint32_t repeated_segments_out;
    uint32_t payload_in;            ///< of a full segment of the peer's, as far as it was seen
    /// Headers of TCP and IP in front of each segment: 20 (IPv4) or 40 (IPv6) + 20 + 12 with timestamps (RFC 7323).
    uint32_t header_bytes;
    /// Bytes that the SYN of each end has more than that: maximum segment size (4), scale of the window (4), and the permission for
    /// selective acknowledgements (4), which shares its room with timestamps when there are any.
    uint32_t more_in_syn;
    bool has_selective_acknowledgements;    ///< RFC 2018: 12 bytes more for one block, 8 for each further
    bool is_established;            ///< neither end has begun to close it
};

/// False when the socket is not TCP or the kernel (before 4.19) does not count.
bool csl_tcp_counts(int socket, struct csl_tcp_counts *counts);

/// The peer's progress with the bytes that were written to a TCP socket.
struct csl_tcp_progress {
    uint64_t acknowledged;          ///< bytes since the connection was opened
    int32_t waiting;                ///< bytes that the kernel has and the peer has not acknowledged
};

/// False as csl_tcp_counts.
bool csl_tcp_progress(int socket, struct csl_tcp_progress *progress);

/// Returns `true` when this TCP socket connects these two ends; addresses as inet_ntop(3) writes them.
bool csl_is_tcp_between(int socket, const char *local, int local_port, const char *remote, int remote_port);

#endif
