/// The choice of the next request, and what follows its answer.
extension BlobDownloader {
    mutating func proceed(_ moment: Moment, _ effects: inout [Effect]) {
        guard scheduler.hasLoaded else { return }
        var wake: Instant?
        // A comparison needs no link.
        for id in scheduler.order {
            guard let file = scheduler.files[id], file.call == nil, file.machine.isComparing else { continue }
            if let notBefore = file.notBefore, notBefore > moment.instant {
                wake = min(wake ?? notBefore, notBefore)
            } else {
                compare(file, &effects)
            }
        }
        let next = scheduler.proceed(moment, orAt: wake) { file, chunk in
            file.job.progress = file.machine.progress
            let request = file.machine.request(chunk: chunk)
            return (request, file.machine.bytes(of: request))
        }
        for start in next.starts {
            if start.isFirst { effects.append(.report(.began(start.file.job.id))) }
            effects.append(
                .send(
                    Call(
                        id: start.call, job: start.file.job, request: start.request, headers: start.file.machine.fields(of: start.request),
                        bytes: start.bytes, isFirst: start.isFirst, bytesPerSecond: start.bytesPerSecond)))
        }
        if let wake = next.wake { effects.append(.wake(at: wake)) }
    }

    private mutating func compare(_ file: File, _ effects: inout [Effect]) {
        var file = file
        file.job.progress = file.machine.progress
        let request = DownloadMachine.Request.piece(at: file.machine.progress.offset, count: 0)
        let call = scheduler.start(file, request, cost: 0)
        effects.append(
            .compare(
                Call(
                    id: call, job: file.job, request: request, headers: file.machine.fields(of: request), bytes: 0, isFirst: false,
                    bytesPerSecond: nil)))
    }

    // MARK: Answers

    mutating func answered(
        _ call: UInt64, _ result: Result<HTTPResponse, TransportError>, _ received: DownloadMachine.Received, _ took: Duration,
        _ moment: Moment, _ effects: inout [Effect]
    ) {
        guard let id = scheduler.calls[call], let request = scheduler.files[id]?.request else { return }
        if cancelled.remove(call) != nil { return keep(call, id, request, received, &effects) }
        let gained = Int(clamping: max(0, received.offset - request.offset))
        switch result {
        case .success(let response):
            conclude(call, moment, &effects) { $0.answered(request, response, received, at: moment.wall) }
            if gained > 0 { scheduler.sizer.sent(gained, in: took) }
        case .failure(let error):
            scheduler.sizer.broke()
            conclude(call, moment, &effects) { $0.broke(request, error, received) }
        }
    }

    /// Keeps what came before a request was ended from here. It is no failure of the file.
    private mutating func keep(
        _ call: UInt64, _ id: BlobID, _ request: DownloadMachine.Request, _ received: DownloadMachine.Received, _ effects: inout [Effect]
    ) {
        guard var file = scheduler.files[id] else { return }
        finish(call, &file)
        let before = file.machine.progress
        let error = TransportError(.cancelled, doing: "fetch \(id)", detail: "the link is gone")
        _ = file.machine.broke(request, error, received)
        (file.job.progress, file.job.size) = (file.machine.progress, file.machine.size)
        scheduler.files[id] = file
        if file.machine.progress.offset != before.offset {
            effects.append(.save(id, size: file.machine.size, file.machine.progress))
        }
    }

    mutating func conclude(
        _ call: UInt64, _ moment: Moment, _ effects: inout [Effect], _ meaning: (inout DownloadMachine) -> DownloadMachine.Outcome
    ) {
        guard let id = scheduler.calls[call], var file = scheduler.files[id] else { return }
        finish(call, &file)
        let (before, size) = (file.machine.progress, file.machine.size)
        let outcome = meaning(&file.machine)
        scheduler.recordAnswer(&file)
        switch outcome {
        case .next: file.isRetry = false
        case .compare: break
        case .wait(let counts, let asked, let why):
            if let spent = scheduler.hold(&file, counts: counts, asked: asked, why: why, moment) {
                scheduler.files[id] = file
                return end(id, .failed(code: "no-progress", why: spent, file.machine.progress), &effects)
            }
            effects.append(.report(.waits(id, why: why)))
        case .refused(let why):
            scheduler.holdAll(&file, why: why, moment)
            effects.append(.report(.waits(id, why: why)))
        case .done:
            scheduler.recordSuccess()
            scheduler.files[id] = file
            return end(id, .fetched(size: file.machine.size), &effects)
        case .failed(let code, let why):
            scheduler.files[id] = file
            return end(id, .failed(code: code, why: why, file.machine.progress), &effects)
        }
        let progress = file.machine.progress
        (file.job.progress, file.job.size) = (progress, file.machine.size)
        scheduler.files[id] = file
        if progress != before || file.machine.size != size { effects.append(.save(id, size: file.machine.size, progress)) }
        if progress.offset != before.offset {
            effects.append(.report(.progressed(id, offset: progress.offset, size: file.machine.size)))
        }
    }

    private mutating func finish(_ call: UInt64, _ file: inout File) {
        cancelled.remove(call)
        scheduler.finish(call, &file)
    }

    private mutating func end(_ id: BlobID, _ ending: Ending, _ effects: inout [Effect]) {
        if var job = scheduler.files[id]?.job {
            job.size = scheduler.files[id]?.machine.size ?? job.size
            effects.append(.end(job, ending))
        }
        effects.append(.report(.ended(id, ending)))
        remove(id, &effects)
    }

    // MARK: The files

    mutating func cancelAll(_ effects: inout [Effect]) {
        for (call, id) in scheduler.calls.sorted(by: { $0.key < $1.key }) where scheduler.files[id]?.machine.needsLink == true {
            if cancelled.insert(call).inserted { effects.append(.cancel(call)) }
        }
    }

    mutating func added(_ job: DownloadJob) {
        guard let known = scheduler.files[job.id] else {
            if job.isAsked || scheduler.findRoom() { add(job) }
            return
        }
        // A caller waits for it now.
        if job.isAsked, !known.job.isAsked {
            scheduler.files[job.id]?.job.isAsked = true
            scheduler.sort()
        }
        guard known.call == nil, known.notBefore != nil else { return }
        scheduler.files[job.id]?.machine.rearm()
        scheduler.files[job.id]?.notBefore = nil
    }

    mutating func cut(_ download: CutDownload, _ effects: inout [Effect]) {
        // The part of a file that is not in memory has to go as well.
        effects.append(.discard(download.id, download.digest))
        guard let job = scheduler.files[download.id]?.job else { return }
        // Callers that wait for it get an answer.
        let ending = Ending.failed(code: "not-shown", why: CutDownload.why, DownloadProgress())
        effects.append(.end(job, ending))
        effects.append(.report(.ended(job.id, ending)))
        remove(job.id, &effects)
    }

    mutating func add(_ job: DownloadJob) {
        scheduler.add(job, DownloadMachine(size: job.size, digest: job.digest, progress: job.progress, limit: settings.limit))
    }

    mutating func remove(_ id: BlobID, _ effects: inout [Effect]) {
        if let call = scheduler.files[id]?.call {
            cancelled.remove(call)
            effects.append(.cancel(call))
        }
        if let count = scheduler.remove(id) { effects.append(.load(count)) }
    }
}

extension DownloadMachine {
    fileprivate func fields(of request: Request) -> [String: String] {
        Dictionary(headers(of: request), uniquingKeysWith: { first, _ in first })
    }
}
