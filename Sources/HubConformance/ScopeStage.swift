import SyncCore

/// The devices, scopes and records of the checks of scopes (PROTOCOL A16).
///
/// Every scope has a name of this run, so no record of others is in any of them. The office grants them by records, as every server with
/// `grants_from` lets it:
///
///     first      north; later west, for a while
///     second     south
///     office     all of them, and the role `office`
struct ScopeStage: Sendable {
    /// The device of the run, the second device, and the one with the role `office`.
    enum Party: String, CaseIterable, Sendable { case first, second, office }

    let north: String, south: String, west: String
    /// A record in `north`.
    let mine: RecordID
    /// A record in `south`.
    let foreign: RecordID
    /// A record that never was. Its id is as long as that of ``foreign``.
    let missing: RecordID

    /// Becomes `true` when the scopes are granted.
    var isSet = false
    var devices: [Party: DeviceID] = [:]
    var mirrors: [Party: Mirror] = [:]
    /// Records that grant scopes, with their versions.
    var grants: [RecordID: Int64] = [:]
    /// The versions of records by their last accepted change.
    var versions: [RecordID: Int64] = [:]
    /// Key of the change that made ``foreign``.
    var foreignKey: String?

    init(prefix: String) {
        (north, south, west) = (prefix + "-north", prefix + "-south", prefix + "-west")
        mine = RecordID(trusted: prefix + "-mine")
        foreign = RecordID(trusted: prefix + "-foreign")
        missing = RecordID(trusted: prefix + "-missing")
    }

    /// The orders that a device has, as an agent keeps them.
    struct Mirror: Sendable {
        var records: [RecordID: HubRecord] = [:]
        var cursor: String?
    }

    /// The changes that an update of a mirror has brought, as far as they are of this run.
    struct News {
        var came: [RecordID] = []
        var left: [StreamPage.Deletion] = []
        /// The server has sent the device to a listing: `left` is what the listing did not show.
        var isListed = false

        var words: String {
            func names(_ ids: [RecordID]) -> String { ids.isEmpty ? "nothing" : ids.map(\.text).sorted().joined(separator: ", ") }
            return "\(names(came)) came, and \(names(left.map(\.id))) left" + (isListed ? ", by a listing" : "")
        }
    }
}

// MARK: Requests

extension ConformanceRun {
    typealias Party = ScopeStage.Party

    /// Largest number of pages of one share: an endless server must not hang the run.
    private static let pagesMax = 1_000

    func orders() throws -> EntityName {
        guard let scopes = settings.scopes else { throw NotTried("no entity with scopes was named") }
        guard stage.isSet else { throw NotTried("scope-grant failed") }
        return scopes.orders
    }

    func ask(
        _ party: Party, _ method: HTTPRequest.Method, _ target: String, _ body: [UInt8]? = nil, changed: [(String, String?)] = []
    ) async throws -> HTTPResponse {
        try await send(method, target, body, changed: try headers(of: party) + changed)
    }

    private func headers(of party: Party) throws -> [(String, String?)] {
        switch party {
        case .first: return []
        case .second: return try other()
        case .office:
            guard let office = settings.scopes?.office else { throw NotTried("no device with the role office was named") }
            return headers(of: office, replica: "-office")
        }
    }

    func device(_ party: Party) -> String { stage.devices[party]?.text ?? "" }

    /// A change of an order.
    func order(
        _ action: MutationAction, _ id: RecordID, _ data: JSON? = nil, base: Int64? = nil, key: String? = nil, dependsOn: [String] = [],
        group: String? = nil
    ) throws -> JSONObject {
        mutation(
            action, id, data, base: base ?? stage.versions[id] ?? 0, key: key, dependsOn: dependsOn, group: group, of: try orders())
    }

    func push(_ party: Party, _ mutations: [JSONObject]) async throws -> HTTPResponse {
        try await ask(party, .post, "/v1/sync/push", pushBody(mutations).bytes)
    }

    func decided(_ party: Party, _ mutations: [JSONObject]) async throws -> [PushResult.Verdict] {
        let results = try PushMessages.readResponse(try body(try await push(party, mutations))).results
        try require(results.count == mutations.count, "\(results.count) verdicts for \(mutations.count) mutations")
        for (mutation, result) in zip(mutations, results) {
            guard case .accepted(let version, _, _, _) = result.verdict, let id = mutation["record_id"]?.text.flatMap({ RecordID($0) })
            else { continue }
            stage.versions[id] = version
        }
        return results.map(\.verdict)
    }

    func decided(_ party: Party, _ mutation: JSONObject) async throws -> PushResult.Verdict { try await decided(party, [mutation])[0] }

    /// Pushes a change that must be accepted.
    @discardableResult
    func accepted(_ party: Party, _ mutation: JSONObject) async throws -> Int64 {
        let verdict = try await decided(party, mutation)
        guard case .accepted(let version, _, _, _) = verdict else { throw Deviation("\(word(verdict)), not accepted") }
        return version
    }

    /// Pushes a change that must be refused as forbidden, without a word about the record.
    func forbidden(_ party: Party, _ mutation: JSONObject) async throws {
        try requireForbidden(try await decided(party, mutation))
    }

    /// Pushes an update or a deletion of a record that the device does not receive. It must be refused as forbidden, without a word about
    /// the record. Where changes of records without a trace wait, it may wait as well: another answer would tell that the record exists.
    /// The checks whose names end with `alike` compare the two answers.
    ///
    /// - Returns: The answer in a word.
    func withheld(_ party: Party, _ mutation: JSONObject) async throws -> String {
        let verdict = try await decided(party, mutation)
        if letsUnknownWait, waitsForMaker(verdict) { return "waits as a record without a trace does" }
        try requireForbidden(verdict)
        return "forbidden"
    }

    private func requireForbidden(_ verdict: PushResult.Verdict) throws {
        guard case .rejected(let problem, let current) = verdict, problem.code == "forbidden" else {
            throw Deviation("\(word(verdict)), not rejected: forbidden")
        }
        try require(problem.status == 403, "the status in the problem is \(problem.status), not 403")
        try require(!isShown(current), "the answer shows the record")
    }

    func isShown(_ state: HubState?) -> Bool {
        switch state {
        case .record, .deleted: true
        case .absent, nil: false
        }
    }

    // MARK: Shares

    /// All records of this run that a listing shows a device.
    func listed(
        _ party: Party, isSeed: Bool = false, buckets: [UInt8]? = nil
    ) async throws -> (records: [RecordID: HubRecord], first: SnapshotPage, last: SnapshotPage) {
        var records: [RecordID: HubRecord] = [:]
        var first: SnapshotPage?
        var after: RecordID?
        for _ in 0..<Self.pagesMax {
            let request = SnapshotRequest(entity: try orders(), after: after, limit: 500, buckets: buckets, isSeed: isSeed)
            let page = try SnapshotMessages.readResponse(
                try body(try await ask(party, .get, "/v1/sync/snapshot?" + SnapshotMessages.query(request))))
            if first == nil { first = page }
            for item in page.records where isOurs(item.id) { records[item.id] = item.record }
            guard page.hasMore, let next = page.after else { return (records, first ?? page, page) }
            after = next
        }
        throw Deviation("no end after \(Self.pagesMax) pages")
    }

    func pull(_ party: Party, _ cursor: String?, limit: Int = 500) async throws -> PullResponse {
        let request = PullRequest(
            streams: [StreamPosition(entity: try orders(), cursor: cursor)], limit: limit, maxBytes: Limits.pullBytes, maxSentSeq: lastSeq)
        return try PullMessages.readResponse(try body(try await ask(party, .post, "/v1/sync/pull", PullMessages.request(request))))
    }

    /// Brings the mirror of a device up to date, as an agent does: page by page, and by a listing where the server asks for one.
    @discardableResult
    func update(_ party: Party, from cursor: String? = nil, limit: Int = 500) async throws -> ScopeStage.News {
        var mirror = stage.mirrors[party] ?? ScopeStage.Mirror()
        if let cursor { mirror.cursor = cursor }
        var news = ScopeStage.News()
        for _ in 0..<Self.pagesMax {
            let answer = try await pull(party, mirror.cursor, limit: limit)
            if let problem = answer.errors.first?.problem {
                try isChangeOfShare(problem)
                try require(!news.isListed, "the problem \(problem.code) right after a listing")
                let (records, first, _) = try await listed(party)
                news.isListed = true
                news.came += records.filter { mirror.records[$0]?.version != $1.version }.map(\.key)
                news.left += mirror.records.filter { records[$0.key] == nil }.map {
                    StreamPage.Deletion(id: $0, version: $1.version, reason: Problem.revoked)
                }
                mirror = ScopeStage.Mirror(records: records, cursor: first.startCursor)
                continue
            }
            guard let page = answer.pages.first else { break }
            for item in page.records where isOurs(item.id) {
                mirror.records[item.id] = item.record
                news.came.append(item.id)
            }
            for deletion in page.deletions where isOurs(deletion.id) {
                mirror.records[deletion.id] = nil
                news.left.append(deletion)
            }
            try require(!page.hasMore || page.cursor != mirror.cursor, "has_more, and the cursor stays where it was")
            mirror.cursor = page.cursor
            guard page.hasMore else { break }
        }
        stage.mirrors[party] = mirror
        return news
    }

    /// The one problem for a cursor that is the device's own: its scopes have changed, and it must list its share anew.
    func isChangeOfShare(_ problem: Problem) throws {
        try require(problem.code == "scope-changed", "the problem \(problem.code) for a cursor of this device")
        try require(problem.status == 410, "status \(problem.status) of the problem \(problem.code), not 410")
        try require(problem.members["resync"]?.text == "snapshot", "resync is \(problem.members["resync"]?.json ?? "missing")")
    }

    func require(_ news: ScopeStage.News, came: Set<RecordID>, left: Set<RecordID> = []) throws {
        try require(Set(news.came) == came && Set(news.left.map(\.id)) == left, news.words)
    }

    // MARK: Answers that must be alike

    /// An answer without what names record and mutation, and without what every change moves.
    func faceless(_ response: HTTPResponse, _ names: [String]) -> String {
        var text = String(decoding: response.body, as: UTF8.self)
        // `try?`: what is no JSON is compared as it is.
        if var object = (try? JSONReader.read(response.body))?.object, let results = object["results"]?.array {
            object["head"] = nil
            object["results"] = .array(
                results.map { result in
                    guard var result = result.object else { return result }
                    result["version"] = nil
                    return .object(result)
                })
            text = JSON.object(object).json
        }
        // A name may be the beginning of another one.
        for name in names.sorted(by: { $0.utf8.count > $1.utf8.count }) { text = text.replacing(name, with: "NAME") }
        let fields = ["Content-Type", "Retry-After", "Allow"].map { response.headers[$0] ?? "-" }
        let names = response.headers.fields.map { $0.name.lowercased() }.sorted()
        return "\(response.status) \(fields.joined(separator: " ")) \(names.joined(separator: " ")) \(text)"
    }

    func requireAlike(_ theirs: HTTPResponse, _ theirNames: [String], _ nobodys: HTTPResponse, _ names: [String]) throws {
        let (seen, expected) = (faceless(theirs, theirNames), faceless(nobodys, names))
        try require(
            seen == expected,
            "for what is another device's: \(theirs.status)\(said(theirs)); for what never was: \(nobodys.status)\(said(nobodys))")
    }

    /// Pushes the same change of a record of another device and of one that never was, and compares the answers.
    ///
    /// - Parameter mutations: Makes the mutations for a record.
    func requireAlike(_ party: Party, _ mutations: (RecordID) throws -> [JSONObject]) async throws {
        func names(_ pushed: [JSONObject], _ id: RecordID) -> [String] { [id.text] + pushed.compactMap { $0["idempotency_key"]?.text } }
        let (theirs, nobodys) = (try mutations(stage.foreign), try mutations(stage.missing))
        try requireAlike(
            try await push(party, theirs), names(theirs, stage.foreign), try await push(party, nobodys), names(nobodys, stage.missing))
    }
}
