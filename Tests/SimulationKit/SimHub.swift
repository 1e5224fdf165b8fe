import HubServer
import StorageKit
import SyncCore
import VersionsKit

/// The real hub over a database in memory, with an observer that reads it through its own interface.
final class SimHub {
    private(set) var hub: Hub
    private var settings: Hub.Settings
    private let extras: Entities.Extras
    private var seeds: SeededRandom
    /// The process runs.
    var isUp = true
    /// Number of databases so far. Requests to an earlier one are lost.
    var generation = 0
    private let observerToken: String
    /// The records as the observer knows them.
    private(set) var records: [RecordName: (version: Int64, data: JSONObject)] = [:]
    private var cursors: [EntityName: String] = [:]
    /// The newest commit that the hub has announced, and the newest one that the observer has read.
    private var head: Int64 = 0
    private var seenHead: Int64?
    /// The newest commit before the last request.
    private(set) var headBefore: Int64 = 0
    let tokens: [String]
    /// Versions of records that agents see, if these are counters of each record; `nil` for the hub's commit numbers.
    var versions: RecordVersions?
    /// The mark beside the database. It is at most a second behind the database and never ahead.
    var mark: HubMark?
    private var markedAt: Timestamp?
    /// The epoch that the checks know.
    var epochSeen = ""
    /// Begin of the present history by a restore; `nil` if it is the first one of the database.
    var historyBegan: Instant?
    private let writesMarkAtOnce: Bool
    private var causes: [HubLineage.Cause] = []
    /// Storage for files; `nil` if the hub takes none.
    private let files: MemoryBlobs?

    /// - Parameter earlier: The hub of another history, whose database is used again; `nil`: a database is made.
    init(_ scenario: Scenario, _ ablations: Ablations, random: inout SeededRandom, over earlier: Hub?) throws(HubError) {
        var book = TokenBook()
        var tokens: [String] = []
        let birth = Timestamp(milliseconds: Simulation.epochMilliseconds)
        for index in 0..<scenario.agents {
            tokens.append(book.add(DeviceID(trusted: "agent-\(index)"), at: birth, using: &random))
        }
        self.tokens = tokens
        observerToken = book.add(DeviceID(trusted: "observer"), at: birth, using: &random)
        extras = scenario.extras
        settings = Hub.Settings(rules: Entities.rules(ofHub: true, extras), tokens: book)
        if extras.sharesOut { settings.access = Shares.access }
        if scenario.usesGroups { settings.access.groups = Shares.groupsAtFirst.mapValues { Shares.grants(of: $0) } }
        if extras.changesSchemas { settings.readEntities = SchemaOffice(scenario).reader }
        settings.limits = HelloResponse.Announced(pushMutations: scenario.batch, pullRecords: scenario.page)
        settings.ablations = ablations
        files = scenario.hasFiles ? MemoryBlobs() : nil
        settings.uploads = files.map { HubUploads($0) }
        settings.offerTime = Simulation.offerTime
        writesMarkAtOnce = scenario.toward == .markIgnored
        if scenario.countsByRecord { versions = RecordVersions() }
        seeds = SeededRandom(seed: random.next())
        let first = SeededRandom(seed: seeds.next())
        if let earlier {
            hub = try Hub(emptying: earlier, settings: settings, random: first)
        } else {
            hub = try Hub(.memory, settings: settings, random: first)
        }
        epochSeen = hub.epoch
        listen()
    }

    private func listen() {
        hub.onNotice = { [unowned self] notice in
            if case .newHistory(let cause, _, _, _, _) = notice { causes.append(cause) }
        }
    }

    /// Changes the settings of this process of the hub and of all later ones.
    func change(_ body: (inout Hub.Settings) -> Void) {
        body(&settings)
        body(&hub.settings)
    }

    func takeCauses() -> [HubLineage.Cause] {
        defer { causes = [] }
        return causes
    }

    /// - Parameter request: A request with the hub's versions. The answer has them, too.
    func handle(_ request: HTTPRequest, at now: Timestamp) -> HTTPResponse {
        headBefore = hub.head
        let response = answer(to: request, at: now)
        head = max(head, response.headers[HubHeader.head].flatMap { Int64($0) } ?? 0)
        if writesMarkAtOnce || markedAt.map({ $0.advanced(by: .seconds(1)) <= now }) ?? true { (mark, markedAt) = (hub.mark, now) }
        return response
    }

    /// Handles a request about a file, which names no version.
    ///
    /// - Parameter diesFirst: Ends the process before the commit, so the bytes may be on the disk without a row in the database.
    func handleFile(_ request: HTTPRequest, at now: Timestamp, diesFirst: Bool = false) -> HTTPResponse {
        #if ABLATIONS
            if diesFirst { hub.beforeCommit = { false } }
            defer { hub.beforeCommit = nil }
        #endif
        let response = answer(to: request, at: now)
        head = max(head, hub.head)
        return response
    }

    private func answer(to request: HTTPRequest, at now: Timestamp) -> HTTPResponse {
        var body: [UInt8] = []
        if case .bytes(let bytes) = request.body { body = bytes }
        let target = request.url.dropFirst(Simulation.hubURL.utf8.count)
        let response = hub.handle(
            HubRequest(request.method.rawValue, String(target), headers: request.headers, body: body), at: now)
        return HTTPResponse(status: response.status, headers: response.headers, body: response.body)
    }

    // MARK: Versions

    /// An agent's request, with the hub's versions.
    func received(_ request: HTTPRequest) -> HTTPRequest { versions?.atHub(request) ?? request }

    /// The hub's answer, with the versions that agents see.
    func shown(_ response: HTTPResponse, to request: HTTPRequest, at now: Timestamp) -> HTTPResponse {
        versions?.onWire(response, to: request) { answer(to: $0, at: now) } ?? response
    }

    /// The version of a record as agents see it; `nil` if none was sent.
    func shown(_ version: Int64, of name: RecordName) -> Int64? {
        guard let versions else { return version }
        return versions.onWire(version, of: name)
    }

    /// Gives each record's present version its number, as a database that counts versions by record has one whether a device was told of it
    /// or not. Otherwise a restored copy would give out the number once more.
    func countVersions(at now: Timestamp) throws(Broken) {
        guard versions != nil else { return }
        try observe(at: now)
        for (name, record) in records { versions?.count(record.version, of: name) }
    }

    /// The commit number of a version that agents see; -1 if no such version was sent.
    func commit(_ version: Int64, of name: RecordName) -> Int64 { versions?.atHub(version, of: name) ?? version }

    var epoch: String { hub.epoch }
    /// The epoch in which the database is an older copy that goes on in the history of the newer one.
    var rolledBackIn: String?
    var isUnnoticed: Bool { rolledBackIn == hub.epoch }

    /// Ends the process and opens the same database with another one.
    func restart() throws(HubError) {
        forgetWriters()
        hub = try Hub(over: hub, settings: settings, random: drawn())
        listen()
    }

    /// An operator replaces the database by a backup.
    func restore(_ copy: [UInt8], startingEpoch: Bool) throws(HubError) {
        forgetWriters()
        hub = try Hub(over: hub, restoring: copy, settings: settings, random: drawn())
        if versions != nil { versions = RecordVersions() }
        if startingEpoch { try hub.startEpoch() }
        listen()
        forgetObserved()
    }

    /// The random generator of a process whose database has rows. The draws for a new database are skipped, so that a seed keeps its
    /// history.
    private func drawn() -> SeededRandom {
        var random = SeededRandom(seed: seeds.next())
        // The secret takes four numbers, and the name of the history one.
        for _ in 0..<5 { _ = random.next() }
        return random
    }

    /// Replaces the database by an empty one.
    func replace() throws(HubError) {
        forgetWriters()
        hub = try Hub(.memory, settings: settings, random: SeededRandom(seed: seeds.next()))
        if versions != nil { versions = RecordVersions() }
        listen()
    }

    /// Makes a new process know only the uploads that its database and its disk have.
    private func forgetWriters() { settings.uploads = files.map { HubUploads($0) } }

    /// Makes the observer read everything again.
    func forgetObserved() {
        (records, cursors) = ([:], [:])
        (head, seenHead) = (hub.head, nil)
    }

    /// A back office changes a record, and keeps the fields that devices count and append.
    ///
    /// - Returns: The new document and its version.
    @discardableResult
    func publish(_ name: RecordName, _ changes: JSONObject?, at now: Timestamp) throws(HubError) -> (JSONObject?, Int64) {
        guard let changes else {
            head = try hub.publish(name, nil, at: now)
            return (nil, head)
        }
        var document = records[name]?.data ?? [:]
        for member in changes.members { document[member.name.text] = member.value }
        head = try hub.publish(name, document, at: now)
        return (document, head)
    }

    // MARK: Watching

    /// The present versions of the schemas, in which the observer reads.
    var schemas: SchemaNumbers { SchemaNumbers(hub.settings.rules) }

    /// The hub's answer to a change of a record that never existed.
    func answerAboutNothing(at now: Timestamp) throws(Broken) -> Problem? {
        let mutation: JSONObject = [
            "seq": 1, "idempotency_key": "nothing", "entity": .string(Shares.orders.text), "record_id": "nothing", "action": "update",
            "data": ["s": "nothing"], "base_version": 0,
            "hlc": .string(HybridTime(milliseconds: UInt64(clamping: now.milliseconds), counter: 0, node: "0000000a").description),
        ]
        let body: JSONObject = ["acked_seq": 0, "max_sent_seq": 1, "mutations": .array([.object(mutation)])]
        let response = hub.handle(
            HubRequest(
                "POST", "/v1/sync/push",
                headers: [
                    "Authorization": "Bearer \(observerToken)", "Sync-Version": "1", "Sync-Device": "observer", "Sync-Replica": "r-0",
                    "Content-Type": "application/json",
                ], body: JSON.object(body).bytes), at: now)
        let results = try Broken.none { try PushMessages.readResponse(response.body).results }
        guard case .rejected(let problem, _)? = results.first?.verdict else { return nil }
        return problem
    }

    /// Brings the observer's copy up to date.
    func observe(at now: Timestamp) throws(Broken) {
        while seenHead != head {
            let streams = Entities.mirrored(extras).map { StreamPosition(entity: $0, cursor: cursors[$0]) }
            let request = PullRequest(streams: streams, limit: 1_000, maxBytes: Limits.pullBytes, maxSentSeq: 0)
            var headers: HTTPHeaders = [
                "Authorization": "Bearer \(observerToken)", "Sync-Version": "1", "Sync-Device": "observer",
                "Content-Type": "application/json",
            ]
            headers[HubHeader.schema] = schemas.text
            headers[HubHeader.can] = AgentAbility.text(AgentAbility.all)
            let response = hub.handle(
                HubRequest("POST", "/v1/sync/pull", headers: headers, body: PullMessages.request(request)), at: now)
            let pull: PullResponse
            do throws(ReplyError) {
                pull = try PullMessages.readResponse(response.body)
            } catch {
                throw Broken("answers are as agreed", "\(error)")
            }
            if let error = pull.errors.first {
                throw Broken("the observer is never behind", "\(error.entity): \(error.problem.code)")
            }
            for page in pull.pages { take(page) }
            if !pull.pages.contains(where: \.hasMore) { seenHead = max(head, pull.head) }
            head = max(head, pull.head)
        }
    }

    private func take(_ page: StreamPage) {
        for item in page.records {
            records[RecordName(page.entity, item.id)] = (item.record.version, item.record.data)
        }
        for item in page.deletions { records[RecordName(page.entity, item.id)] = nil }
        cursors[page.entity] = page.cursor
    }
}
