/// How the requests of an existing backend look (PROTOCOL A13): key `rest` of the configuration.
package struct RestMapping: Hashable, Sendable {
    /// The history that everything of such a backend belongs to: it has no name of its own for it.
    package static let epoch = "rest"

    /// `https://api.example.org`, without a slash at the end.
    package var baseURL = ""
    package var headers: [String: HeaderValue] = [:]
    package var idempotency: Idempotency?
    /// A request that was lost may still be under way at the backend. Only this long after it was sent does "it is not there"
    /// mean that it never will be.
    package var verifyAfter: Duration = .seconds(30)
    /// Of 500 to 599: statuses by which this backend says that nothing was done.
    package var notApplied: Set<Int> = []
    /// Answers whether the backend is there; any answer of its own is good.
    package var probe = "/"
    package var entities: [EntityName: RestEntity] = [:]

    package init() {}

    /// A secret is never a value, always a file.
    package struct HeaderValue: Hashable, Sendable {
        package var text: String?
        /// A path, or the name of a systemd credential.
        package var file: String?
        /// Stands before the secret: `Bearer `.
        package var prefix = ""

        package init(text: String? = nil, file: String? = nil, prefix: String = "") {
            self.text = text
            self.file = file
            self.prefix = prefix
        }
    }

    /// A header by which the backend knows a request again.
    package struct Idempotency: Hashable, Sendable {
        package var header = "Idempotency-Key"
        /// The IETF draft writes the key as a string of structured fields (RFC 9651), with quotes; most backends want it bare.
        package var isQuoted = false
        /// How long the backend remembers it, from the first request on.
        package var window: Duration = .seconds(24 * 3600)

        package init(header: String = "Idempotency-Key", isQuoted: Bool = false, window: Duration = .seconds(24 * 3600)) {
            self.header = header
            self.isQuoted = isQuoted
            self.window = window
        }
    }

    /// What this backend remembers requests of an entity by; `nil`: it does not.
    package func key(of entity: EntityName) -> Idempotency? {
        switch entities[entity]?.idempotency ?? .asAll {
        case .asAll: idempotency
        case .none: nil
        case .own(let own): own
        }
    }
}

/// How the requests about one entity look.
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
    /// Finds a record by what it was created with.
    package var lookup: Lookup?
    /// Where a document shows the id that the backend gave.
    package var id = JSONPath.plainID
    /// The backend's field for our own id of the record. Sent with a creation; it finds records again whose answer was lost.
    package var clientID: String?
    /// Our name of a field to the backend's; a field that is not named has the same name on both sides.
    package var fields: [String: String] = [:]
    /// Our names of fields that only the backend writes.
    package var readOnly: Set<String> = []
    package var idempotency = OwnIdempotency.asAll

    package init() {}

    package struct Write: Hashable, Sendable {
        package enum Body: String, Hashable, Sendable, CaseIterable {
            /// All fields of the record.
            case document
            /// Those that changed; a field that was removed is `null` (RFC 7396).
            case changed
            case none
        }

        package var method: HTTPRequest.Method
        package var path: PathTemplate
        package var body: Body
        package var contentType = "application/json"
        /// Statuses that say: done.
        package var ok: [Int]
        /// Only a creation: where the answer says which id the record got. `nil`: the backend takes our id.
        package var id: AnswerSource?
        /// Where the answer says what the record's version is now.
        package var version: AnswerSource?
        /// Where the answer shows the record; `nil`: it does not, and what it is like now is computed.
        package var document: JSONPath?
        /// Sent only if nobody changed the record meanwhile.
        package var ifMatch = false

        package init(method: HTTPRequest.Method, path: PathTemplate, body: Body, ok: [Int]) {
            self.method = method
            self.path = path
            self.body = body
            self.ok = ok
        }

        /// Whether doing it twice is the same as doing it once (RFC 9110, 9.2.2).
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
        /// Where the answer shows what it found: a list, or one document.
        package var items = JSONPath.whole

        package init(path: PathTemplate) { self.path = path }
    }

    package struct List: Hashable, Sendable {
        package var path: PathTemplate
        package var items: JSONPath
        /// Where the next page is: an address, or a mark for the place `{next}`. `nil`: there is one page.
        package var next: AnswerSource?
        /// The highest time of change that a page shows. `nil`: everything is listed every time.
        package var cursorFrom: JSONPath?
        /// So much of what was read before is read again: changes become visible later than they are stamped (PROTOCOL A3).
        package var overlap: Duration = .seconds(300)
        /// Of an item: anything but nothing, `null` and `false` says that the record is deleted.
        package var deleted: JSONPath?
        /// Of an item: its version.
        package var version: JSONPath?
        /// Records in a page that is asked for.
        package var limit = 100

        package init(path: PathTemplate, items: JSONPath) {
            self.path = path
            self.items = items
        }
    }

    /// The backend names records as we do.
    package var isClientNamed: Bool { create?.id == nil }
}
