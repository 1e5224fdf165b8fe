import Foundation
import HubServer
import StoreKit
import SyncCore
import SyncStore
import Testing

/// Random histories with devices of mixed versions: the schema goes on in the middle of partitions, answers are lost, processes die
/// (PROTOCOL D7). Each history runs twice with the same events: once with the versions, and once in a world that stays at version 1. In the
/// end the records of the first must be those of the second, converted.
@Suite("Histories with versions of a schema")
struct VersionHistoryTests {
    @Test("Devices of mixed versions write what they would have written without versions, converted", arguments: 0..<8)
    func histories(lane: Int) throws {
        let count = ProcessInfo.processInfo.environment["VERSION_HISTORIES"].flatMap { Int($0) } ?? 160
        for number in stride(from: lane, to: count, by: 8) { try VersionHistory(seed: UInt64(number)).run() }
    }

    #if ABLATIONS
        @Test(
            "Without the conversion of what waits, or of stored records, histories show it",
            arguments: [VersionHistory.Fault.oldRows, .oldHeader])
        func ablations(_ fault: VersionHistory.Fault) throws {
            let broken = (0..<60).contains { number in
                do {
                    try VersionHistory(seed: UInt64(number), fault: fault).run()
                    return false
                } catch {
                    return true
                }
            }
            #expect(broken)
        }
    #endif
}

/// One history in two worlds.
struct VersionHistory {
    /// A mistake that the test must notice.
    enum Fault: Sendable {
        /// A device says that its documents are older than they are.
        case oldHeader
        /// A device takes the hub's new settings over without converting anything.
        case oldRows
    }

    struct Difference: Error, CustomStringConvertible {
        let description: String
    }

    fileprivate enum Event {
        case write(Int, NewMutation)
        case push(Int, isLost: Bool)
        case pull(Int)
        case crash(Int)
        case hubGoesOn
        case takesOver(Int)

        var words: String {
            switch self {
            case .write(let device, let mutation):
                let unset = mutation.unset.isEmpty ? "" : " without \(mutation.unset)"
                return "\(device) \(mutation.action.rawValue) \(mutation.recordID?.text ?? "") \(mutation.data.json)\(unset)"
            case .push(let device, let isLost): return "\(device) push\(isLost ? ", the answer is lost" : "")"
            case .pull(let device): return "\(device) pull"
            case .crash(let device): return "\(device) dies"
            case .hubGoesOn: return "the hub goes on"
            case .takesOver(let device): return "\(device) takes over"
            }
        }
    }

    let seed: UInt64
    var fault: Fault?

    static let steps: [Int: SchemaSteps] = [
        2: [.rename("site", to: "site_id"), .values("status", ["open": "waiting", "lost": "gone"]), .fill("severity", "minor")],
        3: [.drop("legacy"), .rename("note", to: "remark"), .wrap("place")],
    ]

    static func versions(_ present: Int) throws -> SchemaVersions {
        var versions: [Int: SchemaVersions.Version] = [1: .init()]
        for number in 2...3 where number <= present { versions[number] = .init(up: steps[number] ?? [], down: nil) }
        return try SchemaVersions(present: present, versions: versions, accepts: nil)
    }

    static func rules(_ present: Int) throws -> RuleBook {
        var rules = EntityRules()
        rules.versions = try versions(present)
        rules.fields = ["count": .counter, "tags": .set, "position": .merge]
        return RuleBook(["audits": rules])
    }

    func run() throws {
        var random = SeededRandom(seed: seed &* 0x9E37_79B9_7F4A_7C15 &+ 3)
        var mixed = try VersionWorld(present: 1, fault: fault), plain = try VersionWorld(present: 1, fault: nil)
        var told: [String] = []
        for number in 0..<Int.random(in: 20...60, using: &random) {
            let event = try draw(number, plain, &random)
            told.append(event.words)
            try mixed.take(event, goesOn: true)
            try plain.take(event, goesOn: false)
        }
        try mixed.end(goesOn: true)
        try plain.end(goesOn: false)
        let up = try #require(try Self.versions(mixed.present).up(from: 1))
        for id in VersionWorld.ids {
            let expected = try plain.document(id).map { Self.sorted(up.convert($0)) }
            let found = try mixed.document(id).map(Self.sorted)
            guard expected == found else {
                throw difference("\(id): \(found ?? "none"), expected \(expected ?? "none")", told)
            }
            for device in mixed.stores.indices {
                let view = try mixed.view(device, id).map(Self.sorted)
                guard view == found else {
                    throw difference("device \(device), \(id): \(view ?? "none"), the hub has \(found ?? "none")", told)
                }
            }
        }
    }

    /// - Parameter told: The events so far; shown with `VERSION_TRACE=1`.
    private func difference(_ what: String, _ told: [String]) -> Difference {
        let isTraced = ProcessInfo.processInfo.environment["VERSION_TRACE"] != nil
        return Difference(description: "history \(seed), \(what)" + (isTraced ? "\n" + told.joined(separator: "\n") : ""))
    }

    /// Members in the order of their names: a conversion may move one to the end.
    private static func sorted(_ document: JSONObject) -> String {
        var sorted: JSONObject = [:]
        for member in document.members.sorted(by: { $0.name.text < $1.name.text }) {
            var value = member.value
            if let inner = value.object {
                var members: JSONObject = [:]
                for member in inner.members.sorted(by: { $0.name.text < $1.name.text }) { members[member.name.text] = member.value }
                // Merging leaves an object that has lost its last member, and moving takes it away.
                if members.isEmpty { continue }
                value = .object(members)
            }
            sorted[member.name.text] = value
        }
        return sorted.json
    }

    private func draw(_ number: Int, _ world: VersionWorld, _ random: inout SeededRandom) throws -> Event {
        let device = Int.random(in: 0..<VersionWorld.devices, using: &random)
        switch Int.random(in: 0..<20, using: &random) {
        case 0..<9: return .write(device, try mutation(number, world, device, &random))
        case 9..<12: return .push(device, isLost: Int.random(in: 0..<4, using: &random) == 0)
        case 12..<16: return .pull(device)
        case 16: return .crash(device)
        case 17: return .hubGoesOn
        default: return .takesOver(device)
        }
    }

    private func mutation(_ number: Int, _ world: VersionWorld, _ device: Int, _ random: inout SeededRandom) throws -> NewMutation {
        let id = VersionWorld.ids[Int.random(in: 0..<VersionWorld.ids.count, using: &random)]
        let view = try world.view(device, id)
        if view != nil, Int.random(in: 0..<10, using: &random) == 0 { return NewMutation(.delete, "audits", id) }
        var mutation = NewMutation(.upsert, "audits", id, coalesces: Bool.random(using: &random))
        mutation.schema = 1
        func one(_ values: [JSON]) -> JSON { values[Int.random(in: 0..<values.count, using: &random)] }
        for _ in 0..<Int.random(in: 1...3, using: &random) {
            switch Int.random(in: 0..<10, using: &random) {
            case 0: mutation.data["site"] = .string("s-\(number)")
            case 1: mutation.data["status"] = one(["open", "lost", "done", 1])
            case 2: mutation.data["severity"] = one(["minor", "major"])
            case 3: mutation.data["note"] = .string("n-\(number)")
            case 4: mutation.data["legacy"] = .int(number)
            case 5: mutation.data["lat"] = .int(number)
            case 6: mutation.data["place"] = .string("p-\(number)")
            case 7: mutation.operations.append(FieldOperation("count", .increment, .int(Int.random(in: 1...9, using: &random))))
            case 8:
                let kind: FieldOperation.Kind = Bool.random(using: &random) ? .add : .remove
                mutation.operations.append(FieldOperation("tags", kind, one(["red", "green"])))
            default:
                guard view != nil, mutation.data.isEmpty else { continue }
                let fields = ["site", "severity", "note", "lat"].filter { view?[$0] != nil }
                if !fields.isEmpty { mutation.unset = [fields[Int.random(in: 0..<fields.count, using: &random)]] }
            }
        }
        mutation.unset.removeAll { mutation.data[$0] != nil }
        if mutation.data.isEmpty, mutation.unset.isEmpty, mutation.operations.isEmpty { mutation.data["site"] = .string("s-\(number)") }
        return mutation
    }

    /// A hub and its devices.
    struct VersionWorld {
        static let devices = 3
        static let ids: [RecordID] = ["a-0", "a-1", "a-2"]

        /// The version of the hub.
        private(set) var present: Int
        private let fault: Fault?
        private let rows: HubRows
        private var bench: HubBench
        private(set) var stores: [Store] = []
        private var databases: [Database] = []
        /// The version of each device's settings.
        private var versions: [Int]
        private var now = Moment(instant: Instant(nanoseconds: 5_000_000_000), wall: Timestamp(milliseconds: 1_795_208_400_000))

        init(present: Int, fault: Fault?) throws {
            self.present = present
            self.fault = fault
            rows = try HubRows(.sqlite)
            bench = try HubBench(rules: try VersionHistory.rules(present), place: rows.place)
            versions = Array(repeating: present, count: Self.devices)
            for device in 0..<Self.devices {
                databases.append(try EmptyDatabase.copy())
                stores.append(try open(device))
            }
        }

        private static func device(_ index: Int) -> DeviceID { DeviceID(trusted: "gw-\(index)") }

        private func open(_ device: Int) throws -> Store {
            let rules = try VersionHistory.rules(versions[device])
            let options = StoreOptions(device: Self.device(device), bootID: "b", rules: rules, seed: UInt64(device + 1))
            let store = try Store(databases[device], options, at: now)
            if fault != .oldRows { try store.use(rules, at: now) }
            return store
        }

        func document(_ id: RecordID) throws -> JSONObject? { try bench.hub.record(RecordName("audits", id))?.data }

        func view(_ device: Int, _ id: RecordID) throws -> JSONObject? {
            try stores[device].reads.record(RecordName("audits", id))?.view.flatMap { try JSONReader.read($0).object }
        }

        fileprivate mutating func take(_ event: Event, goesOn: Bool) throws {
            now = Moment(instant: now.instant.advanced(by: .seconds(7)), wall: now.wall.advanced(by: .seconds(7)))
            bench.now = now.wall
            switch event {
            case .write(let device, let mutation):
                do throws(StoreError) {
                    _ = try stores[device].enqueue([mutation], by: Requester(app: AppName(trusted: "app"), uid: 1), at: now)
                } catch {
                    // Both worlds refuse alike, or the end shows it.
                    if error.problem == nil { throw error }
                }
            case .push(let device, let isLost): try push(device, isLost: isLost)
            case .pull(let device): try pull(device)
            case .crash(let device): stores[device] = try open(device)
            case .hubGoesOn:
                guard goesOn, present < 3 else { return }
                present += 1
                bench = try HubBench(rules: try VersionHistory.rules(present), seed: UInt64(present), place: rows.place)
                bench.now = now.wall
            case .takesOver(let device): if goesOn { try takeOver(device) }
            }
        }

        private mutating func takeOver(_ device: Int) throws {
            guard versions[device] < present else { return }
            versions[device] = present
            if fault != .oldRows { try stores[device].use(try VersionHistory.rules(present), at: now) }
        }

        private func headers(_ device: Int) throws -> [(String, String)] {
            let schemas = try stores[device].documentSchemas()
            let told = fault == .oldHeader ? SchemaNumbers(schemas.named.mapValues { max(1, $0 - 1) }) : schemas
            let meant = fault == .oldRows ? SchemaNumbers(["audits": versions[device]]) : told
            return meant.text.map { [("Schema", $0)] } ?? []
        }

        private func ask(_ method: String, _ target: String, _ body: [UInt8], _ device: Int) throws -> HubResponse {
            let response = bench.send(
                method, target, body.isEmpty ? nil : try JSONReader.read(body, limits: .stored), device: Self.device(device),
                replica: stores[device].replica, headers: try headers(device))
            guard response.status == 200 else { throw HubBench.Unexpected(response) }
            return response
        }

        /// The versions of the hub, where they are newer than those of the device.
        private func newer(_ device: Int) throws -> SchemaNumbers? {
            present > (try stores[device].documentSchemas()["audits"]) ? SchemaNumbers(["audits": present]) : nil
        }

        private func push(_ device: Int, isLost: Bool) throws {
            let limits = BatchLimits(mutations: 50, bytes: 1 << 20)
            for _ in 0..<20 {
                let unsettled = try stores[device].loadInFlight(limits, at: now)
                guard let batch = try unsettled ?? stores[device].claim(limits, at: now) else { return }
                let response = try ask("POST", "/v1/sync/push", PushMessages.request(batch, config: nil), device)
                if isLost { return }
                var results = try PushMessages.readResponse(response.body).results
                for index in results.indices { results[index].notes.newerSchemas = try newer(device) }
                _ = try stores[device].applyResults(results, next: nil, at: now)
                if results.contains(where: { if case .retry = $0.verdict { true } else { false } }) { return }
            }
        }

        private func pull(_ device: Int) throws {
            // Before mutations in flight are settled, a page may have them already.
            try push(device, isLost: false)
            for _ in 0..<20 {
                var streams = try stores[device].loadStreams(at: now)
                if streams.isEmpty { streams = [StreamPosition(entity: "audits", cursor: nil)] }
                if let listing = streams.first(where: { $0.listing != nil }) {
                    let request = SnapshotRequest(entity: "audits", after: listing.listing?.after, limit: 2)
                    var page = try SnapshotMessages.readResponse(
                        try ask("GET", "/v1/sync/snapshot?" + SnapshotMessages.query(request), [], device).body)
                    page.newerSchemas = try newer(device)
                    _ = try stores[device].applySnapshot(page, at: now)
                    continue
                }
                let request = PullRequest(streams: streams, limit: 500, maxBytes: Limits.pullBytes, maxSentSeq: 0)
                var answer = try PullMessages.readResponse(try ask("POST", "/v1/sync/pull", PullMessages.request(request), device).body)
                answer.newerSchemas = try newer(device)
                _ = try stores[device].applyPull(answer, at: now)
                if !answer.pages.contains(where: \.hasMore) { return }
            }
        }

        /// Gives all devices the hub's version, and lets everything arrive.
        mutating func end(goesOn: Bool) throws {
            for device in stores.indices {
                if goesOn { try takeOver(device) }
                try push(device, isLost: false)
            }
            for _ in 0..<2 { for device in stores.indices { try pull(device) } }
            for device in stores.indices {
                let found = try stores[device].verify()
                guard found.isEmpty else { throw Difference(description: "device \(device): \(found)") }
            }
        }
    }
}
