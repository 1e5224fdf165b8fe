/// The changes that an answer makes, and the limits of all answers.
extension UploadMachine {
    /// The server has all bytes up to this offset.
    mutating func reached(_ offset: Int64, _ said: Reply, _ server: Server) -> Outcome {
        let sent = piece
        piece = nil
        let isOfUse = sent?.isOfUse(reaching: offset) ?? true
        if offset > best {
            best = offset
            if isOfUse || offset == size { (progress.attempts, idlePieces) = (0, 0) }
        }
        progress.offset = offset
        guard offset == size else {
            knowledge = .sure
            guard let sent, offset < sent.offset + sent.count else { return .next }
            wantsSmallerPiece = true
            if isOfUse || sent.hasCounted { return .next }
            let taken = max(0, offset - sent.offset)
            return .wait(counts: true, asked: said.asked, why: "the server took \(taken) bytes of a piece of \(sent.count)")
        }
        if let found = said.digest {
            return found == digest ? .done(isVerified: true) : mismatch("the server has other bytes (\(found))")
        }
        // The hub compares before it reports that all bytes are there, but another server may use its address.
        guard server.verify == .none else {
            knowledge = .whole
            return .next
        }
        return .done(isVerified: false)
    }

    mutating func unsure() {
        if progress.url != nil, knowledge != .spoiled { knowledge = .unsure }
    }

    /// The server does not know the upload (any more). All bytes may have arrived.
    ///
    /// If the answer is not certainly the server's own, it is asked twice more: sent bytes must not be given up because of a proxy. Some
    /// servers leave their header out of errors, so the third answer is believed.
    mutating func vanished(_ said: Reply) -> Outcome {
        let why = "the server does not know the upload any more (\(said.status))"
        if !said.isOwn {
            doubtfulLosses += 1
            unsure()
            if doubtfulLosses < 3 { return .wait(counts: true, asked: said.asked, why: why) }
        }
        forget()
        knowledge = .nothing
        return .wait(counts: true, asked: said.asked, why: why)
    }

    mutating func forget() {
        progress.url = nil
        progress.offset = 0
        progress.expiresAt = nil
        sentTo = 0
        piece = nil
        doubtfulLosses = 0
    }

    /// - Parameter isWrong: Wrong bytes are there; otherwise it is not our upload.
    mutating func mismatch(_ why: String, isWrong: Bool = true) -> Outcome {
        progress.restarts += 1
        progress.error = why
        guard progress.restarts <= Self.restartsMax else {
            // The bytes there cannot be used; a re-armed upload begins again.
            forget()
            knowledge = .nothing
            return .failed(code: isWrong ? "digest-mismatch" : "upload-mixed-up", why: why)
        }
        progress.offset = 0
        knowledge = .spoiled
        return .next
    }

    // MARK: Limits against endless repetition

    /// Records that a piece, or a part of it, was sent.
    mutating func sending(_ offset: Int64, _ count: Int64) {
        spent = spent.saturatingAdd(count)
        piece = Piece(offset: offset, count: count, hasCounted: false)
    }

    /// Applies the limits of all answers, after the meaning of the answer itself is known.
    mutating func end(_ request: Request, _ outcome: Outcome) -> Outcome {
        var outcome = outcome
        if case .send = request, case .wait(let counts, let asked, let why) = outcome {
            piece?.hasCounted = true
            if !counts {
                idlePieces += 1
                if idlePieces > Self.idlePiecesMax { outcome = .wait(counts: true, asked: asked, why: why) }
            }
        }
        if case .send = request, !outcome.isEnd, spent > Self.spentMax(size: size) {
            let why = "\(spent) bytes were sent for a file of \(size), and the server does not have it"
            progress.error = why
            return .failed(code: "no-progress", why: why)
        }
        if case .wait(_, _, let why) = outcome { progress.error = why }
        if case .next = outcome { progress.error = nil }
        return outcome
    }

    mutating func answeredByOther(_ request: Request, _ said: Reply) -> Outcome {
        unsure()
        if case .send(let offset, let count) = request {
            sentTo = max(sentTo, offset + Int64(count))
            wantsSmallerPiece = true
            if said.status == 413 { return tooLarge(request, count, said) }
        }
        if case .create(let count?) = request, said.status == 413 { return tooLarge(request, count, said) }
        return end(request, said.foreign)
    }

    /// A proxy before the server refuses requests of this size. It does so before it reads the piece, so a smaller one may follow at once.
    private mutating func tooLarge(_ request: Request, _ count: Int, _ said: Reply) -> Outcome {
        tooLarge = count
        guard count > ChunkSizer.smallest else { return end(request, said.foreign) }
        piece = nil
        return end(request, .next)
    }
}
