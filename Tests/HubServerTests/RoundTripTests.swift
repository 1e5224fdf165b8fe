import Foundation
import HubServer
import StoreKit
import SyncCore
import SyncStore
import Testing

/// Every side must read all that another one may write. Random changes with values, names, depths and counts at every limit go through an
/// agent's store, over the wire and into the hub, and all readers of a document show the same.
///
/// `ROUND_TRIPS=200 swift test --filter RoundTripTests` looks at more histories than the few that are tried each time.
@Suite("Round trips at the limits", .eachEngine)
struct RoundTripTests {
    private static let histories = ProcessInfo.processInfo.environment["ROUND_TRIPS"].flatMap { Int($0) } ?? 4

    @Test("Agent, wire, hub, feed, listing, export and a second agent hold the same document", arguments: 0..<histories)
    func same(_ seed: Int) throws {
        let trip = try Trip(seed: UInt64(seed))
        for _ in 0..<40 {
            try trip.change()
            try trip.sync()
            try trip.compare()
        }
        // Otherwise nothing was at a limit.
        #expect(trip.accepted > 8 && trip.refused > 2, "\(trip.accepted) accepted, \(trip.refused) refused")
    }

    #if ABLATIONS
        @Test("A hub and an agent that limit the change and not its result would be noticed")
        func control() {
            #expect(throws: Trip.Difference.self) {
                for seed in 0..<20 {
                    let trip = try Trip(seed: UInt64(seed), ablations: Ablations([.storedReadAsInput]))
                    for _ in 0..<40 {
                        try trip.change()
                        try trip.sync()
                        try trip.compare()
                    }
                }
            }
        }
    #endif
}

private final class Trip {
    struct Difference: Error, CustomStringConvertible {
        var description: String
    }

    private let rows: HubRows
    private let bench: HubBench
    private let folder: URL
    /// `nil` only between two openings.
    private var opened: Store?
    private let options: StoreOptions
    /// Gets all by pull.
    private let other: Store
    private var cursor: String?
    private var random: SeededRandom
    private var now = Moment(instant: Instant(nanoseconds: 5_000_000_000), wall: Timestamp(milliseconds: 1_795_208_400_000))
    private let app = Requester(app: AppName(trusted: "app"), uid: 1_000)
    private(set) var accepted = 0
    private(set) var refused = 0

    init(seed: UInt64, ablations: Ablations = .none) throws {
        var rules = EntityRules()
        rules.fields = ["set": .set, "log": .append, "object": .merge, "count": .counter, "max": .max]
        let book = RuleBook(["audits": rules])
        rows = try HubRows()
        bench = try HubBench(rules: book, ablations: ablations, place: rows.place)
        folder = FileManager.default.temporaryDirectory.appendingPathComponent("trip-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        options = StoreOptions(device: .one, bootID: "boot", rules: book, capacity: StoreCapacity(), seed: seed, ablations: ablations)
        var others = options
        others.device = .two
        other = try Store(try EmptyDatabase.copy(), others, at: now)
        random = SeededRandom(seed: seed &+ 1)
        try open()
    }

    private func open() throws {
        opened = nil
        opened = try Store(try Database.open(path: folder.appendingPathComponent("agent.db").path), options, at: now)
    }

    private var store: Store {
        get throws {
            guard let opened else { throw Difference(description: "the store is not open") }
            return opened
        }
    }

    deinit { try? FileManager.default.removeItem(at: folder) }

    // MARK: Changing

    func change() throws {
        let id = RecordID(trusted: "a-\(Int.random(in: 0...2, using: &random))")
        var mutation = NewMutation(.upsert, "audits", id, data: [:], coalesces: Bool.random(using: &random))
        for _ in 0..<Int.random(in: 0...3, using: &random) { mutation.data[name()] = value() }
        // As many as a document may have, and one more, now and then.
        if one(in: 12) {
            for number in 0..<(Limits.documentFields - 2 + Int.random(in: 0...3, using: &random)) { mutation.data["f\(number)"] = 1 }
        }
        for _ in 0..<Int.random(in: 0...3, using: &random) {
            let kind = FieldOperation.Kind.allCases.randomElement(using: &random) ?? .add
            mutation.operations.append(FieldOperation(name(), kind, [.increment, .max, .min].contains(kind) ? number() : value()))
        }
        if one(in: 4) { mutation.unset = [name()].filter { mutation.data[$0] == nil } }
        do {
            _ = try store.enqueue([mutation], by: app, at: now)
            accepted += 1
        } catch let error as StoreError where error.problem != nil {
            refused += 1
        }
    }

    private func one(in count: Int) -> Bool { Int.random(in: 0..<count, using: &random) == 0 }

    private func name() -> String {
        let names = [
            "set", "log", "object", "count", "max", "a", "a", "", "é", "e\u{301}", "$delete", "a.b", "\u{7F}", "\u{2028}",
            String(repeating: "n", count: 256), String(repeating: "n", count: 257), String(repeating: "\u{1}", count: 42),
            String(repeating: "\u{1}", count: 43), String(repeating: "\"", count: 128), String(repeating: "\"", count: 129),
            String(repeating: "é", count: 128),
        ]
        return names.randomElement(using: &random) ?? ""
    }

    private func number() -> JSON {
        let texts = [
            "0", "-0", "1.10", "-9223372036854775808", "9223372036854775808", "9007199254740993", "1e308", "1e-400",
            String(repeating: "9", count: 400),
        ]
        return texts.randomElement(using: &random).flatMap { try? JSONReader.read($0) } ?? 0
    }

    private func value() -> JSON {
        switch Int.random(in: 0...9, using: &random) {
        case 0: return .null
        case 1: return true
        case 2, 3: return number()
        case 4: return .string(["", "text", "\"\\\n\u{1}", "e\u{301}", "👩‍🔧"].randomElement(using: &random) ?? "")
        case 5: return .string(String(repeating: "x", count: [60_000, 100_000, 125_000].randomElement(using: &random) ?? 0))
        case 6: return ["id": .int(Int.random(in: 0...3, using: &random)), "v": .int(Int.random(in: 0...3, using: &random))]
        case 7: return .array((0..<Int.random(in: 0...4, using: &random)).map { .int($0) })
        default:
            let levels = [1, 2, 29, 30, 31, 32].randomElement(using: &random) ?? 1
            return (0..<levels).reduce(JSON.int(1)) { value, level in level % 2 == 0 ? [value] : .object(["d": value]) }
        }
    }

    // MARK: Syncing

    /// Sends what waits as a device does, and lets a second one pull it.
    func sync() throws {
        now = Moment(instant: now.instant.advanced(by: .seconds(60)), wall: now.wall.advanced(by: .seconds(60)))
        bench.now = now.wall
        while let batch = try store.claim(BatchLimits(mutations: 50, bytes: 1 << 20), at: now) {
            let body = try JSONReader.read(PushMessages.request(batch, config: nil), limits: .stored)
            let response = bench.send("POST", "/v1/sync/push", body)
            guard response.status == 200 else { throw Difference(description: "a push is answered \(response.status)") }
            let results = try PushMessages.readResponse(response.body).results
            for result in results {
                guard case .accepted = result.verdict else { throw Difference(description: "the hub says \(result.verdict)") }
            }
            _ = try store.applyResults(results, next: nil, at: now)
        }
        while true {
            let response = try bench.pull([("audits", cursor)], device: .two)
            guard let page = response.pages.first, response.errors.isEmpty else { break }
            _ = try other.applyPull(response, at: now)
            cursor = page.cursor
            if !page.hasMore { break }
        }
    }

    // MARK: Comparing

    func compare() throws {
        try open()
        let found = try store.verify()
        guard found.isEmpty else { throw Difference(description: "the store: \(found)") }
        var expected: [String: JSON] = [:]
        for number in 0...2 {
            let name = RecordName("audits", RecordID(trusted: "a-\(number)"))
            let mine = try store.reads.record(name)?.view.map(document)
            expected[name.id.text] = mine
            try same(mine, try other.reads.record(name)?.view.map(document), "the second agent's \(name)")
            try same(mine, try bench.data("audits", name.id).map { .object($0) }, "the feed's \(name)")
        }
        let listed = try bench.list(SnapshotRequest(entity: "audits", after: nil, limit: 500)).flatMap(\.records)
        try same(expected, listed.map { ($0.id.text, .object($0.record.data)) }, "the listing")
        var exported: [(String, JSON)] = []
        try inspector().export("audits") { line in
            guard let object = (try? JSONReader.read(line, limits: .answer))?.object, let id = object["id"]?.text, let data = object["data"]
            else {
                return false
            }
            exported.append((id, data))
            return true
        }
        try same(expected, exported, "the export")
    }

    private func document(_ text: String) throws -> JSON { try JSONReader.read(text, limits: .stored) }

    private func same(_ expected: [String: JSON], _ found: [(String, JSON)], _ what: String) throws {
        guard expected.count == found.count else {
            throw Difference(description: "\(what) has \(found.count) records of \(expected.count)")
        }
        for (id, value) in found { try same(expected[id], value, "\(what)'s \(id)") }
    }

    private func same(_ expected: JSON?, _ found: JSON?, _ what: String) throws {
        guard expected == found else {
            throw Difference(
                description: "\(what) is \(found?.json.prefix(300) ?? "nothing") instead of \(expected?.json.prefix(300) ?? "nothing")")
        }
    }

    private func inspector() throws -> HubInspector {
        switch rows.place {
        case .memory: throw Difference(description: "memory has no second reader")
        case .file(let path): try HubInspector(file: path)
        case .shared(let place): try HubInspector(place)
        }
    }
}
