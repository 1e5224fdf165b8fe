/// The choice of the next request.
extension BlobUploader {
    mutating func proceed(_ moment: Moment, _ effects: inout [Effect]) {
        guard let terms, hasLoaded else { return }
        var wake: Instant?
        func note(_ instant: Instant) { wake = min(wake ?? instant, instant) }
        let situation = terms.situation
        let limit = isMetered || sizer.isSlow ? 1 : settings.concurrent
        if situation.reachability == .online, !terms.isBusy {
            let held = [heldUntil, spreadUntil].compactMap { $0 }.filter { $0 > moment.instant }.max()
            if let held {
                if order.contains(where: { files[$0]?.call == nil }) { note(held) }
            } else {
                for id in order {
                    guard calls.count < limit else { break }
                    guard var file = files[id], file.call == nil else { continue }
                    if let notBefore = file.notBefore, notBefore > moment.instant {
                        note(notBefore)
                        continue
                    }
                    if let later = begin(id, &file, situation, moment, &effects) { note(later) }
                }
            }
        }
        // A wake-up that is overdue by this clock may be late: timers stand still while the machine sleeps.
        guard let wake, armed.map({ wake < $0 || $0 <= moment.instant }) ?? true else { return }
        armed = wake
        effects.append(.wake(at: wake))
    }

    /// - Returns: Time of the next check, if the file may not go now and that time is known.
    private mutating func begin(
        _ id: BlobID, _ file: inout File, _ situation: Situation, _ moment: Moment, _ effects: inout [Effect]
    ) -> Instant? {
        var situation = situation
        situation.isForced = file.isForced
        let traffic = file.job.traffic(large: settings.large)
        // Bytes of running pieces are not counted in the budget yet.
        let underWay = self.underWay + (terms?.elsewhere ?? 0)
        var chunk = sizer.bytes
        if let most = Policy.largestRequest(traffic, in: situation) {
            // The rest of a budget is used, down to a piece that is still worth its request.
            let left = most - underWay - Self.overhead
            if left < chunk { chunk = max(ChunkSizer.smallest, left) }
        }
        let request = file.machine.request(settings.server, chunk: chunk)
        let bytes: Int =
            switch request {
            case .send(_, let count): count
            case .create(let count): count ?? 0
            case .verify: settings.server.verify == .download ? Int(clamping: file.job.size) : 0
            case .lookUp, .ask, .destroy: 0
            }
        let verdict = Policy.decide(
            traffic, in: situation, now: moment.wall, bytes: bytes + Self.overhead + underWay, since: file.job.createdAt)
        if case .defer(let why) = verdict {
            return why.until.map { moment.instant.advanced(by: moment.wall.duration(to: $0)) }
        }
        if file.isRetry, let wait = budget.take(now: moment.instant) { return moment.instant.advanced(by: wait) }
        budget.sent()
        lastCall += 1
        file.call = lastCall
        file.request = request
        file.inFlight = bytes + Self.overhead
        calls[lastCall] = id
        if !file.hasBegun {
            file.hasBegun = true
            effects.append(.report(.began(id)))
        }
        files[id] = file
        effects.append(.send(Call(id: lastCall, job: file.job, request: request, bytesPerSecond: situation.uplink?.bytesPerSecond)))
        return nil
    }
}
