/// What follows an answer, or the failure of a request.
extension BlobUploader {
    mutating func answered(
        _ call: UInt64, _ result: Result<HTTPResponse, TransportError>, _ took: Duration, _ moment: Moment,
        _ effects: inout [Effect]
    ) {
        guard let id = calls[call], var file = files[id], let request = file.request else { return }
        let before = file.machine.progress
        var outcome: UploadMachine.Outcome
        switch result {
        case .success(let response):
            outcome = file.machine.answered(request, response, settings.server, at: moment.wall)
            if case .create = request, let place = file.machine.progress.url, place != before.url,
                files.contains(where: { $0.key != id && $0.value.machine.progress.url == place })
            {
                outcome = file.machine.refusePlace()
            }
            if case .send(_, let count) = request, case .next = outcome, !file.machine.wantsSmallerPiece { sizer.sent(count, in: took) }
            if let count = file.machine.tooLarge {
                sizer.wasTooLarge(count)
            } else if file.machine.wantsSmallerPiece {
                sizer.broke()
            }
        case .failure(let error):
            outcome = file.machine.failed(request, error)
            if case .send = request { sizer.broke() }
        }
        finish(call, &file)
        conclude(id, &file, outcome, from: before, moment, &effects)
    }

    mutating func downloaded(
        _ call: UInt64, _ result: Result<BlobDigest?, TransportError>, _ moment: Moment, _ effects: inout [Effect]
    ) {
        guard let id = calls[call], var file = files[id] else { return }
        let before = file.machine.progress
        let outcome: UploadMachine.Outcome
        switch result {
        case .success(let digest): outcome = file.machine.downloaded(digest)
        case .failure(let error): outcome = .wait(counts: true, asked: nil, why: error.description)
        }
        finish(call, &file)
        conclude(id, &file, outcome, from: before, moment, &effects)
    }

    mutating func lost(_ call: UInt64, _ why: String, _ moment: Moment, _ effects: inout [Effect]) {
        guard let id = calls[call], var file = files[id] else { return }
        finish(call, &file)
        end(id, .missing(why: why), &effects)
    }

    private mutating func finish(_ call: UInt64, _ file: inout File) {
        calls[call] = nil
        file.call = nil
        file.request = nil
        file.inFlight = 0
    }

    private mutating func conclude(
        _ id: BlobID, _ file: inout File, _ outcome: UploadMachine.Outcome, from before: UploadProgress, _ moment: Moment,
        _ effects: inout [Effect]
    ) {
        file.why = nil
        var outcome = outcome
        if file.machine.best > file.best { (file.best, failures, file.waits) = (file.machine.best, 0, 0) }
        if file.machine.progress.offset > before.offset {
            file.idleSteps = 0
        } else if case .next = outcome {
            file.idleSteps += 1
            if file.idleSteps > Self.idleStepsMax {
                outcome = .wait(counts: true, asked: nil, why: "the server's answers lead in a circle")
            }
        }
        switch outcome {
        case .next: file.isRetry = false
        case .wait(let counts, let asked, let why):
            file.why = why
            file.isRetry = true
            file.waits += 1
            file.idleSteps = 0
            if counts { file.machine.count() }
            guard file.machine.progress.attempts < settings.attempts else {
                let detail = "no progress in \(settings.attempts) attempts; the last: \(why)"
                files[id] = file
                return end(id, .failed(code: "no-progress", why: detail, file.machine.progress), &effects)
            }
            // A fault of one file stays its own as long as the server answers about it; silence affects all files.
            failures += 1
            let inARow = max(failures, file.machine.progress.attempts, file.waits)
            var delay = settings.backoff.delay(afterFailures: inARow, using: &random)
            if let asked { delay = Backoff.honouring(asked, over: delay, using: &random) }
            file.notBefore = moment.instant.advanced(by: delay)
            if !counts || asked != nil { heldUntil = max(heldUntil ?? moment.instant, moment.instant.advanced(by: delay)) }
            effects.append(.report(.waits(id, why: why)))
        case .refused(let why):
            file.why = why
            failures += 1
            // The sync itself finds out what is wrong with the credentials.
            let delay = max(.seconds(60), settings.backoff.delay(afterFailures: failures, using: &random))
            heldUntil = moment.instant.advanced(by: delay)
            effects.append(.report(.waits(id, why: why)))
        case .done(let isVerified):
            failures = 0
            files[id] = file
            return end(id, .uploaded(isVerified: isVerified, url: before.url ?? file.machine.progress.url), &effects)
        case .failed(let code, let why):
            files[id] = file
            return end(id, .failed(code: code, why: why, file.machine.progress), &effects)
        }
        let progress = file.machine.progress
        file.job.progress = progress
        files[id] = file
        if progress != before { effects.append(.save(id, progress)) }
        if progress.offset != before.offset {
            effects.append(.report(.progressed(id, offset: progress.offset, size: file.job.size)))
        }
    }

    private mutating func end(_ id: BlobID, _ ending: Ending, _ effects: inout [Effect]) {
        ended[id] = files[id]?.job.size
        effects.append(.end(id, ending))
        effects.append(.report(.ended(id, ending)))
        remove(id, &effects)
    }
}
