/// Chooses the next request of one upload from all answers before it (tus 1.0.0; PROTOCOL H1, H2).
///
///     look up -> known there: done
///             -> create -> send … send -> verify -> done
///     after any error: ask (HEAD), and continue from the server's offset
///
/// These rules come from tests with real servers, not from the specification (PROTOCOL H1):
///
/// - After *any* error the server's offset is unknown, whatever the error says. It is asked for before the next byte.
/// - 409, 423 and 503 for a piece are no errors of the file: the upload waits, asks, and counts no attempt.
/// - An offset beyond the sent bytes, or a length that is not ours, belongs to another upload: it is destroyed, and everything begins
///   again.
/// - No server is believed that all bytes are there: the digest at the end decides. A wrong one destroys the upload and begins again, twice
///   at most.
/// - Only a small file goes with the request that creates its upload. If the link breaks during a larger one, the received part would be
///   lost together with the answer that names the upload.
/// - A success without `Tus-Resumable` comes from a device in between and changes nothing. Neither does any answer in the hub's place
///   without `Sync-Version`, whatever its status.
///
/// These rules keep the requests to a server finite:
///
/// - Only an offset beyond every earlier one is progress. A piece is useful when the server has at least a quarter of it, or 32 KiB. Any
///   other piece is an attempt without progress: it counts and is followed by a delay, whatever the status said.
/// - An upload that the server no longer knows is created again after a delay, and the loss counts.
/// - Answers that count no attempt (busy, or not the server's own) count from the eleventh piece in a row on.
/// - At most eight times the file and 64 MiB are sent in one run of the agent; then the upload fails.
package struct UploadMachine: Hashable, Sendable {
    /// The capabilities of the server.
    package struct Server: Hashable, Sendable {
        /// Address at which uploads are created: `https://hub/v1/files`.
        package var files: String
        /// Address at which the hub is asked for a digest: `https://hub/v1/blobs/`; `nil`: any other tus server.
        package var blobs: String?
        package var verify: Verification

        package init(files: String, blobs: String?, verify: Verification) {
            self.files = files
            self.blobs = blobs
            self.verify = verify
        }
    }

    package enum Verification: String, Hashable, Sendable, CaseIterable {
        /// The server sends the digest of its bytes (`Repr-Digest`), as the hub does.
        case digest
        /// The whole file is downloaded again and hashed here.
        case download
        /// The bytes cannot be verified.
        case none
    }

    package enum Request: Hashable, Sendable {
        /// HEAD for the digest.
        case lookUp
        /// POST; the number of bytes in the same request, which is the whole file, or `nil` for none.
        case create(with: Int?)
        /// HEAD for the upload.
        case ask
        /// PATCH.
        case send(at: Int64, count: Int)
        /// HEAD for the upload's digest, or GET of the whole file, depending on ``Server/verify``.
        case verify
        /// DELETE.
        case destroy
    }

    package enum Outcome: Hashable, Sendable {
        /// The next request may follow at once.
        case next
        /// The request did not succeed. `counts`: it was the server's answer about this file, or a transfer that broke.
        case wait(counts: Bool, asked: Duration?, why: String)
        /// The server refuses this device; everything waits.
        case refused(String)
        case done(isVerified: Bool)
        case failed(code: String, why: String)

        /// `true` when no more requests follow for this file.
        package var isEnd: Bool {
            switch self {
            case .done, .failed: true
            case .next, .wait, .refused: false
            }
        }
    }

    package let size: Int64
    package let digest: BlobDigest
    package private(set) var progress: UploadProgress
    /// The known state at the server.
    private var knowledge: Knowledge
    /// Highest offset that was ever sent to this upload.
    private var sentTo: Int64
    /// The last piece was too large.
    package private(set) var wantsSmallerPiece = false
    /// Size of a piece, bytes, whose request was refused as too large (413).
    package private(set) var tooLarge: Int?
    /// The highest offset that the server has ever reported.
    package private(set) var best: Int64
    /// The last sent piece, while its fate is unknown.
    private var piece: Piece?
    /// Number of useless pieces in a row with answers that count no attempt.
    private var idlePieces = 0
    /// Bytes of pieces that were sent since the machine was made or re-armed.
    private var spent: Int64 = 0
    /// Number of answers in a row that the upload is gone, without the server's own header.
    private var doubtfulLosses = 0

    private struct Piece: Hashable, Sendable {
        var offset: Int64
        var count: Int64
        /// The missing answer to it was counted already.
        var hasCounted: Bool

        /// Returns whether the server's offset shows that the piece was useful.
        func isOfUse(reaching offset: Int64) -> Bool {
            offset - self.offset >= min(max(1, count / 4), UploadMachine.usefulBytes)
        }
    }

    private enum Knowledge: Hashable, Sendable {
        /// The server was not asked yet whether it has the file.
        case nothing
        /// Neither the file nor an upload is there.
        case absent
        /// There is an upload; only the server knows its offset.
        case unsure
        /// ``UploadProgress/offset`` comes from the server's last answer.
        case sure
        /// All bytes are there, by the server's own answer.
        case whole
        /// The bytes at the server are wrong.
        case spoiled
    }

    package static let restartsMax = 2
    /// Largest file that goes with the request that creates its upload, bytes.
    package static let inlineBytes = 64 << 10
    /// Number of useless pieces in a row that is allowed with answers that count no attempt.
    package static let idlePiecesMax = 10
    /// A piece is useful when the server has this many bytes of it, however large it was.
    package static let usefulBytes: Int64 = 32 << 10

    /// Largest total of the pieces that are sent for one file, bytes: eight times its size, and 64 MiB for small ones.
    package static func spentMax(size: Int64) -> Int64 {
        size.saturatingMultiply(8).saturatingAdd(64 << 20)
    }

    package init(size: Int64, digest: BlobDigest, progress: UploadProgress) {
        self.size = size
        self.digest = digest
        self.progress = progress
        // A restored database may remember less than was sent; it is certain only that no byte beyond the file was.
        sentTo = progress.url == nil ? 0 : size
        best = progress.offset
        knowledge = progress.url == nil ? .nothing : .unsure
    }

    // MARK: The next request

    /// - Parameter chunk: Size of the next piece, bytes.
    package func request(_ server: Server, chunk: Int) -> Request {
        switch knowledge {
        case .nothing where server.blobs != nil: .lookUp
        case .nothing, .absent: .create(with: size <= Int64(min(chunk, Self.inlineBytes)) ? Int(size) : nil)
        case .unsure: .ask
        case .sure: .send(at: progress.offset, count: Int(min(Int64(chunk), size - progress.offset)))
        // The hub forgets a completed upload, and knows the file by its digest.
        case .whole: server.blobs == nil ? .verify : .lookUp
        case .spoiled: progress.url == nil ? .create(with: nil) : .destroy
        }
    }

    /// All bytes are there; only the digest remains to be compared.
    package var isVerifying: Bool { knowledge == .whole }

    // MARK: Answers

    package mutating func answered(_ request: Request, _ response: HTTPResponse, _ server: Server, at now: Timestamp) -> Outcome {
        let said = Reply(response, server, now: now)
        (wantsSmallerPiece, tooLarge) = (false, nil)
        if case .send(let offset, let count) = request { sending(offset, Int64(count)) }
        // An answer in the hub's place decides nothing, whatever its status.
        if server.blobs != nil, !said.isHub { return answeredByOther(request, said) }
        // A refusal of the device does not concern the file, whatever was asked.
        if said.status == 401 || said.status == 403 {
            unsure()
            return .refused("the server answered \(said.status)\(said.hint)")
        }
        let outcome: Outcome
        switch request {
        case .lookUp: outcome = lookedUp(said)
        case .create(let count): outcome = created(said, Int64(count ?? 0), server)
        case .ask: outcome = told(said, server)
        case .send(let offset, let count): outcome = sent(said, offset, Int64(count), server)
        case .verify: outcome = verified(said, server)
        case .destroy: outcome = destroyed(said)
        }
        return end(request, outcome)
    }

    /// Records that no answer came.
    package mutating func failed(_ request: Request, _ error: TransportError) -> Outcome {
        // Any part of it may have arrived.
        if case .send(let offset, let count) = request {
            if !error.code.provesNothingSent { sending(offset, Int64(count)) }
            sentTo = max(sentTo, offset + Int64(count))
            piece?.hasCounted = true
        }
        unsure()
        (wantsSmallerPiece, tooLarge) = (false, nil)
        progress.error = error.description
        switch error.code {
        // Nothing reached the server, so there was no attempt with the file.
        case .unresolved, .unreachable, .cancelled, .credentials, .untrusted, .untrustedDate, .clientCertificate:
            return .wait(counts: false, asked: nil, why: error.description)
        case .timedOut, .broken, .tooLarge, .malformed:
            return end(request, .wait(counts: true, asked: nil, why: error.description))
        }
    }

    /// The server returned the address of another file's upload: the bytes of both would be mixed there.
    package mutating func refusePlace() -> Outcome {
        forget()
        knowledge = .absent
        let why = "the server gave the upload the place of another one"
        progress.error = why
        return .wait(counts: true, asked: nil, why: why)
    }

    /// Records the digest of the downloaded bytes.
    package mutating func downloaded(_ found: BlobDigest?) -> Outcome {
        guard let found else { return .wait(counts: true, asked: nil, why: "the file could not be fetched back to compare it") }
        return found == digest ? .done(isVerified: true) : mismatch("the server keeps other bytes than were sent (\(found))")
    }

    /// Counts an attempt without a new byte at the server.
    package mutating func count() { progress.attempts += 1 }

    /// Starts the counting again, because of a new link, an operator or the end of a day.
    package mutating func rearm() {
        progress.attempts = 0
        progress.restarts = 0
        progress.error = nil
        (spent, idlePieces, doubtfulLosses) = (0, 0, 0)
        unsure()
    }

    // MARK: Limits against endless repetition

    /// Records that a piece, or a part of it, was sent.
    private mutating func sending(_ offset: Int64, _ count: Int64) {
        spent = spent.saturatingAdd(count)
        piece = Piece(offset: offset, count: count, hasCounted: false)
    }

    /// Applies the limits of all answers, after the meaning of the answer itself is known.
    private mutating func end(_ request: Request, _ outcome: Outcome) -> Outcome {
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

    private mutating func answeredByOther(_ request: Request, _ said: Reply) -> Outcome {
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

    // MARK: Answers by request

    private mutating func lookedUp(_ said: Reply) -> Outcome {
        switch said.status {
        case 200, 204:
            guard said.isHub else { return said.foreign }
            guard said.digest == digest else { return .wait(counts: true, asked: nil, why: "the hub answered about another digest") }
            return .done(isVerified: true)
        case 404:
            guard said.isHub else { return said.foreign }
            // By the server's own answer, all bytes were there a moment ago. Without counting, they would be sent again for ever.
            if knowledge == .whole { return mismatch("the hub said that all had arrived, and does not know the file", isWrong: false) }
            knowledge = .absent
            return .next
        // An older hub: the file is uploaded without a lookup.
        case 405, 501:
            if knowledge == .whole {
                return .wait(counts: true, asked: said.asked, why: "the hub does not tell the digest of what it has (\(said.status))")
            }
            knowledge = .absent
            return .next
        default: return said.trouble
        }
    }

    private mutating func created(_ said: Reply, _ count: Int64, _ server: Server) -> Outcome {
        switch said.status {
        case 201:
            guard said.isTus else { return said.foreign }
            guard let text = said.location, let url = Tus.location(text, base: server.files) else {
                return .wait(counts: true, asked: nil, why: "the server made the upload at another origin, or did not say where")
            }
            progress.url = url
            progress.offset = 0
            progress.expiresAt = said.expires
            sentTo = count
            // A server that accepts no bytes with the creation does not mention them.
            let taken = count > 0 ? said.offset : 0
            guard let taken else {
                knowledge = .unsure
                return .next
            }
            guard taken <= count else { return mismatch("the server claims bytes that were not sent", isWrong: false) }
            return reached(taken, said, server)
        case 413:
            // A proxy before it may limit requests; only the server itself can limit files.
            guard said.isOwn else {
                wantsSmallerPiece = true
                tooLarge = Int(clamping: count)
                return .wait(counts: true, asked: said.asked, why: "the server's proxy takes no request of this size\(said.hint)")
            }
            return .failed(code: "too-large", why: "the server takes no file of \(size) bytes\(said.hint)")
        case 422 where said.isMismatch: return mismatch("the digest was wrong when all had arrived")
        case 507: return .wait(counts: false, asked: said.asked, why: "the server has no room\(said.hint)")
        default: return said.trouble
        }
    }

    private mutating func told(_ said: Reply, _ server: Server) -> Outcome {
        switch said.status {
        case 200, 204:
            guard said.isTus else { return said.foreign }
            guard let offset = said.offset else { return .wait(counts: true, asked: nil, why: "the server did not tell the offset") }
            if let length = said.length, length != size { return mismatch("the upload has \(length) bytes there", isWrong: false) }
            guard offset <= min(size, sentTo) else { return mismatch("the server has more than was sent", isWrong: false) }
            progress.expiresAt = said.expires ?? progress.expiresAt
            doubtfulLosses = 0
            return reached(offset, said, server)
        case 404, 410: return vanished(said)
        default: return said.trouble
        }
    }

    private mutating func sent(_ said: Reply, _ offset: Int64, _ count: Int64, _ server: Server) -> Outcome {
        sentTo = max(sentTo, offset + count)
        switch said.status {
        case 200, 204:
            guard said.isTus else {
                unsure()
                return said.foreign
            }
            progress.expiresAt = said.expires ?? progress.expiresAt
            guard let reached = said.offset, reached >= offset, reached <= offset + count else {
                knowledge = .unsure
                return .next
            }
            return self.reached(reached, said, server)
        case 404, 410: return vanished(said)
        case 409, 423, 503:
            unsure()
            // The upload may be used by sent bytes, or by another connection of ours that the server still holds.
            return .wait(counts: false, asked: said.asked, why: "the server is busy with this upload (\(said.status))")
        case 413:
            unsure()
            wantsSmallerPiece = true
            tooLarge = Int(clamping: count)
            return .wait(counts: true, asked: said.asked, why: "the server takes no piece of \(count) bytes")
        case 422 where said.isMismatch: return mismatch("the digest was wrong when all had arrived")
        case 460:
            unsure()
            return .wait(counts: true, asked: nil, why: "a piece was changed on its way")
        default:
            unsure()
            return said.trouble
        }
    }

    private mutating func verified(_ said: Reply, _ server: Server) -> Outcome {
        switch said.status {
        case 200, 204:
            guard said.isHub || said.isTus else { return said.foreign }
            guard let found = said.digest else { return .done(isVerified: false) }
            return found == digest ? .done(isVerified: true) : mismatch("the server has other bytes (\(found))")
        case 404, 410: return vanished(said)
        default: return said.trouble
        }
    }

    private mutating func destroyed(_ said: Reply) -> Outcome {
        guard (200..<500).contains(said.status), ![408, 421, 423, 425, 429].contains(said.status) else { return said.trouble }
        // The upload was destroyed, or the server does not destroy uploads: it is forgotten here, and expires there.
        forget()
        knowledge = .absent
        return .next
    }

    // MARK: Steps

    /// The server has all bytes up to this offset.
    private mutating func reached(_ offset: Int64, _ said: Reply, _ server: Server) -> Outcome {
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

    private mutating func unsure() {
        if progress.url != nil, knowledge != .spoiled { knowledge = .unsure }
    }

    /// The server does not know the upload (any more). All bytes may have arrived.
    ///
    /// If the answer is not certainly the server's own, it is asked twice more: sent bytes must not be given up because of a proxy. Some
    /// servers leave their header out of errors, so the third answer is believed.
    private mutating func vanished(_ said: Reply) -> Outcome {
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

    private mutating func forget() {
        progress.url = nil
        progress.offset = 0
        progress.expiresAt = nil
        sentTo = 0
        piece = nil
        doubtfulLosses = 0
    }

    /// - Parameter isWrong: Wrong bytes are there; otherwise it is not our upload.
    private mutating func mismatch(_ why: String, isWrong: Bool = true) -> Outcome {
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

    // MARK: Content of an answer

    private struct Reply {
        let status: Int
        let isTus: Bool
        let isHub: Bool
        /// The answer identifies itself as the server that was asked, by the header of the hub or of tus.
        let isOwn: Bool
        let offset: Int64?
        let length: Int64?
        let digest: BlobDigest?
        let location: String?
        let expires: Timestamp?
        let asked: Duration?
        let isMismatch: Bool
        let hint: String

        init(_ response: HTTPResponse, _ server: Server, now: Timestamp) {
            status = response.status
            let facts = HubHeaders(reading: response.headers, now: now)
            isHub = facts.version == HubHeader.currentVersion
            isTus = response.headers[Tus.resumable] == Tus.version
            isOwn = server.blobs == nil ? isTus : isHub
            offset = Tus.count(response.headers[Tus.offset])
            length = Tus.count(response.headers[Tus.length])
            digest = response.headers[Tus.reprDigest].flatMap { BlobDigest(field: $0) }
            location = response.headers["Location"]
            expires = response.headers[Tus.expires].flatMap { HTTPDate.timestamp($0) }
            asked = facts.asked
            let text = String(decoding: response.body.prefix(512), as: UTF8.self)
            isMismatch = text.contains("digest-mismatch")
            hint = text.isEmpty ? "" : ": " + Printable.text(text, max: 120)
        }

        /// Another server answered in its place.
        var foreign: Outcome { .wait(counts: false, asked: asked, why: "answer \(status) was not the server's own\(hint)") }

        var trouble: Outcome {
            let isLoad = [408, 409, 421, 423, 425, 429, 503, 511].contains(status)
            return .wait(counts: !isLoad, asked: asked, why: "the server answered \(status)\(hint)")
        }
    }
}
