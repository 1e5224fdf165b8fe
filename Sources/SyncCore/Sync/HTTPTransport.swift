/// Carries one HTTP request over TCP, TLS or a Unix socket, and returns its complete answer.
///
/// Conformers: `CurlTransport` (SyncLinux) and the simulated network. They follow no redirect, keep no cookie, enforce every limit of the
/// request before memory is used, and never retry.
package protocol HTTPTransport: Sendable {
    /// - Throws: ``TransportError`` when no complete, valid answer came. An HTTP error status is an answer, not an error.
    func send(_ request: HTTPRequest) async throws(TransportError) -> HTTPResponse

    /// Does the same as ``send(_:)``, but passes the decoded body to `onBody` piece by piece as it arrives; the answer's `body` is empty
    /// then. If `onBody` returns `false`, the transfer ends without an error.
    func stream(
        _ request: HTTPRequest, onHead: @escaping @Sendable (_ status: Int, _ headers: HTTPHeaders) -> Void,
        onBody: @escaping @Sendable ([UInt8]) -> Bool
    ) async throws(TransportError) -> HTTPResponse
}

/// The same transport for a thread that may block.
package protocol WaitingTransport: Sendable {
    /// - Throws: The errors of ``HTTPTransport/send(_:)``.
    func exchange(_ request: HTTPRequest) throws(TransportError) -> HTTPResponse
}

package struct HTTPRequest: Sendable {
    package enum Method: String, Sendable {
        case get = "GET", post = "POST", put = "PUT", patch = "PATCH", delete = "DELETE", head = "HEAD", options = "OPTIONS"
    }

    package enum Body: Sendable {
        case none
        case bytes([UInt8])
        /// A chunked body. The closure is called on the transport's thread for the next piece (at most the given count of bytes); it
        /// returns `nil` at the end and never an empty array.
        case pieces(@Sendable (_ upTo: Int) -> [UInt8]?)
        /// A body like `pieces`, announced with its length, which is not 0. An earlier end breaks the transfer.
        case sized(Int, @Sendable (_ upTo: Int) -> [UInt8]?)
    }

    package var method: Method
    /// Absolute, `http` or `https`. With `socketPath` the host part is only the `Host` header.
    package var url: String
    package var headers: HTTPHeaders
    package var body: Body
    /// Connect to this Unix socket instead of the URL's host.
    package var socketPath: String?
    /// Send through this network interface only (`SO_BINDTODEVICE`).
    package var interface: String?
    package var tls: TLSIdentity?
    /// The proxy to use where it carries the URL's host; never with `socketPath`.
    package var proxy: HTTPProxy?
    package var deadlines: Deadlines
    /// Largest accepted answer after decoding, bytes, and largest accepted ratio of decoded to received bytes.
    package var maxResponseBytes: Int
    package var maxInflateRatio: Int
    /// Accept `gzip` in the answer and decode it.
    package var acceptsGzip: Bool
    /// Keep the connection for the next request to the same place.
    package var keepsConnection: Bool
    /// Rate limit for sending and for receiving, bytes per second on average, shared with all other requests that have one; `nil`: no
    /// limit.
    package var bytesPerSecond: Int?
    /// Expected size of the answer, bytes; more may come. It serves to reserve memory.
    package var expectedBytes = 4 << 10
    /// The signature, for a service that needs one.
    package var signature: RequestSignature?
    /// Called at most once, when the first bytes of the body of a good answer (2xx) are here, on the transport's thread, so it must not
    /// block.
    package var bodyBegan: (@Sendable () -> Void)?

    package init(
        _ method: Method, _ url: String, headers: HTTPHeaders = [], body: Body = .none, socketPath: String? = nil,
        interface: String? = nil, tls: TLSIdentity? = nil, proxy: HTTPProxy? = nil, deadlines: Deadlines = Deadlines(),
        maxResponseBytes: Int = 16 << 20, maxInflateRatio: Int = 1000, acceptsGzip: Bool = false,
        keepsConnection: Bool = true, bytesPerSecond: Int? = nil
    ) {
        self.method = method
        self.url = url
        self.headers = headers
        self.body = body
        self.socketPath = socketPath
        self.interface = interface
        self.tls = tls
        self.proxy = proxy
        self.deadlines = deadlines
        self.maxResponseBytes = maxResponseBytes
        self.maxInflateRatio = maxInflateRatio
        self.acceptsGzip = acceptsGzip
        self.keepsConnection = keepsConnection
        self.bytesPerSecond = bytesPerSecond
    }

    /// A limit for each step; `nil` means none. `idle` is the longest time without a byte in either direction; it detects a peer that
    /// accepts and then stalls.
    package struct Deadlines: Hashable, Sendable {
        package var connect: Duration = .seconds(10)
        package var firstByte: Duration? = .seconds(30)
        package var idle: Duration? = .seconds(30)
        package var total: Duration? = .seconds(120)

        package init() {}
    }
}

/// AWS Signature Version 4, which every S3-compatible store understands. The transport adds the `Authorization`.
///
/// The transport signs the URL unchanged: the path is escaped as AWS does (all but `A-Z a-z 0-9 - . _ ~ /`), the names of the query are
/// sorted, each with a `=`. The header `x-amz-content-sha256` must be there.
package struct RequestSignature: Hashable, Sendable, CustomStringConvertible, CustomDebugStringConvertible {
    package var region: String
    package var service: String
    package var keyID: String
    package var secret: String

    package init(region: String, service: String, keyID: String, secret: String) {
        self.region = region
        self.service = service
        self.keyID = keyID
        self.secret = secret
    }

    /// The text leaves out the secret, wherever it is printed.
    package var description: String { "\(keyID) \(region)/\(service)" }
    package var debugDescription: String { description }
}

/// The trusted issuers and the own certificate of a TLS connection. The TLS library reads the files at each new connection.
package struct TLSIdentity: Hashable, Sendable {
    package var caFile: String?
    package var clientCertificateFile: String?
    package var clientKeyFile: String?
    /// Pin of the public key in the form `sha256//base64`, as libcurl uses it.
    package var publicKeyPin: String?

    package init(
        caFile: String? = nil, clientCertificateFile: String? = nil, clientKeyFile: String? = nil,
        publicKeyPin: String? = nil
    ) {
        self.caFile = caFile
        self.clientCertificateFile = clientCertificateFile
        self.clientKeyFile = clientKeyFile
        self.publicKeyPin = publicKeyPin
    }
}

extension HTTPRequest.Body {
    /// Length, bytes; `nil` when it is not known in advance.
    package var count: Int? {
        switch self {
        case .none: 0
        case .bytes(let bytes): bytes.count
        case .sized(let count, _): count
        case .pieces: nil
        }
    }
}

package struct HTTPResponse: Sendable {
    package var status: Int
    package var headers: HTTPHeaders
    /// Decoded (gunzipped) body.
    package var body: [UInt8]
    package var traffic: Traffic
    /// End of validity of the first certificate in the server's chain; `nil` without TLS, and on a kept connection or session.
    package var certificateEndsAt: Timestamp?

    package init(status: Int, headers: HTTPHeaders = [], body: [UInt8] = [], traffic: Traffic = Traffic()) {
        self.status = status
        self.headers = headers
        self.body = body
        self.traffic = traffic
    }
}

/// Bytes that one request moved, as far as the transport knows: heads and bodies as sent, and the bytes that TCP counted where the
/// conformer can see them.
package struct Traffic: Hashable, Sendable {
    package var up: Int = 0
    package var down: Int = 0
    /// Bytes of the TCP and IP headers of every segment, acknowledgements included; 0 where there is no TCP or they are not counted.
    package var headersUp: Int = 0
    package var headersDown: Int = 0
    package var newConnection: Bool = false
    /// Time from sending to the first byte of the answer; `nil` when none came.
    package var roundTrip: Duration?

    package init() {}

    /// Adds the traffic of a repeated attempt of the same request.
    package mutating func add(_ other: Traffic) {
        up = up.saturatingAdd(other.up)
        down = down.saturatingAdd(other.down)
        headersUp = headersUp.saturatingAdd(other.headersUp)
        headersDown = headersDown.saturatingAdd(other.headersDown)
        newConnection = newConnection || other.newConnection
    }

    /// Bytes on the wire, which a provider bills.
    package var wireUp: Int { up.saturatingAdd(headersUp) }
    package var wireDown: Int { down.saturatingAdd(headersDown) }
}

/// Header fields in the order received; names compare without case.
package struct HTTPHeaders: Sendable, Hashable, ExpressibleByArrayLiteral, ExpressibleByDictionaryLiteral {
    package private(set) var fields: [Field]

    package struct Field: Sendable, Hashable {
        package var name: String
        package var value: String
    }

    package init(arrayLiteral elements: (String, String)...) {
        fields = elements.map { Field(name: $0.0, value: $0.1) }
    }

    package init(dictionaryLiteral elements: (String, String)...) {
        fields = elements.map { Field(name: $0.0, value: $0.1) }
    }

    package init(_ fields: [(String, String)]) {
        self.fields = fields.map { Field(name: $0.0, value: $0.1) }
    }

    /// The first value of that name; setting it replaces all values.
    package subscript(name: String) -> String? {
        get { fields.first { asciiCaseEqual($0.name, name) }?.value }
        set {
            fields.removeAll { asciiCaseEqual($0.name, name) }
            if let newValue { fields.append(Field(name: name, value: newValue)) }
        }
    }

    package mutating func append(_ name: String, _ value: String) {
        fields.append(Field(name: name, value: value))
    }
}

/// Compares with ASCII case folding only: header names, content codings and hexadecimal digits are ASCII by definition.
package func asciiCaseEqual(_ left: String, _ right: String) -> Bool {
    let a = left.utf8, b = right.utf8
    return a.count == b.count && zip(a, b).allSatisfy { asciiLower($0) == asciiLower($1) }
}

private func asciiLower(_ byte: UInt8) -> UInt8 {
    byte >= 65 && byte <= 90 ? byte | 0x20 : byte
}

/// The reason why a request got no answer.
package struct TransportError: Error, Sendable, Hashable, CustomStringConvertible {
    package enum Code: String, Sendable, CaseIterable {
        /// The name could not be resolved.
        case unresolved
        /// No connection: refused, no route, interface gone.
        case unreachable
        /// A deadline passed; `doing` names the step.
        case timedOut
        /// The connection broke in the middle.
        case broken
        /// TLS refused the peer: name, issuer, pin, protocol version.
        case untrusted
        /// TLS refused the peer because of a date; a wrong local clock may be the reason.
        case untrustedDate
        /// The peer needs a client certificate that is not configured, or refuses ours.
        case clientCertificate
        /// The answer exceeded a limit (bytes, inflate ratio, header size).
        case tooLarge
        /// The answer is not valid HTTP, or not in the announced encoding.
        case malformed
        /// The local credentials cannot be used: a file is missing, unreadable, or open to others. Nothing was sent.
        case credentials
        /// Cancelled by the caller.
        case cancelled
    }

    package var code: Code
    /// The failed step, for the operator: `connect to hub.example:443`.
    package var doing: String
    /// The message of the transport.
    package var detail: String
    package var traffic: Traffic
    /// Status of an answer that had begun; `nil`: none had, or it is not known.
    package var status: Int?

    package init(_ code: Code, doing: String, detail: String, traffic: Traffic = Traffic()) {
        self.code = code
        self.doing = doing
        self.detail = detail
        self.traffic = traffic
    }

    package var description: String { "\(doing): \(detail)" }
}
