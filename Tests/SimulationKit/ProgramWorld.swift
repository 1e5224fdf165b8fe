import HubServer
package import SyncCore
import SyncStore

/// Runs a ``Program`` on the real stores of two devices and the real hub, without a network and without faults.
package final class ProgramWorld {
    /// The state at the end of a program.
    package struct Outcome: Hashable, Sendable {
        /// Document of the record at the hub; `nil` if it is deleted.
        package var document: JSONObject?
        /// By device: the views of its apps. By device: open disputes, and the codes of refused changes.
        package var views: [JSONObject?]
        package var disputes: [Set<String>]
        package var refusals: [Set<String>]
        package var lost: Set<String>
        /// The hub's document after people have kept their own side of each dispute.
        package var decided: JSONObject?
        /// Readers whose view is not the hub's document, and what a store finds wrong with itself.
        package var faults: [String] = []

        package var text: String {
            "\(PlainValue.text(document)); views \(views.map { PlainValue.text($0) }); disputes \(disputes.map { $0.sorted() }); "
                + "refused \(refusals.map { $0.sorted() }); lost \(lost.sorted()) \(faults)"
                + (disputes.allSatisfy(\.isEmpty) ? "" : "; decided \(PlainValue.text(decided))")
        }
    }

    private static let entity = EntityName(trusted: "forms")
    package static let record = RecordName(entity, RecordID(trusted: "f-1"))
    private static let birth: Int64 = 1_795_208_400_000
    private static let requester = Requester(app: AppName(trusted: "app"), uid: 1_000)

    private let program: Program
    private let way: Way
    private let hub: Hub
    private let databases: [Database]
    private let options: [StoreOptions]
    private var stores: [Store]
    private let tokens: [String]
    private var seconds: Int64 = 0
    private var random = SeededRandom(seed: 7)
    /// The changes of a device's apps, for its atomic list.
    private var made: [NewMutation] = []

    /// - Parameter coalesces: Joins unsent edits of one record.
    package init(_ program: Program, coalesces: Bool, way: Way = .straight, ablations: Set<Ablation> = []) throws {
        (self.program, self.way) = (program, way)
        var rules = program.rules
        rules.coalesces = coalesces
        let book = RuleBook([Self.entity: rules], isStrict: true)
        var random = SeededRandom(seed: 5)
        var tokenBook = TokenBook()
        var tokens: [String] = []
        let devices = way == .readers ? 0...3 : 0...1
        for index in devices { tokens.append(tokenBook.add(Self.device(index), at: Timestamp(milliseconds: Self.birth), using: &random)) }
        self.tokens = tokens
        var settings = Hub.Settings(rules: book, tokens: tokenBook)
        #if ABLATIONS
            settings.ablations = Ablations(ablations)
        #endif
        if let earlier = DatabasePool.takeHub() {
            hub = try Hub(emptying: earlier, settings: settings, random: random)
        } else {
            hub = try Hub(.memory, settings: settings, random: random)
        }
        options = devices.map { index in
            var options = StoreOptions(device: Self.device(index), bootID: "boot", rules: book, seed: UInt64(index + 1))
            if program.untrusted == index { options.clockTrust = .unsynced }
            #if ABLATIONS
                options.ablations = Ablations(ablations)
            #endif
            return options
        }
        databases = try devices.map { _ in try SimAgent.newDatabase(over: DatabasePool.takeDatabase()) }
        let moment = Moment(instant: Instant(nanoseconds: 5_000_000_000), wall: Timestamp(milliseconds: Self.birth))
        stores = try zip(databases, options).map { try Store($0, $1, at: moment) }
    }

    private static func device(_ index: Int) -> DeviceID { DeviceID(trusted: "agent-\(index)") }

    private var now: Moment {
        Moment(
            instant: Instant(nanoseconds: 5_000_000_000 + seconds * 1_000_000_000),
            wall: Timestamp(milliseconds: Self.birth + seconds * 1_000))
    }

    /// Runs the program, and leaves the databases to later ones (``DatabasePool``).
    ///
    /// - Parameter first: The device that gets a link first.
    package func run(first: Int) throws -> Outcome {
        if program.isShared {
            try enqueue(
                0, .create,
                data: [
                    "s": "s", "l": "l", "v": "v", "c": "c", "n": 10, "a": ["a0"], "txt": "text.", "tags": ["red"], "p": 50, "q": 50,
                    "o": ["k": 1, "d0": 0, "d1": 0, "x": 0],
                ])
            made = []
            try sync(0)
            try sync(1)
        }
        for device in 0...1 { try write(program.steps[device], device, "", after: 3_600) }
        seconds = 7_600
        for (turn, device) in [first, 1 - first, first, 1 - first, first].enumerated() {
            try sync(device)
            seconds += 60
            if turn < 2, !program.later.isEmpty { try write(program.later[device], device, "later ", after: seconds) }
        }
        if !program.later.isEmpty { try sync(1 - first) }
        let outcome = try outcome()
        stores = []
        for database in databases { DatabasePool.put(database) }
        DatabasePool.put(hub)
        return outcome
    }

    private func write(_ steps: [Program.Step], _ device: Int, _ word: String, after began: Int64) throws {
        defer { seconds = max(seconds, began) }
        let real = stores[device]
        if way == .list { stores[device] = try Store(try databases[device].copy(), options[device], at: now) }
        for (number, step) in steps.enumerated() {
            seconds = began + step.at
            try act(step.act, device, "\(device)-\(word)\(number)")
            try pass(device)
        }
        guard way == .list else { return }
        stores[device] = real
        if !made.isEmpty { _ = try real.enqueue(made, isAtomic: true, by: Self.requester, at: now) }
        made = []
    }

    /// Time between two steps of a device.
    private func pass(_ device: Int) throws {
        if way == .restarts {
            if Bool.random(using: &random) { try stores[device].close(at: now) }
            stores[device] = try Store(databases[device], options[device], at: now)
        }
        if way == .readers, device != 2, random.fraction() < 0.3 { try pull(2) }
    }

    // MARK: Apps

    private func view(_ device: Int) throws -> JSONObject? {
        guard let text = try stores[device].reads.record(Self.record)?.view else { return nil }
        return try JSONReader.read(text).object
    }

    private func enqueue(
        _ device: Int, _ action: NewMutation.Action, data: JSONObject = [:], unset: [String] = [], operations: [FieldOperation] = []
    ) throws {
        let mutation = NewMutation(
            action, Self.entity, Self.record.id, data: data, unset: unset, operations: operations, size: JSON.object(data).bytes.count)
        _ = try stores[device].enqueue([mutation], by: Self.requester, at: now)
        if way == .list { made.append(mutation) }
    }

    private func act(_ act: Program.Act, _ device: Int, _ token: String) throws {
        let seen = try view(device)
        switch act {
        case .create:
            return try enqueue(
                device, .upsert, data: ["s": .string(token), "n": 1, "a": [.string(token)], "tags": [.string("t\(device)")]])
        case .delete: return seen == nil ? () : try enqueue(device, .delete)
        default: break
        }
        guard let seen else { return }
        var data: JSONObject = [:]
        var operations: [FieldOperation] = []
        var unset: [String] = []
        switch act {
        case .create, .delete: break
        case .set(let field): data[field] = .string(token)
        case .unset(let field): unset = [field]
        case .count(let delta): data["n"] = .int((seen["n"]?.int ?? 0) + delta)
        case .increment(let delta): operations = [FieldOperation("n", .increment, .int(delta))]
        case .line: data["txt"] = .string((seen["txt"]?.text ?? "") + "<\(token)>")
        case .rewrite: data["txt"] = .string("<\(token)>")
        case .item: data["a"] = .array((seen["a"]?.array ?? []) + [.string(token)])
        case .toggle(let tag):
            let tags = seen["tags"]?.array ?? []
            data["tags"] = .array(tags.contains(.string(tag)) ? tags.filter { $0 != .string(tag) } : tags + [.string(tag)])
        case .add(let tag): operations = [FieldOperation("tags", .add, .string(tag))]
        case .remove(let tag): operations = [FieldOperation("tags", .remove, .string(tag))]
        case .member(let name):
            var object = seen["o"]?.object ?? [:]
            object[name] = .string(token)
            data["o"] = .object(object)
        case .countMember(let delta): operations = [FieldOperation("o.k", .increment, .int(delta))]
        case .reach(let value): (data["p"], data["q"]) = (.int(value), .int(value))
        }
        try enqueue(device, .update, data: data, unset: unset, operations: operations)
    }

    // MARK: Links

    private func sync(_ device: Int) throws {
        if way == .pages { try other(device) }
        let pullsFirst = program.pullsFirst != (way == .otherSideDecides)
        if way == .underWay || way == .underWayUnanswered, let batch = try claim(device, most: 1) {
            if way == .underWayUnanswered { _ = try send(batch, device) }
            try pull(device)
            try settle(device)
        }
        if pullsFirst { try pull(device) }
        try push(device)
        try pull(device)
    }

    private func claim(_ device: Int, most: Int) throws -> Batch? {
        try stores[device].claim(BatchLimits(mutations: most, bytes: 1 << 20), at: now)
    }

    private func send(_ batch: Batch, _ device: Int) throws -> [PushResult] {
        try PushMessages.readResponse(try ask("/v1/sync/push", PushMessages.request(batch, config: nil), device)).results
    }

    /// Sends again what is under way.
    private func settle(_ device: Int) throws {
        while let batch = try stores[device].loadInFlight(BatchLimits(mutations: 50, bytes: 1 << 20), at: now) {
            _ = try stores[device].applyResults(try send(batch, device), next: nil, at: now)
        }
    }

    /// Changes another record.
    private func other(_ device: Int) throws {
        let id = RecordID(trusted: "f-\(["0", "2"][Int.random(in: 0...1, using: &random)])")
        let mutation = NewMutation(.upsert, Self.entity, id, data: ["s": .int(seconds)], size: 20)
        _ = try stores[device].enqueue([mutation], by: Self.requester, at: now)
    }

    private func ask(_ path: String, _ body: [UInt8], _ device: Int) throws -> [UInt8] {
        let response = hub.handle(
            HubRequest(
                "POST", path,
                headers: [
                    "Authorization": "Bearer \(tokens[device])", "Sync-Version": "1", "Sync-Device": Self.device(device).text,
                    "Sync-Replica": stores[device].replica.text,
                    "Content-Type": "application/json",
                ], body: body), at: now.wall)
        guard response.status == 200 else { throw Broken("the hub answers", "\(path): \(response.status)") }
        return response.body
    }

    private func push(_ device: Int) throws {
        for _ in 0..<20 {
            guard let batch = try claim(device, most: way == .single ? 1 : 50) else { return }
            try pass(device)
            let results = try send(batch, device)
            try pass(device)
            switch way {
            case .unanswered, .pulledUnanswered:
                if way == .pulledUnanswered { try pull(device) }
                try settle(device)
            case .echoFirst:
                try pull(device)
                _ = try stores[device].applyResults(results, next: nil, at: now)
            default: _ = try stores[device].applyResults(results, next: nil, at: now)
            }
            try pass(device)
        }
    }

    private func pull(_ device: Int) throws {
        for _ in 0..<20 {
            var streams = try stores[device].loadStreams(at: now)
            if streams.isEmpty { streams = [StreamPosition(entity: Self.entity, cursor: nil)] }
            let limit = way == .pages ? 1 : 500
            let request = PullRequest(streams: streams, limit: limit, maxBytes: Limits.pullBytes, maxSentSeq: 0)
            let answer = try PullMessages.readResponse(try ask("/v1/sync/pull", PullMessages.request(request), device))
            for _ in 0...(way == .pages ? 1 : 0) { _ = try stores[device].applyPull(answer, at: now) }
            try pass(device)
            if !answer.pages.contains(where: \.hasMore) { return }
        }
    }

    // MARK: The end

    private func outcome() throws -> Outcome {
        let held = try hub.record(Self.record)
        var outcome = Outcome(document: held?.data.map(Self.plain), views: [], disputes: [], refusals: [], lost: [])
        for device in 0...1 {
            outcome.views.append(try view(device).map(Self.plain))
            var query = ConflictQuery()
            query.limit = 100
            let disputes = try stores[device].reads.conflicts(query).items.filter { $0.kind != .field || !$0.sides.isEmpty }
            outcome.disputes.append(Set(disputes.flatMap { $0.kind == .field ? $0.sides.map(\.field) : [RuleModel.wholeRecord] }))
            var refused = MutationQuery()
            refused.states = [.rejected]
            outcome.refusals.append(Set(try stores[device].reads.mutations(refused, at: now).items.compactMap { $0.problem?.code }))
        }
        // Losses that a device decides before it sends are reported by the device itself.
        outcome.lost = Set(
            try hub.lostValues(Self.entity, limit: 100).filter { $0.record.id == Self.record.id }.map(\.value.field))
        for reader in stores.indices.dropFirst(2) {
            try pull(reader)
            let view = try view(reader).map(Self.plain)
            if view != outcome.document { outcome.faults.append("reader \(reader) has \(PlainValue.text(view))") }
        }
        for store in stores {
            outcome.faults += try store.verify()
            for entry in try store.reads.audit(after: 0, limit: 500).items where entry.verb == "lost" && entry.target == "\(Self.record)" {
                if let field = try JSONReader.read(entry.json ?? "").object?["field"]?.text { outcome.lost.insert(field) }
            }
        }
        outcome.decided = try decide()
        return outcome
    }

    /// Lets the people at each device keep their own side of each dispute.
    private func decide() throws -> JSONObject? {
        for device in 0...1 {
            for _ in 0..<4 {
                for dispute in try stores[device].reads.conflicts(ConflictQuery()).items where ["open", "stale"].contains(dispute.state) {
                    _ = try stores[device].resolve(dispute.number, ConflictDecision(.all(.local)), by: Self.requester, at: now)
                }
                seconds += 60
                try push(device)
                try pull(device)
            }
        }
        return try hub.record(Self.record)?.data.map(Self.plain)
    }

    /// Removes times and keys from lines that name an author, because they differ between runs.
    private static func plain(_ document: JSONObject) -> JSONObject {
        guard let text = document["txt"]?.text else { return document }
        var plain = document
        plain["txt"] = .string(
            text.split(separator: "\n", omittingEmptySubsequences: false).map { $0.hasPrefix("--- ") ? "---" : String($0) }.joined(
                separator: "\n"))
        return plain
    }
}
