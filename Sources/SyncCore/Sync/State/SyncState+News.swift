// When a pull waits at the hub for news, and what becomes of its answer (PROTOCOL G5).
extension SyncState {
    /// Returns whether a pull may be waiting at the hub now. It costs a few packets a minute, and a radio that is on: that is nothing where
    /// links and power cost nothing, and too much elsewhere.
    var mayWaitForNews: Bool {
        guard settings.waitsForNews, settings.dialect.fixedHistory == nil, reachability == .online, !isPaused else { return false }
        guard memory.failures == 0, pressure.failureCause == .none, pressure.breaker.state == .closed, !pressure.isQuiet else {
            return false
        }
        guard conditions.power == .ample, conditions.budgets.allSatisfy({ $0.level < .soft }) else { return false }
        let isFree = conditions.uplink.map { !$0.isMetered && !$0.isRoaming } ?? true
        return isFree && hub.isGreeted(at: now.instant) && readings.held.isEmpty
            && allowance(at: now).pull?.entities == .all
    }

    /// A requested cycle that reads begins after the answer that is on its way, because beside it the same records would come twice.
    var awaitsNews: Bool { news.isArriving && nextCycle.request.map { $0.scope != .push } ?? false }

    /// Ends the waiting pull where none may be waiting any more, or its answer is lost.
    mutating func checkWait() {
        guard let running = news.running else { return }
        if running.lostAt <= now.instant {
            endWait()
            cut(after: .seconds(Int64(news.seconds)))
        } else if !mayWaitForNews, !mayArrive(running) {
            endWait()
        }
    }

    /// An answer that is on its way may arrive, like that of any other call. After a cycle that did not reach its end, mutations may be in
    /// flight, and nothing is pulled before they are settled: the answer may contain them already. The cycle of the answer also sends, so
    /// there is none where the hub wants silence.
    private func mayArrive(_ running: NewsWait.Running) -> Bool {
        running.isArriving && conditions.hasLink && !pressure.hasNoRequestsLeft && (cycle != nil || news.isProven)
    }

    /// Gives the waiting pull up. Its answer is not used, should it come.
    mutating func endWait() {
        if news.end() != nil { append(.endWait) }
    }

    /// Asks the store for the cursors of a waiting pull.
    ///
    /// - Parameter next: Time of the next cycle.
    mutating func waitIfDue(before next: Instant?) {
        // Work that waits to be sent has a cycle of its own, which a wait would only double.
        let isSoon = next.map { now.instant.duration(to: $0) < .seconds(Int64(NewsWait.secondsMin)) } ?? false
        guard news.isDue(at: now.instant), mayWaitForNews, watchdog.waiting.isEmpty, !isSoon else { return }
        news.load()
        ask(.loadStreams(also: settings.pullsAll ? memory.hubEntities ?? [] : []))
    }

    /// Sends the waiting pull. Streams that are listed, or are due for a comparison, need an ordinary cycle.
    mutating func wait(from answer: StoreAnswer) {
        guard case .streams(let streams) = answer, !streams.isEmpty, streams.count <= PullMessages.streamsMax,
            streams.allSatisfy({ $0.cursor != nil && $0.listing == nil && $0.seed == nil && $0.fullSync == .notDue })
        else { return news.needCycle() }
        let request = PullRequest(
            streams: streams, limit: hub.pullRecords, maxBytes: sizes.pace.down.bytes, maxSentSeq: marks.maxSentSeq,
            namesUnreadable: hub.namesUnreadable)
        let content = settings.dialect.pull(request)
        let session = UUIDv7.make(at: now.wall, using: &random)
        var call = HubCall(id: calls.next(), kind: .pull, session: session, body: content.body)
        call.schemas = settings.schemas
        call.waitSeconds = news.seconds
        call.timeLimit = timeLimit(for: content.body.count, isReading: true) + .seconds(Int64(news.seconds))
        let lostAt = now.instant.advanced(by: call.timeLimit + .seconds(30))
        news.begin(NewsWait.Running(call: call, streams: streams, lostAt: lostAt))
        append(.wait(call))
    }

    // MARK: Answers

    /// Handles an answer of the hub to a waiting pull.
    mutating func recordWaited(_ response: HTTPResponse, _ pages: PullResponse, after time: Duration) {
        let applied = response.headers[WaitPreference.appliedField].flatMap { WaitPreference.seconds(in: $0) }
        let mark = HubHeaders(reading: response.headers, now: now.wall).shareMark
        let hasNews = !pages.pages.isEmpty || !pages.errors.isEmpty || mark != memory.shareMark
        news.answered(
            isApplied: applied != nil, hasNews: hasNews, after: time, pause: random.duration(from: .zero, to: hub.spread),
            longPause: settings.policy.pullInterval, at: now.instant)
    }

    /// Handles the end of a waiting pull without a usable answer. Whatever it was, it does not count against the hub.
    mutating func waitFailed(_ answer: ServerAnswer, after time: Duration) {
        // The shell has ended it, because an address of the uplink is gone.
        guard answer.broken?.code != .cancelled else { return news.interrupted(at: now.instant) }
        let isHubs = answer.facts != nil || answer.refusal?.facts?.version != nil
        guard isHubs else { return cut(after: time) }
        news.refused()
        let asked = answer.refusal?.facts?.asked ?? .zero
        trigger(.again(at: now.instant.advanced(by: max(asked, random.duration(from: .zero, to: hub.spread)))))
    }

    /// All devices of a hub that dies, or of a proxy before it, are cut off in the same moment.
    private mutating func cut(after time: Duration) {
        let pause = random.duration(from: .zero, to: hub.spread)
        if news.cut(after: time, pause: pause, at: now.instant) { trigger(.again(at: now.instant.advanced(by: pause))) }
    }
}
