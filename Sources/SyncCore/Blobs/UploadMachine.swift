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
package struct UploadMachine: Hashable, Sendable, FileMachine {
    package typealias Job = UploadJob

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
        /// HEAD for the digest, with the size of the file: the offer to bring it.
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
    package internal(set) var progress: UploadProgress
    /// The known state at the server.
    var knowledge: Knowledge
    /// Highest offset that was ever sent to this upload.
    var sentTo: Int64
    /// The last piece was too large.
    package internal(set) var wantsSmallerPiece = false
    /// Size of a piece, bytes, whose request was refused as too large (413).
    package internal(set) var tooLarge: Int?
    /// The highest offset that the server has ever reported.
    package internal(set) var best: Int64
    /// The last sent piece, while its fate is unknown.
    var piece: Piece?
    /// The hub has the file already, from another device or from this one before: none of its bytes was sent.
    package internal(set) var isSpared = false
    /// Number of useless pieces in a row with answers that count no attempt.
    var idlePieces = 0
    /// Bytes of pieces that were sent since the machine was made or re-armed.
    var spent: Int64 = 0
    /// Number of answers in a row that the upload is gone, without the server's own header.
    var doubtfulLosses = 0
    /// Number of requests in a row that could be followed at once and brought the server no new byte.
    private var idleSteps = 0

    struct Piece: Hashable, Sendable {
        var offset: Int64
        var count: Int64
        /// The missing answer to it was counted already.
        var hasCounted: Bool

        /// Returns whether the server's offset shows that the piece was useful.
        func isOfUse(reaching offset: Int64) -> Bool {
            offset - self.offset >= min(max(1, count / 4), UploadMachine.usefulBytes)
        }
    }

    enum Knowledge: Hashable, Sendable {
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
    /// Limit of steps without a new byte. The longest sequence of them is: destroy, look up, create. A longer one is a loop.
    package static let idleStepsMax = 8
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

    /// Number of bytes of the file that the request moves, for policy and budget.
    func bytes(of request: Request, _ server: Server) -> Int {
        switch request {
        case .send(_, let count): count
        case .create(let count): count ?? 0
        case .verify: server.verify == .download ? Int(clamping: size) : 0
        case .lookUp, .ask, .destroy: 0
        }
    }

    /// All bytes are there; only the digest remains to be compared.
    package var isVerifying: Bool { knowledge == .whole }

    var attempts: Int { progress.attempts }
    var needsLink: Bool { true }

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

    /// Ends a circle of answers without a new byte.
    ///
    /// - Parameter offset: Number of bytes at the server before the answer.
    mutating func endCircle(_ outcome: Outcome, from offset: Int64) -> Outcome {
        guard progress.offset <= offset else {
            idleSteps = 0
            return outcome
        }
        switch outcome {
        case .next where idleSteps < Self.idleStepsMax:
            idleSteps += 1
            return outcome
        case .next:
            idleSteps = 0
            return .wait(counts: true, asked: nil, why: "the server's answers lead in a circle")
        case .wait:
            idleSteps = 0
            return outcome
        case .refused, .done, .failed: return outcome
        }
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
}
