// The waiting pull, and the cycle that its answer begins.
extension SyncEngine {
    /// A pull waits at the hub for news.
    package var isWaitingForNews: Bool { state.news.isWaiting }

    /// Uses the answer to the waiting pull as the first one of a new cycle. A late answer to one that was given up is dropped.
    mutating func waited(_ id: UInt64, _ result: Result<HTTPResponse, TransportError>, sent: Instant) {
        guard let running = state.news.end(id) else { return }
        let time = sent.duration(to: state.now.instant)
        let answer = HubDialect.read(result, to: .pull, now: state.now.wall)
        guard case .success(let response) = result, case .pages(let pages)? = answer.message else {
            return state.waitFailed(answer, after: time)
        }
        state.recordWaited(response, pages, after: time)
        // While changes are being pushed the answer may lack them. The hub is asked again after that.
        guard isFree else { return state.trigger(.again(at: state.now.instant)) }
        beginCycle(running.call.session)
        // A caller wants to see what others wrote before the request, and this answer may be older than it.
        if let cycle = state.cycle, cycle.isAskedFor, cycle.scope != .push { state.cycle?.owesPull = true }
        pull.beginWithAnswer(to: running.streams, call: running.call.id)
        phase = .pulling
        state.calls.record(running.call, isOvertaken: running.isOvertaken)
        answered(running.call.id, answer, sent: sent)
    }
}
