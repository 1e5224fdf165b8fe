import HubServer
import SyncCore
import Testing

/// Random work from one seed. A failure names its seed, and the seed alone replays it.
@Suite("Properties", .eachEngine)
struct PropertyTests {
    static let ids: [RecordID] = (0..<5).map { RecordID(trusted: "a-\($0)") }
    static let devices: [DeviceID] = (0..<3).map { DeviceID(trusted: "gw-\($0)") }

    /// No `manual` field: what waits behind a conflict depends on the batch it came in, and nothing else may.
    static var rules: RuleBook {
        var rules = EntityRules()
        rules.fields = ["server": .server, "client": .client, "tags": .set, "notes": .append, "peak": .max, "form": .merge]
        rules.onDeleted = .updateWins
        var strict = EntityRules()
        strict.fields = rules.fields
        return RuleBook(["audits": rules, "strict": strict])
    }

    struct Work {
        var random: SeededRandom
        private var seq: [DeviceID: Int64] = [:]

        init(seed: UInt64) { random = SeededRandom(seed: seed) }

        mutating func pick<T>(_ choices: [T]) -> T { choices[Int(random.next() % UInt64(choices.count))] }
        mutating func number(_ below: Int) -> Int { Int(random.next() % UInt64(below)) }

        mutating func mutation(of device: DeviceID, base: (EntityName, RecordID) -> Int64) -> Sent {
            let next = (seq[device] ?? 0) + 1
            seq[device] = next
            let entity = pick([EntityName(trusted: "audits"), EntityName(trusted: "strict")])
            let id = pick(PropertyTests.ids)
            var data: JSONObject = [:]
            var unset: [String] = []
            var ops: [JSON] = []
            for field in ["lww", "server", "client", "peak"] where number(3) == 0 { data[field] = .int(number(4)) }
            if number(4) == 0 { data["tags"] = [.int(number(3)), "x"] }
            if number(4) == 0 { data["form"] = ["m\(number(3))": .int(number(3))] }
            if number(4) == 0 { data["notes"] = .string(pick(["a", "b", "ab"])) }
            if number(5) == 0 { unset = [pick(["lww", "server", "tags"])] }
            if number(3) == 0 { ops.append(["field": "n", "op": "inc", "value": .int(number(5))]) }
            if number(4) == 0 { ops.append(["field": "notes", "op": "append", "value": .string("+\(next)")]) }
            let action = pick([MutationAction.create, .update, .update, .update, .update, .delete])
            return Sent(
                "k-\(next)", seq: next, action, entity.text, id: id.text, data: action == .delete ? nil : .object(data),
                unset: action == .delete ? [] : unset, ops: action == .delete ? [] : ops, base: base(entity, id),
                ms: UInt64(1_000 + number(50)), node: HybridClock.node(of: device), clock: number(10) == 0 ? "unsynced" : nil)
        }
    }

    /// Every row that devices can see, and every version.
    static func everything(_ bench: HubBench) throws -> [String] {
        try ["audits", "strict"].flatMap { entity in
            try bench.follow(EntityName(trusted: entity)).pages.flatMap { page in
                page.records.map { "\(entity)/\($0.id) \($0.record.json.json) \($0.originDevice ?? "") \($0.originKey ?? "")" }
            }
        } + ["head \(bench.hub.head)"] + (try bench.hub.stats().entities.map { "\($0)" })
    }

    @Test("A request that arrives twice changes nothing the second time", arguments: 0..<10 as Range<UInt64>)
    func repeats(_ seed: UInt64) throws {
        var work = Work(seed: seed)
        let bench = try HubBench(rules: Self.rules)
        var sent: [(DeviceID, [Sent])] = []
        for _ in 0..<30 {
            let device = work.pick(Self.devices)
            let version = bench.hub.head
            let batch = (0...work.number(4)).map { _ in work.mutation(of: device) { _, _ in max(0, version - 2) } }
            sent.append((device, batch))
            let first = try bench.verdicts(batch, device: device)
            let before = try Self.everything(bench)
            for (device, batch) in [(device, batch), work.pick(sent)] {
                let again = try bench.verdicts(batch, device: device)
                #expect(again.allSatisfy { $0.verdict.word == "duplicate" }, "seed \(seed)")
                #expect(again.count == batch.count)
            }
            #expect(first.allSatisfy { $0.verdict.word != "duplicate" })
            #expect(try Self.everything(bench) == before, "seed \(seed)")
        }
    }

    @Test("The same mutations in any division into batches give the same records", arguments: 0..<10 as Range<UInt64>)
    func divisions(_ seed: UInt64) throws {
        var work = Work(seed: seed)
        let order = (0..<60).map { index in
            let device = work.pick(Self.devices)
            // A version that the hub has come to before any of the batches that this mutation can be in, also where much is refused.
            return (device, work.mutation(of: device) { _, _ in Int64(max(0, index - 5 - 3)) / 4 })
        }
        var outcomes: [[String]] = []
        for most in [1, 4, 60] {
            let bench = try HubBench(rules: Self.rules)
            var rest = order[...]
            var words: [String] = []
            while let device = rest.first?.0 {
                let run = rest.prefix { $0.0 == device }
                let batch = run.prefix(1 + work.number(min(most, run.count)))
                words += try bench.verdicts(batch.map(\.1), device: device).map(\.verdict.word)
                rest = rest.dropFirst(batch.count)
            }
            outcomes.append(words + (try Self.everything(bench)))
        }
        #expect(outcomes[0] == outcomes[1] && outcomes[1] == outcomes[2], "seed \(seed)")
    }

    @Test("The record that a device derives from an answer is the hub's", arguments: 0..<16 as Range<UInt64>)
    func computable(_ seed: UInt64) throws {
        var work = Work(seed: seed)
        let bench = try HubBench(rules: Self.rules)
        var mirrors: [DeviceID: [RecordName: (version: Int64, data: JSONObject?)]] = [:]
        for _ in 0..<60 {
            let device = work.pick(Self.devices)
            var mirror = mirrors[device] ?? [:]
            let isStale = work.number(4) == 0
            let batch = (0...work.number(4)).map { _ in
                work.mutation(of: device) { (mirror[RecordName($0, $1)]?.version ?? 0) - (isStale ? 1 : 0) }
            }.map { $0.json["base_version"]?.int == -1 && !isStale ? $0.with("base_version", 0) : $0 }
            for (sent, result) in zip(batch, try bench.verdicts(batch, device: device)) {
                let item = try PushMessages.readRequest(JSON.object(["mutations": [.object(sent.json)]]).bytes).items[0]
                let mutation = try item.content.get()
                switch result.verdict {
                case .accepted(let version, _, let record, _):
                    let own = Fold.apply(mutation.content, to: mirror[mutation.record]?.data)
                    mirror[mutation.record] = (version, record.map { $0.data } ?? own)
                case .rejected(_, .deleted(let version)?): mirror[mutation.record] = (version, nil)
                case .rejected(_, .absent?): mirror[mutation.record] = (0, nil)
                default: break
                }
            }
            mirrors[device] = mirror
            let touched = Set(
                batch.compactMap { sent in sent.json["entity"]?.text.map { $0 + "/" + (sent.json["record_id"]?.text ?? "") } })
            for name in mirror.keys where touched.contains(name.description) {
                #expect(mirror[name]?.data == (try bench.data(name.entity, name.id)), "seed \(seed), \(name) at \(device)")
            }
        }
    }

    @Test(
        "A device that follows the feed, in pages of any size and at any time, ends with the hub's records",
        arguments: 0..<16 as Range<UInt64>)
    func feed(_ seed: UInt64) throws {
        var work = Work(seed: seed)
        let bench = try HubBench(rules: Self.rules)
        var mirror: [RecordID: HubRecord] = [:]
        var cursor: String?
        func pull(_ limit: Int) throws -> Bool {
            guard let page = try bench.pull([("audits", cursor)], limit: limit).pages.first else { return false }
            for record in page.records { mirror[record.id] = record.record }
            for deletion in page.deletions { mirror[deletion.id] = nil }
            cursor = page.cursor
            return page.hasMore
        }
        for step in 0..<80 {
            let device = work.pick(Self.devices)
            var batch = (0...work.number(4)).map { _ in work.mutation(of: device) { _, _ in 1 << 52 } }
            if work.number(2) == 0 { batch = batch.map { $0.with("group", .string("g-\(step)")) } }
            _ = try bench.verdicts(batch, device: device)
            if work.number(3) == 0 { _ = try pull(1 + work.number(4)) }
        }
        while try pull(1 + work.number(3)) {}
        let whole = try bench.follow("audits").pages.flatMap(\.records)
        #expect(mirror == Dictionary(uniqueKeysWithValues: whole.map { ($0.id, $0.record) }), "seed \(seed)")
    }
}
