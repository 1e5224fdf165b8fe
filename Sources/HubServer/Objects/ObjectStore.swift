package import SyncCore
import Synchronization

/// One bucket of an object store, used by S3's REST API (https://docs.aws.amazon.com/AmazonS3/latest/API/) on threads that may wait. The
/// transport signs requests (``RequestSignature``).
///
/// While the store does not answer, calls fail at once, and one at a time tests from time to time whether it is back (``Reopening``).
/// Threads that hang in vain would delay all later requests.
package final class ObjectStore: Sendable {
    package let place: ObjectStorePlace
    private let credentials: ObjectStoreCredentials
    private let caFile: String?
    private let transport: any WaitingTransport
    private let time: any TimeSource
    /// Uses libcrypto, where it is available.
    let newDigest: @Sendable () -> any RunningDigest
    private let report: @Sendable (Change) -> Void
    private let health = Mutex(Health())

    private struct Health {
        var isAway = false
        var reopening = Reopening()
    }

    private struct Lists {
        /// The last list broke the rules, and this was reported.
        var isBroken = false
    }

    private let lists = Mutex(Lists())
    /// Time at which all calls must have ended; `nil`: they have their usual time.
    private let end = Mutex<Instant?>(nil)

    package enum Change: Sendable {
        case away(BlobError)
        case back
        /// The store failed for one call at the moment.
        case busy(BlobError)
    }

    /// - Parameters:
    ///   - caFile: The only issuers of certificates to trust, PEM; `nil`: the system's.
    ///   - report: Receives the changes of the store's availability.
    package init(
        _ place: ObjectStorePlace, _ credentials: ObjectStoreCredentials, caFile: String?, transport: any WaitingTransport,
        time: any TimeSource, newDigest: @escaping @Sendable () -> any RunningDigest, report: @escaping @Sendable (Change) -> Void
    ) {
        self.place = place
        self.credentials = credentials
        self.caFile = caFile
        self.transport = transport
        self.time = time
        self.newDigest = newDigest
        self.report = report
    }

    var isReachable: Bool { health.withLock { !$0.isAway } }

    // MARK: One request

    struct Call {
        var method: HTTPRequest.Method
        /// Without the prefix; empty: the bucket itself.
        var key: String
        /// Sorted by name and escaped, each with a `=`.
        var query = ""
        var headers: [(String, String)] = []
        var body: [UInt8]?
        var maxAnswer = 1 << 20
        /// The answer begins before the work is done, and its body has the result (CopyObject, CompleteMultipartUpload).
        var mayFailLate = false
        /// The step in words, for the operator.
        var doing: String
    }

    /// An error answer of the store.
    struct Refusal: Hashable {
        var status: Int
        /// A code such as `NoSuchKey` or `SignatureDoesNotMatch`; empty when there is none.
        var code: String
        var message: String
    }

    enum Answer {
        case done(HTTPResponse)
        case refused(Refusal)
    }

    /// - Throws: `.away` when there is no answer, or one that asks to retry later.
    func ask(_ call: Call) throws(BlobError) -> Answer {
        let doing = "\(call.doing) in \(place)"
        let isDue = health.withLock { !$0.isAway || $0.reopening.isDue(at: time.now().wall) }
        guard isDue else { throw BlobError(.away, doing: doing, detail: "it has not answered lately") }
        var tries = 0
        while true {
            tries += 1
            let response: HTTPResponse
            do throws(TransportError) {
                response = try transport.exchange(request(call, isFresh: tries > 1))
            } catch {
                // A kept connection that the store has closed meanwhile is no evidence about the store.
                if error.code == .broken, tries == 1 { continue }
                let failure = BlobError(.away, doing: doing, detail: error.description)
                went(away: failure)
                throw failure
            }
            if response.status == 421, tries == 1 { continue }
            if (500...599).contains(response.status) || [421, 429].contains(response.status) {
                let refusal = Self.refusal(response)
                let failure = BlobError(.away, doing: doing, detail: "it answers \(refusal.words)")
                // A failure of one object, or a rate limit, does not concern other calls: they need not wait.
                if call.key.isEmpty { went(away: failure) } else { report(.busy(failure)) }
                throw failure
            }
            came()
            if call.mayFailLate, response.status == 200, let root = XMLReader.read(Array(response.body.prefix(64 << 10))),
                root.name == "Error"
            {
                return .refused(Refusal(status: 200, code: root["Code"] ?? "", message: root["Message"] ?? ""))
            }
            return (200...299).contains(response.status) ? .done(response) : .refused(Self.refusal(response))
        }
    }

    /// Runs calls under a common time limit; those that are not done by then fail as if the store were unreachable.
    func hurrying<T>(_ patience: Duration, _ body: () throws(BlobError) -> T) throws(BlobError) -> T {
        end.withLock { $0 = time.now().instant.advanced(by: patience) }
        defer { end.withLock { $0 = nil } }
        return try body()
    }

    /// Like ``ask(_:)``, but every answer except success is a failure.
    func demand(_ call: Call) throws(BlobError) -> HTTPResponse {
        switch try ask(call) {
        case .done(let response): return response
        case .refused(let refusal): throw failure(call.doing, refusal)
        }
    }

    func failure(_ doing: String, _ refusal: Refusal) -> BlobError {
        let code: BlobError.Code =
            switch refusal.code {
            case "NoSuchUpload", "InvalidPart", "InvalidPartOrder", "EntityTooSmall": .damaged
            case "QuotaExceeded", "XMinioStorageFull", "InsufficientStorage", "EntityTooLarge": .full
            default: [301, 400, 401, 403, 404].contains(refusal.status) ? .refused : .io
            }
        return BlobError(code, doing: "\(doing) in \(place)", detail: words(refusal))
    }

    private func request(_ call: Call, isFresh: Bool) -> HTTPRequest {
        let path = call.key.isEmpty ? place.bucket : "\(place.bucket)/\(place.prefix)\(call.key)"
        var headers = HTTPHeaders(call.headers)
        headers["x-amz-content-sha256"] = digest(call.body ?? []).hex
        if let token = credentials.sessionToken { headers["x-amz-security-token"] = token }
        // curl would otherwise add an unsigned one of its own.
        if [.put, .post].contains(call.method) { headers["Content-Type"] = "application/octet-stream" }
        var request = HTTPRequest(
            call.method, "\(place.endpoint)/\(path)\(call.query.isEmpty ? "" : "?" + call.query)", headers: headers,
            body: call.body.map { .bytes($0) } ?? .none, maxResponseBytes: call.maxAnswer, keepsConnection: !isFresh)
        request.signature = RequestSignature(
            region: place.region, service: "s3", keyID: credentials.keyID, secret: credentials.secret)
        if let caFile { request.tls = TLSIdentity(caFile: caFile) }
        request.deadlines = Self.deadlines(of: call.method)
        if let end = end.withLock({ $0 }) {
            let left = max(.milliseconds(1), time.now().instant.duration(to: end))
            request.deadlines.total = min(request.deadlines.total ?? left, left)
        }
        return request
    }

    /// Short deadlines for reads: a waiting call holds a thread, and is repeated. Work inside the store may take as long as a copy of the
    /// largest file.
    private static func deadlines(of method: HTTPRequest.Method) -> HTTPRequest.Deadlines {
        let patience: Duration = method == .put || method == .post ? .seconds(50) : .seconds(15)
        var deadlines = HTTPRequest.Deadlines()
        deadlines.connect = .seconds(5)
        deadlines.idle = patience
        deadlines.firstByte = patience
        deadlines.total = .seconds(120)
        return deadlines
    }

    func digest(_ bytes: [UInt8]) -> BlobDigest {
        let hash = newDigest()
        hash.update(bytes)
        return hash.blobDigest
    }

    // MARK: Health

    private func went(away failure: BlobError) {
        let isNews = health.withLock { health in
            health.reopening.failed(at: time.now().wall)
            defer { health.isAway = true }
            return !health.isAway
        }
        if isNews { report(.away(failure)) }
    }

    /// The error of a list that does not end by the rules of S3. It is reported once; objects are read and written all the same.
    func listFailed(_ call: Call, _ detail: String) -> BlobError {
        let failure = BlobError(.away, doing: "\(call.doing) in \(place)", detail: detail)
        let isNews = lists.withLock { lists in
            defer { lists.isBroken = true }
            return !lists.isBroken
        }
        if isNews { report(.busy(failure)) }
        return failure
    }

    func listEnded() {
        lists.withLock { $0.isBroken = false }
    }

    private func came() {
        let isNews = health.withLock { health in
            defer { health = Health() }
            return health.isAway
        }
        if isNews { report(.back) }
    }

    // MARK: Words

    private static func refusal(_ response: HTTPResponse) -> Refusal {
        let root = XMLReader.read(Array(response.body.prefix(64 << 10)))
        return Refusal(status: response.status, code: root?["Code"] ?? "", message: root?["Message"] ?? "")
    }

    private func words(_ refusal: Refusal) -> String {
        let said = refusal.words
        switch refusal.code {
        case "InvalidAccessKeyId":
            return "the store does not know the access key \(credentials.keyID) (\(said)): expected one of this store"
        case "SignatureDoesNotMatch":
            return
                "the secret does not belong to the access key \(credentials.keyID) (\(said)): expected its own secret, and the region of "
                + "the store, if it is not \(place.region)"
        case "AccessDenied":
            return
                "the access key \(credentials.keyID) may not do that (\(said)): expected one that may list the bucket, read, write and "
                + "delete below the prefix, and abort multipart uploads"
        case "NoSuchBucket": return "there is no bucket \(place.bucket) (\(said)): expected one that exists"
        case "RequestTimeTooSkewed": return "the clocks of this machine and of the store differ (\(said)): expected less than 15 minutes"
        case "AuthorizationHeaderMalformed", "PermanentRedirect":
            return
                "the bucket is in another region than \(place.region), or at another endpoint (\(said)): expected --s3-region and "
                + "--s3-endpoint of the bucket"
        default: return "it answers \(said)"
        }
    }
}

extension ObjectStore.Refusal {
    var words: String {
        "\(status)" + (code.isEmpty ? "" : " \(Printable.text(code, max: 60))") + (message.isEmpty ? "" : ": \(Printable.text(message))")
    }
}
