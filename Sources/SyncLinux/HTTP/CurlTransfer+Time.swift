import CSyncLinux
import SyncCore

/// Deadlines, and the progress that moves them.
extension CurlTransfer {
    var nextDeadline: Instant? { clock.next }
    /// Time at which the last byte moved.
    var moved: Instant { clock.moved }

    /// Checks the progress since the last call.
    ///
    /// - Returns: A sentence when a deadline has passed.
    func passedDeadline(now: Instant) -> String? {
        updateSent(now: now)
        guard let first = clock.passed(now: now) else { return nil }
        // The kernel is asked before the decision: data that curl has handed over may still be on its way over a slow link.
        if first.limit != .total { updateAcknowledged(now: now) }
        guard let passed = clock.passed(now: now) else { return nil }
        switch passed.limit {
        case .firstByte: return "no byte of the answer within \(passed.length)"
        case .idle: return "no byte in either direction for \(passed.length)"
        case .total: return "not done within \(passed.length)"
        }
    }

    private func updateSent(now: Instant) {
        guard clock.step == .sending else { return }
        let sent = offset(CURLINFO_SIZE_UPLOAD_T)
        let isAll = upload.size.map { sent >= Int64($0) } ?? (upload.isSourceEmpty && upload.piece.isEmpty)
        guard sent != upload.sent || isAll else { return }
        upload.sent = sent
        clock.sent(isAll: isAll, now: now)
    }

    private func updateAcknowledged(now: Instant) {
        var counts = csl_tcp_counts()
        guard clock.step == .sending || clock.step == .waiting, let socket, csl_tcp_counts(socket, &counts) else { return }
        // An acknowledgement of nothing new is the peer's answer to a probe of its closed window and no progress.
        guard counts.acknowledged != acknowledged else { return }
        acknowledged = counts.acknowledged
        clock.acknowledged(at: now.advanced(by: .milliseconds(-Int64(counts.since_last_ack_ms))))
    }
}
