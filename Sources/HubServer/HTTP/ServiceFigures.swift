import SyncCore
import SyncHTTP
import Synchronization

/// Counters of the service around the hub, for `/metrics`. Several threads count.
final class ServiceFigures: Sendable {
    /// Requests that were refused because of the load, in total and of one device.
    let overloaded = Atomic<Int64>(0)
    let overloadedByDevice = Atomic<Int64>(0)
    /// Enrolments with an invalid token, and those of them that came too often.
    let failedEnrolments = Atomic<Int64>(0)
    let limitedEnrolments = Atomic<Int64>(0)
    /// Pulls that wait for news.
    let waitingPulls = Atomic<Int64>(0)
    private let refusals = Mutex<[String: Int64]>([:])
    private let connections = Mutex<(@Sendable () -> HTTPServerCounts)?>(nil)

    private let certificateEnd = Mutex<(@Sendable () -> Timestamp)?>(nil)

    func useCertificate(_ endsAt: @escaping @Sendable () -> Timestamp) {
        certificateEnd.withLock { $0 = endsAt }
    }

    /// Counts a refusal by the HTTP server itself.
    func countRefusal(_ code: String) {
        refusals.withLock { $0[code, default: 0] += 1 }
    }

    func use(_ connections: @escaping @Sendable () -> HTTPServerCounts) {
        self.connections.withLock { $0 = connections }
    }

    var page: String {
        var page = MetricsPage()
        if let endsAt = certificateEnd.withLock({ $0 })?() {
            page.family(
                "agenthub_certificate_end_timestamp_seconds", .gauge,
                "Expiry of the first certificate of the TLS chain, Unix time.",
                [([:], endsAt.milliseconds / 1_000)])
        }
        if let counts = connections.withLock({ $0 })?() {
            page.family(
                "agenthub_connections", .gauge, "Open connections, by whether the caller has shown a credential.",
                [(["caller": "known"], Int64(counts.known)), (["caller": "unknown"], Int64(counts.strangers))])
            page.family(
                "agenthub_connections_closed_total", .counter, "Connections closed to make room for another one, since the start.",
                [(["caller": "known"], counts.closedIdle), (["caller": "unknown"], counts.closedStrangers)])
            page.family(
                "agenthub_connections_refused_total", .counter, "Connections for which there was no room, since the start.",
                [([:], counts.refused)])
            page.family(
                "agenthub_handshakes_refused_total", .counter,
                "Connections closed with their first byte because their address had begun too many TLS handshakes, since the start.",
                [([:], counts.refusedHandshakes)])
        }
        page.family(
            "agenthub_pulls_waiting", .gauge, "Pulls that wait for a change (Prefer: wait).",
            [([:], waitingPulls.load(ordering: .relaxed))])
        page.family(
            "agenthub_overloaded_total", .counter,
            "Requests answered 503 because too many were in progress, in all or of one device, since the start.",
            [
                (["by": "all"], overloaded.load(ordering: .relaxed)),
                (["by": "device"], overloadedByDevice.load(ordering: .relaxed)),
            ])
        page.family(
            "agenthub_enrolments_refused_total", .counter,
            "Enrolments refused because of an invalid token or too many attempts, since the start.",
            [
                (["reason": "token"], failedEnrolments.load(ordering: .relaxed)),
                (["reason": "rate"], limitedEnrolments.load(ordering: .relaxed)),
            ])
        page.family(
            "agenthub_http_refused_total", .counter, "Requests that broke HTTP or its limits, by the code of the answer, since the start.",
            refusals.withLock { $0 }.sorted { $0.key < $1.key }.map { (["code": $0.key], $0.value) })
        return page.text
    }
}
