/// Chooses the next request of one download from all answers before it (PROTOCOL H1, H2).
///
///     piece … piece -> compare -> done
///     after a cut: the next piece begins behind the last byte that came
///
/// - A piece is asked for by `Range`, with `If-Range` and the digest as the entity tag, so that no byte of another content is joined to it.
///   What came before a cut stays; a piece costs one head of 600 bytes, and the policy is asked before each.
/// - The digest of the whole decides, whatever the answers said. A wrong one throws everything away and begins again, twice at most.
/// - A server that ignores `Range` sends everything from the start. The bytes that are here already are passed over, and the rest is asked
///   for as one request, so that the policy judges its real size.
/// - 404 of the hub means: not there, or not for this device. It does not change by asking, so the file fails.
/// - 401 and 403 concern the device, and hold back all files. 408, 429, 503 and the like are no errors of the file.
/// - Any answer in the hub's place without `Sync-Version` changes nothing, whatever its status.
///
/// These rules keep the requests finite: a try that brings less than a quarter of its piece and less than 32 KiB counts as one without
/// progress; answers that count nothing count from the eleventh in a row on; and in one run of the agent at most eight times the file and
/// 64 MiB are received.
package struct DownloadMachine: Hashable, Sendable, FileMachine {
    package typealias Job = DownloadJob

    package enum Request: Hashable, Sendable {
        /// A part of the file.
        case piece(at: Int64, count: Int64)
        /// Everything from that byte on, from a server that sends the bytes before it as well.
        case rest(at: Int64)

        /// The first byte that is wanted.
        package var offset: Int64 {
            switch self {
            case .piece(let at, _), .rest(let at): at
            }
        }
    }

    package enum Outcome: Hashable, Sendable {
        /// The next request may follow at once.
        case next
        /// All bytes are here; their digest is to be compared.
        case compare
        /// The request did not succeed. `counts`: it was the hub's answer about this file, or a transfer that broke.
        case wait(counts: Bool, asked: Duration?, why: String)
        /// The hub refuses this device; everything waits.
        case refused(String)
        case done
        case failed(code: String, why: String)
    }

    /// The state of the received bytes.
    package struct Received: Hashable, Sendable {
        /// Number of bytes of the part, in order from the start.
        package var offset: Int64
        /// Number of bytes of the body that came, those that were passed over included.
        package var moved: Int64

        package init(offset: Int64, moved: Int64) {
            self.offset = offset
            self.moved = moved
        }
    }

    package let digest: BlobDigest
    /// Size of the file, bytes. It is the size in the record until an answer has named it.
    package private(set) var size: Int64
    package private(set) var progress: DownloadProgress
    /// Largest number of bytes that were ever here.
    package private(set) var best: Int64
    private let limit: Int64
    private var ignoresRange = false
    private var isWhole: Bool
    private var idleAnswers = 0
    /// Bytes of bodies that came since the machine was made or re-armed.
    private var spent: Int64 = 0

    package static let restartsMax = 2
    package static let idleAnswersMax = 10

    /// - Parameters:
    ///   - size: Size by the record, bytes. A wrong one costs at most one request.
    ///   - limit: Largest accepted size, bytes (`blobs.fetch_max_size`).
    package init(size: Int64, digest: BlobDigest, progress: DownloadProgress, limit: Int64) {
        self.size = max(1, size)
        self.digest = digest
        self.progress = progress
        self.limit = limit
        best = progress.offset
        isWhole = false
    }

    // MARK: The next request

    /// - Parameter chunk: Size of the next piece, bytes.
    package func request(chunk: Int) -> Request {
        if ignoresRange { return .rest(at: progress.offset) }
        // The record may say less than there is: then one byte more tells the real size.
        return .piece(at: progress.offset, count: max(1, min(Int64(max(1, chunk)), size - progress.offset)))
    }

    /// Number of bytes that the request may bring, for policy and budget.
    package func bytes(of request: Request) -> Int {
        switch request {
        case .piece(_, let count): Int(clamping: count)
        case .rest: Int(clamping: size)
        }
    }

    /// All bytes are here; only their digest remains to be compared.
    package var isComparing: Bool { isWhole }

    var attempts: Int { progress.attempts }
    var needsLink: Bool { !isComparing }

    /// The header fields of a request.
    package func headers(of request: Request) -> [(String, String)] {
        switch request {
        case .rest: []
        case .piece(let offset, let count): [("Range", "bytes=\(offset)-\(offset + count - 1)"), ("If-Range", digest.entityTag)]
        }
    }

    // MARK: Answers

    /// Records the answer whose body has been received as ``DownloadIntake`` said.
    package mutating func answered(_ request: Request, _ response: HTTPResponse, _ received: Received, at now: Timestamp) -> Outcome {
        let facts = HubHeaders(reading: response.headers, now: now)
        let text = String(decoding: response.body.prefix(512), as: UTF8.self)
        let hint = text.isEmpty ? "" : ": " + Printable.text(text, max: 120)
        guard facts.version == HubHeader.currentVersion else {
            return end(.wait(counts: false, asked: facts.asked, why: "answer \(response.status) was not the hub's own\(hint)"))
        }
        switch response.status {
        case 401, 403: return .refused("the hub answered \(response.status)\(hint)")
        case 200, 206: return end(took(request, response, received))
        case 416: return end(beyond(response))
        case 404, 410:
            return failed("not-at-hub", "the hub does not have the file, or shows this device no record with it")
        case 408, 409, 421, 423, 425, 429, 503, 511:
            return end(.wait(counts: false, asked: facts.asked, why: "the hub answered \(response.status)\(hint)"))
        default: return end(.wait(counts: true, asked: facts.asked, why: "the hub answered \(response.status)\(hint)"))
        }
    }

    /// Records that no answer came, or not all of it. What came stays.
    package mutating func broke(_ request: Request, _ error: TransportError, _ received: Received) -> Outcome {
        _ = advance(request, received)
        switch error.code {
        // Nothing reached the hub, so there was no attempt with the file.
        case .unresolved, .unreachable, .cancelled, .credentials, .untrusted, .untrustedDate, .clientCertificate:
            return end(.wait(counts: false, asked: nil, why: error.description))
        case .timedOut, .broken, .tooLarge, .malformed:
            if let outcome = ending() { return outcome }
            return end(.wait(counts: true, asked: nil, why: error.description))
        }
    }

    /// Records that the part on this device could not be written or read.
    package mutating func stumbled(_ error: BlobError) -> Outcome {
        switch error.code {
        case .damaged, .notFound, .altered:
            // Bytes before the offset are missing here: all come again.
            beginAnew()
            return end(.wait(counts: true, asked: nil, why: error.description))
        case .full: return failed("no-room", "there is no room for it on this device: \(error.detail)")
        case .refused, .tooLarge, .io, .away: return end(.wait(counts: true, asked: .seconds(30), why: error.description))
        }
    }

    /// Records that there is no room for the file.
    package mutating func noRoom(_ why: String) -> Outcome { failed("no-room", why) }

    /// Records the digest of the whole.
    package mutating func compared(_ found: BlobDigest) -> Outcome {
        guard found != digest else { return .done }
        let why = "the bytes that came are \(found)"
        progress.restarts += 1
        beginAnew()
        guard progress.restarts <= Self.restartsMax else { return failed("digest-mismatch", why) }
        return end(.wait(counts: true, asked: nil, why: why))
    }

    /// Counts an attempt without a new byte.
    package mutating func count() { progress.attempts += 1 }

    /// Starts the counting again, because of a new link, an operator or the end of a day.
    package mutating func rearm() {
        progress.attempts = 0
        progress.restarts = 0
        progress.error = nil
        (spent, idleAnswers) = (0, 0)
    }

    // MARK: Meaning of an answer

    private mutating func took(_ request: Request, _ response: HTTPResponse, _ received: Received) -> Outcome {
        let intake = DownloadIntake(request, digest).judge(response.status, response.headers)
        switch intake {
        case .nothing(let why):
            spend(received)
            return .wait(counts: true, asked: nil, why: why)
        case .bytes(_, _, let total, let isWhole):
            if let total { if let tooLarge = adopt(total) { return tooLarge } }
            if isWhole, case .piece = request, size > received.offset { ignoresRange = true }
        }
        let isUseful = advance(request, received)
        if let outcome = ending() { return outcome }
        return isUseful ? .next : .wait(counts: true, asked: nil, why: "the hub's answer brought hardly a byte")
    }

    /// The file ends before the requested bytes.
    private mutating func beyond(_ response: HTTPResponse) -> Outcome {
        guard let range = response.headers["Content-Range"].flatMap({ ContentRange($0) }), range.range == nil, let total = range.total
        else {
            return .wait(counts: true, asked: nil, why: "the hub answered 416 without the size of the file")
        }
        if let tooLarge = adopt(total) { return tooLarge }
        if let outcome = ending() { return outcome }
        return .wait(counts: true, asked: nil, why: "the hub answered 416 for bytes that the file has")
    }

    /// Takes the size of the file from an answer.
    private mutating func adopt(_ total: Int64) -> Outcome? {
        guard total <= limit else {
            return failed("too-large", "it has \(total) bytes, and blobs.fetch_max_size is \(limit)")
        }
        size = max(1, total)
        return nil
    }

    /// - Returns: `true` when the request was useful.
    private mutating func advance(_ request: Request, _ received: Received) -> Bool {
        spend(received)
        let gained = received.offset - request.offset
        progress.offset = received.offset
        isWhole = false
        let wanted = Int64(bytes(of: request))
        let isUseful = gained >= min(max(1, wanted / 4), UploadMachine.usefulBytes)
        if isUseful, received.offset > best { progress.attempts = 0 }
        if gained > 0 { idleAnswers = 0 }
        best = max(best, received.offset)
        return isUseful
    }

    private mutating func ending() -> Outcome? {
        if progress.offset == size {
            isWhole = true
            progress.error = nil
            return .compare
        }
        guard progress.offset > size else { return nil }
        // The part is longer than the file: it is not this file.
        progress.restarts += 1
        let why = "\(progress.offset) bytes came of a file of \(size)"
        beginAnew()
        return progress.restarts <= Self.restartsMax ? .wait(counts: true, asked: nil, why: why) : failed("digest-mismatch", why)
    }

    private mutating func beginAnew() {
        progress.offset = 0
        isWhole = false
    }

    /// The bytes that came are of no use to a later try, except where the file only came too slowly.
    private mutating func failed(_ code: String, _ why: String) -> Outcome {
        if code != "no-progress" { beginAnew() }
        progress.error = why
        return .failed(code: code, why: why)
    }

    private mutating func spend(_ received: Received) { spent = spent.saturatingAdd(max(0, received.moved)) }

    /// Applies the limits of all answers, after the meaning of the answer itself is known.
    private mutating func end(_ outcome: Outcome) -> Outcome {
        var outcome = outcome
        if case .wait(false, let asked, let why) = outcome {
            idleAnswers += 1
            if idleAnswers > Self.idleAnswersMax { outcome = .wait(counts: true, asked: asked, why: why) }
        }
        switch outcome {
        case .wait(_, _, let why): progress.error = why
        case .next: progress.error = nil
        case .compare, .refused, .done, .failed: return outcome
        }
        guard spent > UploadMachine.spentMax(size: size) else { return outcome }
        return failed("no-progress", "\(spent) bytes came for a file of \(size), and it is not whole")
    }
}

extension BlobDigest {
    /// The strong entity tag of a file: `"sha256:9b1c…"`.
    package var entityTag: String { "\"\(description)\"" }
}
