/// Describes the requests of an existing backend (PROTOCOL A13); key `rest` of the configuration.
package struct RestMapping: Hashable, Sendable {
    /// The history that all data of such a backend belongs to, because the backend has no name for it.
    package static let epoch = "rest"

    /// URL of the backend, such as `https://api.example.org`, without a slash at the end.
    package var baseURL = ""
    package var headers: [String: HeaderValue] = [:]
    package var idempotency: Idempotency?
    /// Time that a lost request may still be processed at the backend. Only after it does "it is not there" mean that it never will be.
    package var verifyAfter: Duration = .seconds(30)
    /// Statuses from 500 to 599 that mean for this backend that nothing was done.
    package var notApplied: Set<Int> = []
    /// Path that shows whether the backend is reachable; any answer of its own is good.
    package var probe = "/"
    package var entities: [EntityName: RestEntity] = [:]

    package init() {}

    /// The value of a header. A secret is never in the text, always in a file.
    package struct HeaderValue: Hashable, Sendable {
        package var text: String?
        /// Path of a file, or the name of a systemd credential.
        package var file: String?
        /// Text before the secret, such as `Bearer `.
        package var prefix = ""

        package init(text: String? = nil, file: String? = nil, prefix: String = "") {
            self.text = text
            self.file = file
            self.prefix = prefix
        }
    }

    /// A header by which the backend recognises a repeated request.
    package struct Idempotency: Hashable, Sendable {
        package var header = "Idempotency-Key"
        /// Put the key into quotes. The IETF draft writes it as a string of structured fields (RFC 9651); most backends expect it without
        /// quotes.
        package var isQuoted = false
        /// Time that the backend remembers the key, from the first request on.
        package var window: Duration = .seconds(24 * 3600)

        package init(header: String = "Idempotency-Key", isQuoted: Bool = false, window: Duration = .seconds(24 * 3600)) {
            self.header = header
            self.isQuoted = isQuoted
            self.window = window
        }
    }

    /// The header by which this backend recognises repeated requests for an entity; `nil`: it does not.
    package func key(of entity: EntityName) -> Idempotency? {
        switch entities[entity]?.idempotency ?? .asAll {
        case .asAll: idempotency
        case .none: nil
        case .own(let own): own
        }
    }
}

/// Describes the requests for one entity.
package struct RestEntity: Hashable, Sendable {
    package enum OwnIdempotency: Hashable, Sendable {
        case asAll, none
        case own(RestMapping.Idempotency)
    }

    package var create: Write?
    package var update: Write?
    package var delete: Write?
    package var read: Read?
    package var list: List?
    /// Finds a record by the values that it was created with.
    package var lookup: Lookup?
    /// Place in a document that holds the backend's id.
    package var id = JSONPath.plainID
    /// The backend's field for our own id of the record. It is sent with a create; it finds records whose answer was lost.
    package var clientID: String?
    /// The backend's names of fields by ours; a field that is not listed has the same name on both sides.
    package var fields: [String: String] = [:]
    /// Our names of fields that only the backend writes.
    package var readOnly: Set<String> = []
    package var idempotency = OwnIdempotency.asAll

    package init() {}

    package struct Write: Hashable, Sendable {
        package enum Body: String, Hashable, Sendable, CaseIterable {
            /// All fields of the record.
            case document
            /// The changed fields; a removed field is `null` (RFC 7396).
            case changed
            case none
        }

        package var method: HTTPRequest.Method
        package var path: PathTemplate
        package var body: Body
        package var contentType = "application/json"
        /// Statuses that mean success.
        package var ok: [Int]
        /// For a create, the place in the answer that holds the record's id. `nil`: the backend uses our id.
        package var id: AnswerSource?
        /// Place in the answer that holds the record's new version.
        package var version: AnswerSource?
        /// Place in the answer that holds the record; `nil`: it has none, and the new record is computed.
        package var document: JSONPath?
        /// Sent only if the record has not changed meanwhile.
        package var ifMatch = false

        package init(method: HTTPRequest.Method, path: PathTemplate, body: Body, ok: [Int]) {
            self.method = method
            self.path = path
            self.body = body
            self.ok = ok
        }

        /// `true` when repeating the request has the same effect as sending it once (RFC 9110, section 9.2.2).
        package var isIdempotent: Bool { method == .put || method == .delete }
    }

    package struct Read: Hashable, Sendable {
        package var path: PathTemplate
        package var version: AnswerSource?
        package var document = JSONPath.whole

        package init(path: PathTemplate) { self.path = path }
    }

    package struct Lookup: Hashable, Sendable {
        package var path: PathTemplate
        /// Place in the answer that holds the found records: a list, or one document.
        package var items = JSONPath.whole

        package init(path: PathTemplate) { self.path = path }
    }

    package struct List: Hashable, Sendable {
        package var path: PathTemplate
        package var items: JSONPath
        /// Place of the address of the next page, or of the value for `{next}`. `nil`: there is one page.
        package var next: AnswerSource?
        /// Place of the time of change in an item, of which the highest is the cursor. `nil`: everything is listed every time.
        package var cursorFrom: JSONPath?
        /// Period that is read again, because changes become visible later than their stamp (PROTOCOL A3).
        package var overlap: Duration = .seconds(300)
        /// Place in an item that marks a deleted record by any value except `null`, `false` and a missing one.
        package var deleted: JSONPath?
        /// Place in an item that holds its version.
        package var version: JSONPath?
        /// Number of records that are requested in a page.
        package var limit = 100

        package init(path: PathTemplate, items: JSONPath) {
            self.path = path
            self.items = items
        }
    }

    /// `true` when the backend uses our ids for records.
    package var isClientNamed: Bool { create?.id == nil }
}
