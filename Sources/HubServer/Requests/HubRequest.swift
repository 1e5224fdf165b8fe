package import SyncCore

/// One request to ``Hub``, independent of its transport.
package struct HubRequest: Sendable {
    package var method: String
    /// Percent-decoded, without the query.
    package var path: String
    package var query: HubQuery
    package var headers: HTTPHeaders { didSet { hubHeaders = HubRequestHeaders(reading: headers) } }
    /// The content of the protocol's own header fields, which are read once.
    private(set) var hubHeaders: HubRequestHeaders
    /// The body as received: the hub decodes a `Content-Encoding`.
    package var body: [UInt8]
    /// The device that a verified client certificate names.
    package var certificateDevice: DeviceID?
    /// Declared length of the body; `nil` when it was not declared.
    var contentLength: Int?
    /// The caller can let a pull without news wait (``HubResponse/interest``).
    var mayWait = false
    /// The body of a push, once it was read.
    var push: ReadPush?
    /// The half that this is of a request that brings a file; `nil` for a whole request with its body.
    var fileStep: FileStep?

    enum FileStep: Sendable {
        case begin
        /// The previous writer of the upload is ended, or could not be.
        case fenced(BlobError?)
        case end(UploadGrant, UploadEnd)
    }

    /// - Parameter target: Path and query as on the request line. A target that cannot be decoded becomes a path that does not exist, and
    ///   is answered so.
    package init(
        _ method: String, _ target: String, headers: HTTPHeaders = [:], body: [UInt8] = [],
        certificateDevice: DeviceID? = nil
    ) {
        let parts = target.split(separator: "?", maxSplits: 1, omittingEmptySubsequences: false)
        self.method = method
        path = parts.first.flatMap { HubRequest.decode($0, plusIsSpace: false) } ?? ""
        query = HubQuery()
        for pair in (parts.count > 1 ? parts[1] : "").split(separator: "&").prefix(32) {
            let sides = pair.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            guard let name = HubRequest.decode(sides[0], plusIsSpace: true),
                let value = sides.count > 1 ? HubRequest.decode(sides[1], plusIsSpace: true) : ""
            else {
                path = ""
                continue
            }
            query.append(name, value)
        }
        self.headers = headers
        hubHeaders = HubRequestHeaders(reading: headers)
        self.body = body
        self.certificateDevice = certificateDevice
    }

    private static func decode(_ text: Substring, plusIsSpace: Bool) -> String? {
        var bytes: [UInt8] = []
        var rest = text.utf8
        while let byte = rest.popFirst() {
            switch byte {
            case UInt8(ascii: "+") where plusIsSpace: bytes.append(UInt8(ascii: " "))
            case UInt8(ascii: "%"):
                guard let high = rest.popFirst().flatMap(digit), let low = rest.popFirst().flatMap(digit) else { return nil }
                bytes.append(high << 4 | low)
            default: bytes.append(byte)
            }
        }
        return String(validating: bytes, as: UTF8.self)
    }

    private static func digit(_ byte: UInt8) -> UInt8? {
        switch byte {
        case UInt8(ascii: "0")...UInt8(ascii: "9"): byte - UInt8(ascii: "0")
        case UInt8(ascii: "a")...UInt8(ascii: "f"): byte - UInt8(ascii: "a") + 10
        case UInt8(ascii: "A")...UInt8(ascii: "F"): byte - UInt8(ascii: "A") + 10
        default: nil
        }
    }
}

/// The work on stored files that a request needs. The hub does it itself for a request without a ``HubRequest/FileStep``.
enum FileWork: Sendable {
    /// Ends the writer of an upload, whose offset the database knows; then the request comes again.
    case fence(String, at: Int64)
    /// Writes the bytes that come with the request; then it comes again.
    case write(UploadGrant)
    /// Answers, if the storage has the blob in this size; a GET gets the bytes of the range.
    case show(BlobDigest, size: Int64, Range<Int64>)

    var grant: UploadGrant? {
        if case .write(let grant) = self { grant } else { nil }
    }
}

package struct HubResponse: Sendable {
    package var status: Int
    package var headers: HTTPHeaders
    package var body: [UInt8]
    /// Work on files that must come first, on a thread that may wait; the answer changes then.
    var work: FileWork?
    /// A pull has no news, and this is what it asked for. Only for a request that may wait.
    var interest: PullInterest?
    /// The answer has verdicts or records, so the device gets the hub's position, signed (``Receipt``).
    var givesReceipt = false
    /// The commit numbers in it are those of a decision without the lock of the hub; `nil`: they are final.
    var preliminary: Preliminary?

    package init(status: Int, headers: HTTPHeaders = [:], body: [UInt8] = []) {
        self.status = status
        self.headers = headers
        self.body = body
    }

    init(json body: [UInt8]) {
        self.init(status: 200, headers: ["Content-Type": "application/json"], body: body)
    }

    init(text: String, status: Int = 200) {
        self.init(status: status, headers: ["Content-Type": "text/plain; charset=utf-8"], body: Array(text.utf8))
    }

    init(_ problem: Problem) {
        self.init(
            status: problem.status, headers: ["Content-Type": "application/problem+json"],
            body: problem.json(prefix: Problem.hubPrefix).bytes)
        if let seconds = problem.retryAfter { headers[HubHeader.retryAfter] = String(seconds) }
    }
}
