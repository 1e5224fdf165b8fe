import HubServer
import SyncCore

/// A hub with the records of a victim, whose every name and value begins with a canary, and an attacker with a token of its own.
///
/// Two stands are made alike, byte for byte: the times and the seeds are the same. So the answers of two stands differ only by the
/// requests.
final class AttackerStand {
    /// Stands in every id, value, field, key and file of the victim.
    static let canary = "canary"
    private static let victim = DeviceID(trusted: "canary-gw")
    private static let orders = ScopeBench.orders
    private static let now = Timestamp(milliseconds: 1_795_208_400_000)

    let hub: Hub
    let log = WorkLog()
    private let storage: any StoragePlace
    private let token: String
    private let victimToken: String
    private var sent: Int64 = 0
    /// The records of the victim.
    private(set) var theirs = Subject(word: AttackerStand.canary)
    /// Names of the same form and length that never were.
    private(set) var nobodys = Subject(word: "absent")
    /// The attacker's cursor of now, and the one of before it lost a scope.
    private(set) var cursor = ""
    private(set) var olderCursor = ""
    private(set) var receipt = ""

    /// The subject of a request.
    struct Subject: Sendable {
        let record: String, event: String, key: String, site: String, group: String
        var digest = "", upload = "", cursor = "", start = "", receipt = ""

        init(word: String) {
            record = word + "-record-1"
            event = word + "-event-1"
            key = word + "-key-1"
            site = word + "-site"
            group = word + "-group"
        }

        /// All names, the longest first.
        var names: [String] {
            [record, event, key, site, group, digest, upload, cursor, start, receipt].filter { !$0.isEmpty }
                .sorted { $0.utf8.count > $1.utf8.count }
        }
    }

    init() throws {
        var book = TokenBook()
        var random = SeededRandom(seed: 5)
        token = book.add(.one, at: Timestamp(milliseconds: 0), using: &random)
        victimToken = book.add(Self.victim, at: Timestamp(milliseconds: 0), using: &random)
        var rules = ScopeBench.rules
        rules.entities["work_orders"]?.fields = ["decision": .manual]
        rules.entities["work_orders"]?.refs = ["parent": Self.orders]
        var settings = Hub.Settings(rules: rules, tokens: book)
        settings.access.devices[.one] = Self.grants(["own-site", "lost-site"])
        settings.access.devices[Self.victim] = Self.grants(["canary-site", "lost-site"])
        storage = try StorageKind.folder.make()
        settings.uploads = HubUploads(try storage.storage())
        settings.keepsTokens = Engine.current == .postgres
        hub = try Hub(
            .shared(CountedPlace(inner: try Engine.current.newPlace().database, log: log)), settings: settings,
            random: SeededRandom(seed: 1))
        if settings.keepsTokens { try hub.changeTokens { $0 = book } }
        try fill()
    }

    private static func grants(_ sites: [String]) -> Grants {
        var grants = Grants()
        grants.scopes = ["site": sites]
        return grants
    }

    // MARK: Records of the victim

    private func fill() throws {
        try victimWrites()
        try publish("own-1", ["site": "own-site", "decision": "a"])
        try publish("lost-1", ["site": "lost-site"])
        try publish("moved-1", ["site": "own-site"])
        olderCursor = try pulled(token).cursor
        // From here on the attacker has nothing more of these.
        hub.settings.access.devices[.one] = Self.grants(["own-site"])
        try publish("lost-1", ["site": "lost-site", "canary_lost": "canary-lost"])
        try publish("canary-late-1", ["site": "lost-site"])
        try publish("moved-1", ["site": "canary-site", "canary_moved": "canary-moved"])
        try uploads()
        // A record of the victim shows its file.
        try publish("canary-photo-1", ["site": "canary-site", "photo": ["$blob": .string("sha256:" + theirs.digest), "size": 14]])
        let theirs = try pulled(victimToken)
        (self.theirs.cursor, self.theirs.receipt) = (theirs.cursor, theirs.receipt)
        let listing = send("GET", "/v1/sync/snapshot?entity=work_orders&limit=1", as: victimToken)
        self.theirs.start = try SnapshotMessages.readResponse(listing.body).startCursor
        nobodys.cursor = Self.altered(self.theirs.cursor)
        nobodys.start = Self.altered(self.theirs.start)
        nobodys.receipt = Self.altered(self.theirs.receipt)
        let own = try pulled(token, from: olderCursor)
        (cursor, receipt) = (own.cursor, own.receipt)
        _ = log.take()
    }

    private func victimWrites() throws {
        let values: JSON = [
            "site": "canary-site", "canary_field": "canary-value", "decision": "canary-a", "note": "canary-note",
        ]
        let place: JSON = ["site": "canary-site"]
        let sent = [
            Sent("canary-key-1", seq: 1, .create, "work_orders", id: "canary-record-1", data: values).with("author", "canary-author"),
            Sent("canary-key-2", seq: 2, .create, "work_orders", id: "canary-record-2", data: place),
            Sent("canary-key-3", seq: 3, .delete, "work_orders", id: "canary-record-2", base: 2),
            Sent("canary-key-4", seq: 4, .create, "readings", id: "canary-event-1", data: ["device": "canary-gw", "canary_field": 1]),
            Sent(
                "canary-key-5", seq: 5, .create, "work_orders", id: "canary-record-3", data: place, group: "canary-group"),
            Sent(
                "canary-key-6", seq: 6, .create, "work_orders", id: "canary-record-4", data: place, group: "canary-group"),
        ]
        let body: JSON = ["acked_seq": 0, "mutations": .array(sent.map { .object($0.json) })]
        let pushed = send("POST", "/v1/sync/push", body: body.bytes, as: victimToken)
        for result in try PushMessages.readResponse(pushed.body).results {
            guard case .accepted = result.verdict else { throw HubBench.Unexpected(pushed) }
        }
        let hello: JSON = ["agent": "canary-agent", "platform": "canary-platform"]
        let answers = [
            send("POST", "/v1/sync/hello", body: hello.bytes, as: victimToken),
            send("POST", "/v1/diagnostics", body: Array("{\"canary\":\"canary-line\"}\n".utf8), as: victimToken),
        ]
        for answer in answers where answer.status >= 300 { throw HubBench.Unexpected(answer) }
    }

    /// One file of the victim that is whole, and one that is not.
    private func uploads() throws {
        let content = Array("canary-content".utf8)
        theirs.digest = BlobDigest(bytes: SHA256.hash(content))?.hex ?? ""
        nobodys.digest = BlobDigest(bytes: SHA256.hash(Array("absent-content".utf8)))?.hex ?? ""
        for isWhole in [true, false] {
            let metadata = Tus.metadata([("filename", "canary.jpg"), ("filetype", "image/canary"), ("sha256", theirs.digest)])
            let made = send(
                "POST", "/v1/files", headers: [(Tus.resumable, "1.0.0"), (Tus.length, "\(content.count)"), (Tus.metadata, metadata)],
                as: victimToken)
            guard let place = made.headers["Location"] else { throw HubBench.Unexpected(made) }
            guard isWhole else {
                theirs.upload = String(place.dropFirst("/v1/files/".utf8.count))
                nobodys.upload = String(theirs.upload.reversed())
                continue
            }
            let patched = send(
                "PATCH", place, headers: [(Tus.resumable, "1.0.0"), ("Content-Type", Tus.contentType), (Tus.offset, "0")], body: content,
                as: victimToken)
            guard patched.status == 204 else { throw HubBench.Unexpected(patched) }
        }
    }

    private func publish(_ id: String, _ data: JSONObject) throws {
        try hub.publish(RecordName(Self.orders, RecordID(trusted: id)), data, at: Self.now)
    }

    private func pulled(_ token: String, from cursor: String? = nil) throws -> (cursor: String, receipt: String) {
        var cursor = cursor
        var receipt = ""
        for _ in 0..<20 {
            let body: JSON = ["streams": [["entity": "work_orders", "cursor": cursor.map { .string($0) } ?? .null]], "limit": 500]
            let answer = send("POST", "/v1/sync/pull", body: body.bytes, as: token)
            receipt = answer.headers[HubHeader.receipt] ?? receipt
            guard let page = try PullMessages.readResponse(answer.body).pages.first else { break }
            cursor = page.cursor
            if !page.hasMore { break }
        }
        return (cursor ?? "", receipt)
    }

    /// A signed text with another last letter.
    private static func altered(_ text: String) -> String { String(text.dropLast()) + (text.hasSuffix("A") ? "B" : "A") }

    // MARK: Requests

    func send(
        _ method: String, _ target: String, headers extra: [(String, String)] = [], body: [UInt8] = [], as token: String? = nil
    ) -> HubResponse {
        var headers: HTTPHeaders = [:]
        let shown = token ?? self.token
        HubRequestHeaders(device: nil, replica: shown == victimToken ? "canary-r" : "r-1").write(to: &headers)
        headers["Authorization"] = "Bearer \(shown)"
        for (name, value) in extra { headers[name] = value }
        return hub.handle(HubRequest(method, target, headers: headers, body: body), at: Self.now)
    }

    /// One request of the attacker.
    struct Asked: Sendable {
        var what: String
        var method: String
        var target: String
        var headers: [(String, String)] = []
        var body: [UInt8] = []
    }

    func answer(_ asked: Asked) -> HubResponse { send(asked.method, asked.target, headers: asked.headers, body: asked.body) }

    /// A push of the attacker: the mutations get the next numbers.
    func push(_ what: String, _ mutations: [Sent]) -> Asked {
        var numbered: [JSON] = []
        for mutation in mutations {
            sent += 1
            numbered.append(.object(mutation.with("seq", .int(sent)).json))
        }
        let body: JSON = ["acked_seq": 0, "max_sent_seq": .int(sent), "mutations": .array(numbered)]
        return Asked(what: what, method: "POST", target: "/v1/sync/push", body: body.bytes)
    }

    func post(_ what: String, _ path: String, _ body: JSON, _ headers: [(String, String)] = []) -> Asked {
        Asked(what: what, method: "POST", target: path, headers: headers, body: body.bytes)
    }

    func key() -> String {
        keys += 1
        return "k-\(keys)"
    }

    private var keys = 0
}
