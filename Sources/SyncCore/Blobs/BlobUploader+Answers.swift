/// The consequences of an answer, or of a failed request.
extension BlobUploader {
    mutating func answered(
        _ call: UInt64, _ result: Result<HTTPResponse, TransportError>, _ took: Duration, _ moment: Moment,
        _ effects: inout [Effect]
    ) {
        guard let id = scheduler.calls[call], var file = scheduler.files[id], let request = file.request else { return }
        let before = file.machine.progress
        var outcome: UploadMachine.Outcome
        switch result {
        case .success(let response):
            outcome = file.machine.answered(request, response, settings.server, at: moment.wall)
            if case .create = request, let place = file.machine.progress.url, place != before.url,
                scheduler.files.contains(where: { $0.key != id && $0.value.machine.progress.url == place })
            {
                outcome = file.machine.refusePlace()
            }
            if case .send(_, let count) = request, case .next = outcome, !file.machine.wantsSmallerPiece {
                scheduler.sizer.sent(count, in: took)
            }
            if let count = file.machine.tooLarge {
                scheduler.sizer.wasTooLarge(count)
            } else if file.machine.wantsSmallerPiece {
                scheduler.sizer.broke()
            }
        case .failure(let error):
            outcome = file.machine.failed(request, error)
            if case .send = request { scheduler.sizer.broke() }
        }
        scheduler.finish(call, &file)
        conclude(id, &file, outcome, from: before, moment, &effects)
    }

    mutating func downloaded(
        _ call: UInt64, _ result: Result<BlobDigest?, TransportError>, _ moment: Moment, _ effects: inout [Effect]
    ) {
        guard let id = scheduler.calls[call], var file = scheduler.files[id] else { return }
        let before = file.machine.progress
        let outcome: UploadMachine.Outcome
        switch result {
        case .success(let digest): outcome = file.machine.downloaded(digest)
        case .failure(let error): outcome = .wait(counts: true, asked: nil, why: error.description)
        }
        scheduler.finish(call, &file)
        conclude(id, &file, outcome, from: before, moment, &effects)
    }

    mutating func lost(_ call: UInt64, _ why: String, _ effects: inout [Effect]) {
        guard let id = scheduler.calls[call], var file = scheduler.files[id] else { return }
        scheduler.finish(call, &file)
        end(id, .missing(why: why), &effects)
    }

    private mutating func conclude(
        _ id: BlobID, _ file: inout File, _ outcome: UploadMachine.Outcome, from before: UploadProgress, _ moment: Moment,
        _ effects: inout [Effect]
    ) {
        scheduler.recordAnswer(&file)
        switch file.machine.endCircle(outcome, from: before.offset) {
        case .next: file.isRetry = false
        case .wait(let counts, let asked, let why):
            if let spent = scheduler.hold(&file, counts: counts, asked: asked, why: why, moment) {
                scheduler.files[id] = file
                return end(id, .failed(code: "no-progress", why: spent, file.machine.progress), &effects)
            }
            effects.append(.report(.waits(id, why: why)))
        case .refused(let why):
            scheduler.holdAll(&file, why: why, moment)
            effects.append(.report(.waits(id, why: why)))
        case .done(let isVerified):
            scheduler.recordSuccess()
            scheduler.files[id] = file
            if file.machine.isSpared { return end(id, .spared(named: file.job.named), &effects) }
            return end(id, .uploaded(isVerified: isVerified, url: before.url ?? file.machine.progress.url), &effects)
        case .failed(let code, let why):
            scheduler.files[id] = file
            return end(id, .failed(code: code, why: why, file.machine.progress), &effects)
        }
        let progress = file.machine.progress
        file.job.progress = progress
        scheduler.files[id] = file
        if progress != before { effects.append(.save(id, progress)) }
        if progress.offset != before.offset {
            effects.append(.report(.progressed(id, offset: progress.offset, size: file.job.size)))
        }
    }

    private mutating func end(_ id: BlobID, _ ending: Ending, _ effects: inout [Effect]) {
        ended[id] = scheduler.files[id]?.job.size
        effects.append(.end(id, ending))
        effects.append(.report(.ended(id, ending)))
        remove(id, &effects)
    }
}
