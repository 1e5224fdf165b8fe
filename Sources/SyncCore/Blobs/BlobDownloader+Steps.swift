/// The choice of the next request, and what follows its answer.
extension BlobDownloader {
    mutating func proceed(_ moment: Moment, _ effects: inout [Effect]) {
        guard let terms, hasLoaded else { return }
        var wake: Instant?
        func note(_ instant: Instant) { wake = min(wake ?? instant, instant) }
        // A comparison needs no link.
        for id in order {
            guard let file = files[id], file.call == nil, file.machine.isComparing else { continue }
            if let notBefore = file.notBefore, notBefore > moment.instant {
                note(notBefore)
            } else {
                compare(id, &effects)
            }
        }
        let limit = isMetered || sizer.isSlow ? 1 : settings.concurrent
        if terms.situation.reachability == .online, !terms.isBusy {
            if let held = [heldUntil, spreadUntil].compactMap({ $0 }).filter({ $0 > moment.instant }).max() {
                if order.contains(where: { files[$0]?.call == nil }) { note(held) }
            } else {
                for id in order {
                    guard calls.count < limit else { break }
                    guard let file = files[id], file.call == nil, !file.machine.isComparing else { continue }
                    if let notBefore = file.notBefore, notBefore > moment.instant {
                        note(notBefore)
                    } else if let later = begin(id, terms.situation, moment, &effects) {
                        note(later)
                    }
                }
            }
        }
        // A wake-up that is overdue by this clock may be late: timers stand still while the machine sleeps.
        guard let wake, armed.map({ wake < $0 || $0 <= moment.instant }) ?? true else { return }
        armed = wake
        effects.append(.wake(at: wake))
    }

    /// - Returns: Time of the next check, if the file may not come now and that time is known.
    private mutating func begin(_ id: BlobID, _ situation: Situation, _ moment: Moment, _ effects: inout [Effect]) -> Instant? {
        guard var file = files[id] else { return nil }
        var situation = situation
        situation.isForced = file.isForced
        let traffic = file.job.traffic(large: settings.large)
        // Bytes of running requests are not counted in the budget yet.
        let underWay = self.underWay + (terms?.elsewhere ?? 0)
        var chunk = sizer.bytes
        if let most = Policy.largestRequest(traffic, in: situation) {
            // The rest of a budget is used, down to a piece that is still worth its request.
            let left = most - underWay - BlobUploader.overhead
            if left < chunk { chunk = max(ChunkSizer.smallest, left) }
        }
        let request = file.machine.request(chunk: chunk)
        let bytes = file.machine.bytes(of: request)
        let verdict = Policy.decide(
            traffic, in: situation, now: moment.wall, bytes: bytes + BlobUploader.overhead + underWay, since: file.job.wantedAt)
        if case .defer(let why) = verdict {
            return why.until.map { moment.instant.advanced(by: moment.wall.duration(to: $0)) }
        }
        if file.isRetry, let wait = budget.take(now: moment.instant) { return moment.instant.advanced(by: wait) }
        budget.sent()
        let isFirst = !file.hasBegun
        if isFirst {
            file.hasBegun = true
            effects.append(.report(.began(id)))
        }
        file.inFlight = bytes + BlobUploader.overhead
        let call = start(id, &file, request, bytes, isFirst: isFirst, situation.uplink?.bytesPerSecond)
        effects.append(.send(call))
        return nil
    }

    private mutating func compare(_ id: BlobID, _ effects: inout [Effect]) {
        guard var file = files[id] else { return }
        let request = DownloadMachine.Request.piece(at: file.machine.progress.offset, count: 0)
        effects.append(.compare(start(id, &file, request, 0, isFirst: false, nil)))
    }

    private mutating func start(
        _ id: BlobID, _ file: inout File, _ request: DownloadMachine.Request, _ bytes: Int, isFirst: Bool, _ rate: Int?
    ) -> Call {
        lastCall += 1
        file.call = lastCall
        file.request = request
        file.job.progress = file.machine.progress
        calls[lastCall] = id
        files[id] = file
        return Call(
            id: lastCall, job: file.job, request: request,
            headers: Dictionary(file.machine.headers(of: request), uniquingKeysWith: { first, _ in first }), bytes: bytes,
            isFirst: isFirst, bytesPerSecond: rate)
    }

    // MARK: Answers

    mutating func answered(
        _ call: UInt64, _ result: Result<HTTPResponse, TransportError>, _ received: DownloadMachine.Received, _ took: Duration,
        _ moment: Moment, _ effects: inout [Effect]
    ) {
        guard let id = calls[call], let request = files[id]?.request else { return }
        if cancelled.remove(call) != nil { return keep(call, id, request, received, &effects) }
        let gained = Int(clamping: max(0, received.offset - request.offset))
        switch result {
        case .success(let response):
            conclude(call, moment, &effects) { $0.answered(request, response, received, at: moment.wall) }
            if gained > 0 { sizer.sent(gained, in: took) }
        case .failure(let error):
            sizer.broke()
            conclude(call, moment, &effects) { $0.broke(request, error, received) }
        }
    }

    /// Keeps what came before a request was ended from here. It is no failure of the file.
    private mutating func keep(
        _ call: UInt64, _ id: BlobID, _ request: DownloadMachine.Request, _ received: DownloadMachine.Received, _ effects: inout [Effect]
    ) {
        guard var file = files[id] else { return }
        finish(call, &file)
        let before = file.machine.progress
        let error = TransportError(.cancelled, doing: "fetch \(id)", detail: "the link is gone")
        _ = file.machine.broke(request, error, received)
        (file.job.progress, file.job.size) = (file.machine.progress, file.machine.size)
        files[id] = file
        if file.machine.progress.offset != before.offset {
            effects.append(.save(id, size: file.machine.size, file.machine.progress))
        }
    }

    mutating func conclude(
        _ call: UInt64, _ moment: Moment, _ effects: inout [Effect], _ meaning: (inout DownloadMachine) -> DownloadMachine.Outcome
    ) {
        guard let id = calls[call], var file = files[id] else { return }
        finish(call, &file)
        let (before, size) = (file.machine.progress, file.machine.size)
        let outcome = meaning(&file.machine)
        file.why = nil
        if file.machine.best > file.best { (file.best, failures, file.waits) = (file.machine.best, 0, 0) }
        switch outcome {
        case .next: file.isRetry = false
        case .compare: break
        case .wait(let counts, let asked, let why):
            hold(&file, counts: counts, asked: asked, why: why, moment)
            effects.append(.report(.waits(id, why: why)))
            guard file.machine.progress.attempts < settings.attempts else {
                let detail = "no progress in \(settings.attempts) attempts; the last: \(why)"
                files[id] = file
                return end(id, .failed(code: "no-progress", why: detail, file.machine.progress), &effects)
            }
        case .refused(let why):
            file.why = why
            failures += 1
            // The sync itself finds out what is wrong with the credentials.
            let delay = max(.seconds(60), settings.backoff.delay(afterFailures: failures, using: &random))
            heldUntil = moment.instant.advanced(by: delay)
            effects.append(.report(.waits(id, why: why)))
        case .done:
            failures = 0
            files[id] = file
            return end(id, .fetched(size: file.machine.size), &effects)
        case .failed(let code, let why):
            files[id] = file
            return end(id, .failed(code: code, why: why, file.machine.progress), &effects)
        }
        let progress = file.machine.progress
        (file.job.progress, file.job.size) = (progress, file.machine.size)
        files[id] = file
        if progress != before || file.machine.size != size { effects.append(.save(id, size: file.machine.size, progress)) }
        if progress.offset != before.offset {
            effects.append(.report(.progressed(id, offset: progress.offset, size: file.machine.size)))
        }
    }

    private mutating func hold(_ file: inout File, counts: Bool, asked: Duration?, why: String, _ moment: Moment) {
        file.why = why
        file.isRetry = true
        file.waits += 1
        if counts { file.machine.count() }
        // A fault of one file stays its own as long as the hub answers about it; silence affects all files.
        failures += 1
        let inARow = max(failures, file.machine.progress.attempts, file.waits)
        var delay = settings.backoff.delay(afterFailures: inARow, using: &random)
        if let asked { delay = Backoff.honouring(asked, over: delay, using: &random) }
        file.notBefore = moment.instant.advanced(by: delay)
        if !counts || asked != nil { heldUntil = max(heldUntil ?? moment.instant, moment.instant.advanced(by: delay)) }
    }

    private mutating func finish(_ call: UInt64, _ file: inout File) {
        calls[call] = nil
        cancelled.remove(call)
        file.call = nil
        file.request = nil
        file.inFlight = 0
    }

    private mutating func end(_ id: BlobID, _ ending: Ending, _ effects: inout [Effect]) {
        if var job = files[id]?.job {
            job.size = files[id]?.machine.size ?? job.size
            effects.append(.end(job, ending))
        }
        effects.append(.report(.ended(id, ending)))
        remove(id, &effects)
    }

    // MARK: The link and the files

    mutating func adopt(_ terms: BlobUploader.Terms, _ moment: Moment, _ effects: inout [Effect]) {
        self.terms = terms
        let situation = terms.situation
        let name = situation.uplink?.name
        if name != uplink || (situation.uplink?.isMetered ?? false) != isMetered {
            // Measurements of another link have no meaning for this one, and its connections lead nowhere.
            if uplink != nil { cancelAll(&effects) }
            uplink = name
            isMetered = situation.uplink?.isMetered ?? false
            sizer = ChunkSizer()
            (failures, heldUntil) = (0, nil)
            for id in order {
                files[id]?.notBefore = nil
                files[id]?.isForced = false
            }
        }
        if let slowBatch = terms.slowBatch { sizer.limitFirst(to: slowBatch) }
        let isOnline = situation.reachability == .online
        if isOnline, !hasContact {
            spreadUntil = moment.instant.advanced(by: random.duration(from: .zero, to: settings.spread))
            (failures, heldUntil) = (0, nil)
            for id in order { files[id]?.notBefore = nil }
        }
        if situation.reachability == .offline || situation.reachability == .captive { cancelAll(&effects) }
        hasContact = isOnline
    }

    mutating func cancelAll(_ effects: inout [Effect]) {
        for (call, id) in calls.sorted(by: { $0.key < $1.key }) where files[id]?.isComparing != true {
            if cancelled.insert(call).inserted { effects.append(.cancel(call)) }
        }
    }

    mutating func added(_ job: DownloadJob) {
        if let known = files[job.id] {
            // Somebody waits for it now.
            if job.isAsked, !known.job.isAsked {
                files[job.id]?.job.isAsked = true
                sort()
            }
            guard known.call == nil, known.notBefore != nil else { return }
            files[job.id]?.machine.rearm()
            files[job.id]?.notBefore = nil
            return
        }
        if order.count >= BlobUploader.window, !job.isAsked { hasMore = true } else { add(job) }
    }

    mutating func add(_ job: DownloadJob) {
        guard files[job.id] == nil else { return }
        files[job.id] = File(
            job: job, machine: DownloadMachine(size: job.size, digest: job.digest, progress: job.progress, limit: settings.limit))
        files[job.id]?.best = job.progress.offset
        order.append(job.id)
        sort()
    }

    private mutating func sort() {
        order.sort { left, right in
            guard let first = files[left]?.job, let second = files[right]?.job else { return left < right }
            return DownloadJob.isBefore(first, second)
        }
    }

    mutating func remove(_ id: BlobID, _ effects: inout [Effect]) {
        if let call = files[id]?.call {
            calls[call] = nil
            cancelled.remove(call)
            effects.append(.cancel(call))
        }
        files[id] = nil
        order.removeAll { $0 == id }
        guard order.count < BlobUploader.window / 2, hasMore else { return }
        hasMore = false
        effects.append(.load(BlobUploader.window))
    }
}
