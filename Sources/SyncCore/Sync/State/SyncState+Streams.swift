// Streams whose answers could not be used: their quarantine, the error that is shown, and their next attempt.
extension SyncState {
    /// Ends the quarantine of a stream after a successful read.
    mutating func release(_ entity: EntityName, by relief: StreamQuarantine.Relief) {
        if readings.held.release(entity, by: relief) { report(.streamResumed(entity)) }
    }

    /// An error that does not end the cycle is shown when it is the first.
    mutating func recordFirstError(_ detail: String, _ kind: HubReply.Kind) {
        guard let cycle, cycle.outcome.error == nil else { return }
        self.cycle?.outcome.error = Printable.text(detail)
        self.cycle?.outcome.errorKind = kind
    }

    /// Plans the cycle of the next attempt for a stream that is left out.
    mutating func planHeldStreams() {
        guard let next = readings.held.nextAt, allowed.pull?.entities == .all else { return }
        trigger(.again(at: max(next, now.instant.advanced(by: .seconds(1)))))
    }
}
