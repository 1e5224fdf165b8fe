/// What the store knows of a mutation that is to become a request to an existing backend. References to other records are
/// the backend's ids already, in ``content`` and in ``base``.
package struct RestTask: Hashable, Sendable {
    package var content: MutationContent
    /// The backend's document as it was last seen; `nil`: never.
    package var base: JSONObject?
    /// The backend's id of the record, a text or a number; `nil`: it has none that we know of.
    package var serverID: JSON?
    /// The backend's version of ``base``, as it wrote it; `nil`: not known.
    package var etag: String?
    /// The request that was made of it. Whether it arrived is not known, unless ``isFresh``.
    package var attempt: RestAttempt?
    /// The attempt was written down a moment ago, and nothing of it was sent.
    package var isFresh = false
    /// Since the attempt was made, and since it was last sent.
    package var sinceFirst: Duration = .zero
    package var sinceLast: Duration = .zero
    /// Counts what was sent under another key before: see ``RestAttempt/key(of:generation:)``.
    package var generation: Int64 = 0
    /// It may have been sent in a time that this database has lost, and nobody knows as what.
    package var isLost = false
    /// What has to be settled before it.
    package var blocked: Problem?

    package init(_ content: MutationContent, base: JSONObject? = nil, serverID: JSON? = nil, etag: String? = nil) {
        self.content = content
        self.base = base
        self.serverID = serverID
        self.etag = etag
    }
}

/// A request as it goes over the wire, but for the address and the credentials. It is on flash before it is sent, so that a
/// repeat is the same to the byte, whatever the configuration says by then.
package struct RestAttempt: Hashable, Sendable {
    package var method: HTTPRequest.Method
    /// Path and query.
    package var target: String
    package var body: String?
    package var contentType: String?
    package var ifMatch: String?
    /// Name and value of the header by which the backend knows the request again.
    package var keyHeader: String?
    package var key: String?
    /// What the fields that it changes have after it; `null` for one that it removes.
    package var sent: JSONObject = [:]
    /// What the fields had before it that it computes a value for.
    package var before: JSONObject = [:]
    /// Some of them are counts: of two of them that are the same, each was counted.
    package var counts = false

    package init(_ method: HTTPRequest.Method, _ target: String) {
        self.method = method
        self.target = target
    }

    /// The key of a request. The first is the mutation's own; a later one, with other content after a definite "no", is made
    /// of it, so that a backend that keeps its answers does not give the old one.
    package static func key(of mutation: MutationKey, generation: Int64) -> String {
        guard generation > 0 else { return mutation.text }
        var bytes = Array(SHA256.hash(Array("\(mutation.text) \(generation)".utf8)).prefix(16))
        // RFC 9562, 5.8: a UUID made in a way of one's own.
        bytes[6] = bytes[6] & 0x0F | 0x80
        bytes[8] = bytes[8] & 0x3F | 0x80
        let hex = bytes.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }
        return [hex[0..<4], hex[4..<6], hex[6..<8], hex[8..<10], hex[10..<16]].map { $0.joined() }.joined(separator: "-")
    }

    package var request: RestRequest {
        var headers: HTTPHeaders = [:]
        if let contentType, body != nil { headers["Content-Type"] = contentType }
        if let ifMatch { headers["If-Match"] = ifMatch }
        if let keyHeader, let key { headers[keyHeader] = key }
        var request = RestRequest(method, target, headers: headers, body: body.map { Array($0.utf8) })
        request.isRepeatable = method == .put || method == .delete || key != nil || ifMatch != nil
        return request
    }

    // MARK: On flash

    package var stored: String {
        var object: JSONObject = ["method": .string(method.rawValue), "target": .string(target)]
        let texts = [
            ("body", body), ("content_type", contentType), ("if_match", ifMatch), ("key_header", keyHeader), ("key", key),
        ]
        for (name, text) in texts { object[name] = text.map { .string($0) } }
        if !sent.isEmpty { object["sent"] = .object(sent) }
        if !before.isEmpty { object["before"] = .object(before) }
        if counts { object["counts"] = true }
        return object.json
    }

    /// - Returns: `nil` when the text is not what ``stored`` makes.
    package init?(stored text: String) {
        // `try?`: what cannot be read is what `nil` tells; the caller treats the attempt as lost, and asks the backend.
        guard let object = (try? JSONReader.read(text, limits: .stored))?.object,
            let method = object["method"]?.text.flatMap({ HTTPRequest.Method(rawValue: $0) }), let target = object["target"]?.text
        else { return nil }
        self.init(method, target)
        body = object["body"]?.text
        contentType = object["content_type"]?.text
        ifMatch = object["if_match"]?.text
        keyHeader = object["key_header"]?.text
        key = object["key"]?.text
        sent = object["sent"]?.object ?? [:]
        before = object["before"]?.object ?? [:]
        counts = object["counts"]?.bool ?? false
    }
}

/// One request to the backend as it is decided; the shell adds address and credentials, and carries it.
package struct RestRequest: Hashable, Sendable {
    package var method: HTTPRequest.Method
    package var target: String
    package var headers: HTTPHeaders
    package var body: [UInt8]?
    /// The credentials were refused: they are read again, and only then it is sent.
    package var refreshesCredentials = false
    /// Sent twice it does what it does once. What is not goes over a connection of its own: libcurl sends a request again by
    /// itself when a connection that was kept from before breaks without a byte of an answer.
    package var isRepeatable = true

    package init(_ method: HTTPRequest.Method, _ target: String, headers: HTTPHeaders = [:], body: [UInt8]? = nil) {
        self.method = method
        self.target = target
        self.headers = headers
        self.body = body
    }
}

/// A record as an answer of the backend shows it: in our names of the fields, with the backend's ids.
package struct RestRemote: Hashable, Sendable {
    /// A text or a number; `nil` where the answer does not show it.
    package var id: JSON?
    package var etag: String?
    /// `nil` where the answer does not show it.
    package var document: JSONObject?

    package init(id: JSON? = nil, etag: String? = nil, document: JSONObject? = nil) {
        self.id = id
        self.etag = etag
        self.document = document
    }
}

/// What became of a mutation at the backend.
package struct RestResult: Hashable, Sendable {
    package var key: MutationKey
    package var verdict: Verdict

    package init(_ key: MutationKey, _ verdict: Verdict) {
        self.key = key
        self.verdict = verdict
    }

    package enum Verdict: Hashable, Sendable {
        /// Done.
        case accepted(RestRemote)
        /// Nothing was done: the record is another one than the mutation was made on, or is gone (`nil`).
        case moved(RestRemote?)
        /// Nothing was done, and never will be.
        case rejected(Problem)
        /// Nothing was done; it may be later.
        case retry(Problem, after: Duration?)
        /// Nothing left this machine.
        case notSent
        /// It may have been done. It is found out later, by the same request again or by a question. With `counts` it is one
        /// answered failure more.
        case unsure(Problem, after: Duration?, counts: Bool)
        /// It may have been done, and nobody can find out.
        case held(Problem)
    }
}

extension Problem {
    /// Why an outcome is not known and cannot be found out.
    package static let outcomeUnknown = "outcome-unknown"
    /// An existing backend answered about another record than it was asked about.
    package static let otherRecord = "other-record"
}
