package import SyncCore

/// Checks all demands of section A of the protocol on a server, and records the results.
///
/// It acts as one device with a database of its own, and as a second one where two are needed. It touches no data of others: every record,
/// key and replica has a name of this run. It deletes its records in the end; keys, tombstones and one small file stay, because the
/// protocol cannot remove them. The agent's own readers read the answers, so an agent can use a server that passes. It judges no timing, so
/// a slow server passes like a quick one.
package actor ConformanceRun {
    package struct Settings: Sendable {
        /// Without a slash at the end.
        package var baseURL: String
        /// `nil`: the server requires none, or a certificate replaces it.
        package var token: String?
        /// `nil`: the device of the token.
        package var device: DeviceID?
        package var tls: TLSIdentity?
        /// A second device, for demands that need two; `nil`: those are not tried.
        package var other: Other?
        /// An entity whose records both devices may write, with any content.
        package var entity: EntityName
        /// Needs of the checks of scopes beside the second device; `nil`: they are not made.
        package var scopes: Scopes?
        /// Makes the names of this run unique.
        package var seed: UInt64
        /// Receives each result as it comes.
        package var progress: (@Sendable (ConformanceResult) -> Void)?

        package struct Other: Sendable {
            /// `nil`: the server requires none.
            package var token: String?
            /// `nil`: the device of the token.
            package var device: DeviceID?

            package init(token: String?, device: DeviceID?) {
                self.token = token
                self.device = device
            }
        }

        /// A server that shares records out among devices (PROTOCOL A16), and is prepared for this run.
        package struct Scopes: Sendable {
            /// An entity with `scope: [site]`, whose field `price` only the role `office` may change.
            package var orders: EntityName
            /// An entity whose records grant the value of their field `site` to the device in their field `device`.
            package var grants: EntityName
            /// A third device. It has the role `office`, and alone may write ``grants``.
            package var office: Other

            package init(orders: EntityName, grants: EntityName, office: Other) {
                self.orders = orders
                self.grants = grants
                self.office = office
            }
        }

        package init(baseURL: String, token: String?, entity: EntityName, seed: UInt64) {
            self.baseURL = baseURL
            self.token = token
            self.entity = entity
            self.seed = seed
        }
    }

    let settings: Settings
    private let transport: any HTTPTransport
    let compressor: any Compressor
    private let time: any TimeSource
    var random: SeededRandom
    /// Prefix of every name of this run.
    let prefix: String
    let replica: ReplicaID
    var results: [ConformanceResult] = []
    var left: [String] = []

    // The server's greeting; `nil` before it, or when it failed.
    var hello: HelloResponse?
    /// Cursor of the entity's feed before this run.
    var began: String?
    var lastSeq: Int64 = 0
    private var lastName = 0
    /// Records that exist as far as this run knows, with their versions.
    var records: [RecordID: Int64] = [:]
    /// The server lets changes of records without a trace wait, as one does that has begun a new history (PROTOCOL A6).
    var letsUnknownWait = false
    /// Records and grants that the checks of scopes have made.
    var stage: ScopeStage

    init(_ settings: Settings, transport: any HTTPTransport, compressor: any Compressor, time: any TimeSource) {
        self.settings = settings
        self.transport = transport
        self.compressor = compressor
        self.time = time
        var random = SeededRandom(seed: settings.seed)
        prefix = "conf-" + String(random.next() >> 16, radix: 36)
        replica = ReplicaID(trusted: prefix)
        stage = ScopeStage(prefix: prefix)
        self.random = random
    }

    package static func run(
        _ settings: Settings, transport: any HTTPTransport, compressor: any Compressor, time: any TimeSource
    ) async -> ConformanceReport {
        let run = ConformanceRun(settings, transport: transport, compressor: compressor, time: time)
        await run.checkBasics()
        // A server that is no hub at all would only fail each further check for the same reason.
        if await run.hello != nil {
            await run.checkPush()
            await run.checkRules()
            await run.checkPushRefusals()
            await run.checkPull()
            await run.checkListing()
            await run.checkFiles()
            await run.checkScopes()
            await run.cleanUp()
        }
        return await ConformanceReport(server: settings.baseURL, results: run.results, notes: run.notes, left: run.left)
    }

    private var notes: [String] {
        guard letsUnknownWait else { return [] }
        return [
            "The server lets changes of records that it does not have wait (retry: dependency-missing), as it should for some days after "
                + "the beginning of a new history (A6). The checks allowed for that, so they did not see how it answers such changes "
                + "otherwise. Check it again when that time is over; with agenthub it is 7 days."
        ]
    }

    // MARK: Checks

    /// The observation deviates from the demand.
    struct Deviation: Error {
        var seen: String

        init(_ seen: String) { self.seen = seen }
    }

    struct NotOffered: Error {
        var why: String

        init(_ why: String) { self.why = why }
    }

    struct NotTried: Error {
        var why: String

        init(_ why: String) { self.why = why }
    }

    /// - Parameter body: Returns the observation, or throws the reason of a failure.
    func check(_ name: String, _ section: String, _ demand: String, _ body: () async throws -> String) async {
        var result = ConformanceResult(name: name, section: section, demand: demand, outcome: .passed, seen: "")
        do {
            result.seen = try await body()
        } catch let deviation as Deviation {
            (result.outcome, result.seen) = (.failed, deviation.seen)
        } catch let missing as NotOffered {
            (result.outcome, result.seen) = (.notOffered, missing.why)
        } catch let missing as NotTried {
            (result.outcome, result.seen) = (.notTried, missing.why)
        } catch {
            // An error of the transport or of a reader: no answer, or one that an agent refuses.
            (result.outcome, result.seen) = (.failed, Printable.text("\(error)", max: 300))
        }
        results.append(result)
        settings.progress?(result)
    }

    func require(_ isSo: Bool, _ seen: @autoclosure () -> String) throws {
        if !isSo { throw Deviation(seen()) }
    }

    func offered(_ capability: String) throws {
        guard hello?.capabilities.contains(capability) == true else {
            throw NotOffered("hello has no capability \"\(capability)\"")
        }
    }

    // MARK: Requests

    /// Sends a request as an agent does.
    ///
    /// - Parameter changed: Header fields that differ from the usual ones; `nil` leaves one out.
    func send(
        _ method: HTTPRequest.Method, _ target: String, _ body: [UInt8]? = nil, changed: [(String, String?)] = [],
        from device: DeviceID? = nil
    ) async throws -> HTTPResponse {
        var headers: HTTPHeaders = [:]
        HubRequestHeaders(device: device ?? settings.device ?? hello?.device, replica: replica).write(to: &headers)
        headers["Accept"] = "application/json"
        headers["User-Agent"] = "agenthub-conformance"
        if body != nil { headers["Content-Type"] = "application/json" }
        if let token = settings.token { headers["Authorization"] = "Bearer \(token)" }
        for (name, value) in changed { headers[name] = value }
        return try await transport.send(
            HTTPRequest(
                method, settings.baseURL + target, headers: headers, body: body.map { .bytes($0) } ?? .none, tls: settings.tls,
                maxResponseBytes: Limits.hubResponseBytes))
    }

    func post(_ path: String, _ json: JSON, changed: [(String, String?)] = []) async throws -> HTTPResponse {
        try await send(.post, path, json.bytes, changed: changed)
    }

    /// The body of an answer that an agent accepts as the hub's.
    func body(_ response: HTTPResponse) throws -> [UInt8] {
        switch HubReply.read(response, now: time.now().wall) {
        case .answered(_, let body): return body
        case .refused(let refusal): throw Deviation(refusal.detail + said(response))
        }
    }

    func headers(_ response: HTTPResponse) -> HubHeaders { HubHeaders(reading: response.headers, now: time.now().wall) }

    /// Checks a refusal against its demand, including its form (RFC 9457, PROTOCOL A5).
    @discardableResult
    func refusal(_ response: HTTPResponse, _ status: Int, _ code: String) throws -> Problem {
        let expected = "\(status) with the problem \"\(code)\""
        try require(response.status == status, "\(response.status)\(said(response)), not \(expected)")
        let type = response.headers["Content-Type"] ?? "none"
        try require(
            type.hasPrefix("application/problem+json"),
            "\(status) with Content-Type \(Printable.text(type, max: 60)), not application/problem+json")
        try require(response.headers[HubHeader.version] != nil, "\(status) without Sync-Version")
        // An unreadable body is a finding, and thrown as one.
        guard let object = (try? JSONReader.read(response.body))?.object else {
            throw Deviation("\(status) with a body that is no JSON object")
        }
        let problem = Problem(.object(object))
        try require(
            object["type"]?.text == Problem.hubPrefix + code,
            "type \(object["type"]?.json ?? "missing"), not \"\(Problem.hubPrefix)\(code)\"")
        try require(
            object["status"]?.int == Int64(status), "the member status is \(object["status"]?.json ?? "missing") in an answer \(status)")
        try require(object["title"]?.text?.isEmpty == false, "the problem has no title")
        return problem
    }

    /// The beginning of a body, for people.
    func said(_ response: HTTPResponse) -> String {
        response.body.isEmpty ? "" : ": " + Printable.text(String(decoding: response.body.prefix(400), as: UTF8.self), max: 160)
    }

    // MARK: Names

    func newName() -> String {
        lastName += 1
        return "\(prefix)-\(lastName)"
    }

    func newRecord() -> RecordID { RecordID(trusted: newName()) }

    nonisolated func isOurs(_ id: RecordID) -> Bool { id.text.hasPrefix(prefix + "-") }

    /// A mutation as an agent sends it.
    func mutation(
        _ action: MutationAction, _ id: RecordID, _ data: JSON? = nil, base: Int64 = 0, key: String? = nil, dependsOn: [String] = [],
        group: String? = nil, ahead: Duration = .zero, of entity: EntityName? = nil
    ) -> JSONObject {
        lastSeq += 1
        let now = time.now().wall
        let stamp = HybridTime(
            milliseconds: UInt64(clamping: now.advanced(by: ahead).milliseconds), counter: UInt16(clamping: lastSeq & 0xFFFF),
            node: "c04f0a11")
        var object: JSONObject = [
            "seq": .int(lastSeq), "idempotency_key": .string(key ?? newName()), "entity": .string((entity ?? settings.entity).text),
            "record_id": .string(id.text), "action": .string(action.rawValue), "base_version": .int(base),
            "hlc": .string(stamp.description), "client_updated_at": .string(now.description),
        ]
        if let data { object["data"] = data }
        if !dependsOn.isEmpty { object["depends_on"] = .list(dependsOn) }
        if let group { object["group"] = .string(group) }
        return object
    }

    func pushBody(_ mutations: [JSONObject], extra: JSONObject = [:]) -> JSON {
        var object: JSONObject = ["acked_seq": 0, "max_sent_seq": .int(lastSeq)]
        for member in extra.members { object[member.name.text] = member.value }
        object["mutations"] = .array(mutations.map { .object($0) })
        return .object(object)
    }

    /// Pushes, and reads the verdicts as an agent does: one for each mutation, in their order.
    func verdicts(_ mutations: [JSONObject], extra: JSONObject = [:], changed: [(String, String?)] = []) async throws -> [PushResult] {
        let response = try await post("/v1/sync/push", pushBody(mutations, extra: extra), changed: changed)
        let results = try PushMessages.readResponse(try body(response)).results
        let keys = mutations.compactMap { $0["idempotency_key"]?.text }
        try require(
            results.map(\.key.text) == keys,
            "verdicts for \(results.map(\.key.text).joined(separator: ", ")), not for \(keys.joined(separator: ", "))")
        for (mutation, result) in zip(mutations, results) { recordVersion(after: mutation, result.verdict) }
        return results
    }

    func verdict(_ mutation: JSONObject) async throws -> PushResult.Verdict { try await verdicts([mutation])[0].verdict }

    /// Pushes one mutation that must be accepted.
    ///
    /// - Returns: Its version.
    @discardableResult
    func accept(_ mutation: JSONObject) async throws -> Int64 {
        let verdict = try await verdict(mutation)
        guard case .accepted(let version, _, _, _) = verdict else { throw Deviation("\(word(verdict)), not accepted") }
        return version
    }

    private func recordVersion(after mutation: JSONObject, _ verdict: PushResult.Verdict) {
        guard case .accepted(let version, _, _, let merged) = verdict, let id = mutation["record_id"]?.text.flatMap({ RecordID($0) }) else {
            return
        }
        let isGone = mutation["action"]?.text == "delete" && !merged.contains(HubMerge.wholeRecord)
        records[id] = isGone ? nil : version
    }

    /// Header fields of the second device.
    func other() throws -> [(String, String?)] {
        guard let other = settings.other else { throw NotTried("no second device was named") }
        return headers(of: other, replica: "-other")
    }

    /// Header fields of another device, with a database of its own.
    func headers(of other: Settings.Other, replica: String) -> [(String, String?)] {
        var changed: [(String, String?)] = [(HubHeader.replica, prefix + replica), (HubHeader.device, other.device?.text)]
        if let token = other.token { changed.append(("Authorization", "Bearer \(token)")) }
        return changed
    }

    /// A verdict for people.
    func word(_ verdict: PushResult.Verdict) -> String {
        switch verdict {
        case .accepted(let version, _, _, _): "accepted as version \(version)"
        case .duplicate(let original, _): "duplicate of one that was \(original.rawValue)"
        case .conflict(let fields, _): "conflict over \(fields.joined(separator: ", "))"
        case .rejected(let problem, _):
            "rejected: \(problem.code)" + (problem.detail.isEmpty ? "" : " (\(Printable.text(problem.detail, max: 100)))")
        case .retry(let problem, _): "retry" + (problem.map { ": \($0.code)" } ?? "")
        }
    }

    /// The document of a record in the listing; `nil`: it does not exist.
    func stored(_ id: RecordID) async throws -> StreamPage.Record? {
        // An id slightly before that of the record.
        var after = RecordID(String(id.text.dropLast()))
        for _ in 0..<100 {
            let response = try await send(
                .get, "/v1/sync/snapshot?" + SnapshotMessages.query(SnapshotRequest(entity: settings.entity, after: after, limit: 1_000)))
            let page = try SnapshotMessages.readResponse(try body(response))
            if let found = page.records.first(where: { $0.id == id }) { return found }
            guard page.hasMore, let next = page.after, next < id else { return nil }
            after = next
        }
        return nil
    }

    // MARK: Afterwards

    private func cleanUp() async {
        await check("cleanup", "A4", "What this run made can be deleted again.") {
            var gone = 0
            while let (id, version) = records.first {
                let verdict = try await verdict(mutation(.delete, id, base: version))
                guard case .accepted = verdict else {
                    left.append("record \(settings.entity)/\(id): its deletion was \(word(verdict))")
                    records[id] = nil
                    throw Deviation("the deletion of \(id) was \(word(verdict))")
                }
                records[id] = nil
                gone += 1
            }
            return PlainText.count(gone, "record") + " deleted"
        }
        for id in records.keys.sorted() { left.append("record \(settings.entity)/\(id)") }
        left.append("tombstones and keys that begin with \(prefix): they stay as long as the server keeps such")
    }
}
