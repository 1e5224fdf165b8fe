/// The store's data for a mutation that becomes a request to an existing backend. In ``content`` and ``base``, references to other records
/// are already the backend's ids.
package struct RestTask: Hashable, Sendable {
    package var content: MutationContent
    /// The backend's document as it was last seen; `nil`: never.
    package var base: JSONObject?
    /// The backend's id of the record, a text or a number; `nil`: none is known.
    package var serverID: JSON?
    /// The backend's version of ``base`` in its own form; `nil`: not known.
    package var etag: String?
    /// The request that was made of it. It is unknown whether it arrived, unless ``isFresh``.
    package var attempt: RestAttempt?
    /// The attempt was just stored, and no part of it was sent.
    package var isFresh = false
    /// Time since the attempt was made; `sinceLast` is the time since it was last sent.
    package var sinceFirst: Duration = .zero
    package var sinceLast: Duration = .zero
    /// Number of earlier requests under another key: see ``RestAttempt/key(of:generation:)``.
    package var generation: Int64 = 0
    /// It may have been sent in a time that this database has lost, with unknown content.
    package var isLost = false
    /// The problem that must be settled first.
    package var blocked: Problem?

    package init(_ content: MutationContent, base: JSONObject? = nil, serverID: JSON? = nil, etag: String? = nil) {
        self.content = content
        self.base = base
        self.serverID = serverID
        self.etag = etag
    }
}

/// A request as it goes over the wire, without the address and the credentials. It is on flash before it is sent, so that a repeat is
/// identical to the byte, even if the configuration has changed.
package struct RestAttempt: Hashable, Sendable {
    package var method: HTTPRequest.Method
    /// Path and query.
    package var target: String
    package var body: String?
    package var contentType: String?
    package var ifMatch: String?
    /// Name of the header by which the backend recognises a repeated request; `key` is its value.
    package var keyHeader: String?
    package var key: String?
    /// New values of the fields that it changes; `null` for one that it removes.
    package var sent: JSONObject = [:]
    /// Former values of the fields that it computes a value for.
    package var before: JSONObject = [:]
    /// Some of them are counts: when two of them are equal, both were counted.
    package var counts = false

    package init(_ method: HTTPRequest.Method, _ target: String) {
        self.method = method
        self.target = target
    }

    /// The key of a request. The first one is the mutation's own. A later one, with other content after a definite "no", is derived from
    /// it, so that a backend that keeps its answers does not return the old one.
    package static func key(of mutation: MutationKey, generation: Int64) -> String {
        guard generation > 0 else { return mutation.text }
        var bytes = Array(SHA256.hash(Array("\(mutation.text) \(generation)".utf8)).prefix(16))
        // A UUID in a custom format (RFC 9562, section 5.8).
        bytes[6] = bytes[6] & 0x0F | 0x80
        bytes[8] = bytes[8] & 0x3F | 0x80
        return [bytes[0..<4], bytes[4..<6], bytes[6..<8], bytes[8..<10], bytes[10..<16]].map { hexText(Array($0)) }.joined(separator: "-")
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

    /// - Returns: `nil` when the text is not in the format of ``stored``.
    package init?(stored text: String) {
        // `try?`: unreadable text returns `nil`; the caller treats the attempt as lost, and asks the backend.
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

/// One request to the backend; the shell adds address and credentials, and sends it.
package struct RestRequest: Hashable, Sendable {
    package var method: HTTPRequest.Method
    package var target: String
    package var headers: HTTPHeaders
    package var body: [UInt8]?
    /// The credentials were refused: they are read again before the request is sent.
    package var refreshesCredentials = false
    /// Sending it twice has the same effect as sending it once. Any other request uses a new connection, because libcurl itself repeats a
    /// request when a kept connection breaks before the first byte of an answer.
    package var isRepeatable = true

    init(_ method: HTTPRequest.Method, _ target: String, headers: HTTPHeaders = [:], body: [UInt8]? = nil) {
        self.method = method
        self.target = target
        self.headers = headers
        self.body = body
    }
}

/// A record in an answer of the backend, with our names of the fields and the backend's ids.
package struct RestRemote: Hashable, Sendable {
    /// The id, a text or a number; `nil` where the answer does not show it.
    package var id: JSON?
    package var etag: String?
    /// The document; `nil` where the answer does not show it.
    package var document: JSONObject?

    package init(id: JSON? = nil, etag: String? = nil, document: JSONObject? = nil) {
        self.id = id
        self.etag = etag
        self.document = document
    }
}

/// The result of a mutation at the backend.
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
        /// Nothing was done: the record has changed since the mutation was made, or is gone (`nil`).
        case moved(RestRemote?)
        /// Nothing was done, and the same request will never succeed.
        case rejected(Problem)
        /// Nothing was done; a later attempt may succeed.
        case retry(Problem, after: Duration?)
        /// Nothing left this machine.
        case notSent
        /// It may have been done. The outcome is determined later, by the same request again or by a question. With `counts` it is one more
        /// answered failure.
        case unsure(Problem, after: Duration?, counts: Bool)
        /// It may have been done, and the outcome cannot be determined.
        case held(Problem)
    }
}

extension Problem {
    /// Code of an outcome that is unknown and cannot be determined.
    package static let outcomeUnknown = "outcome-unknown"
    /// Code of an answer by an existing backend about another record than the requested one.
    package static let otherRecord = "other-record"
}
