import Foundation
import LocalAPI
import SyncCore
import SyncLinux
import Synchronization

/// Work of many kinds whose content proves itself: what is found later tells whether it is whole, and what must stand before it.
///
/// Records count their changes: with `n` at 3 there are `s1`, `s2` and `s3`, and `t` is the text of the third. Members of
/// a list name the list and its size.
actor CutLoad {
    private let stand: Stand
    private var steps: [String: Int] = [:]
    private var readings = 0
    private var lists = 0
    private var files = 0
    private var random: SeededRandom

    init(_ stand: Stand, seed: UInt64) {
        self.stand = stand
        random = SeededRandom(seed: seed)
    }

    /// Several apps at once, and cycles with the hub meanwhile.
    func run(rounds: Int) async throws {
        try await withThrowingTaskGroup(of: Void.self) { group in
            for writer in 0..<3 {
                group.addTask { for _ in 0..<rounds { try await self.change(writer) } }
            }
            group.addTask { for _ in 0..<rounds { try await self.read() } }
            // All of them are one user, who may have 8 connections.
            group.addTask {
                for round in 0..<(rounds / 3) {
                    try await self.list()
                    try await self.file()
                    if round % 3 == 0 { try await self.lines() }
                }
            }
            group.addTask { for _ in 0..<(rounds / 4) { _ = try await self.stand.sync() } }
            try await group.waitForAll()
        }
    }

    private func change(_ writer: Int) async throws {
        let id = "w\(writer)-\(Int.random(in: 0..<4, using: &random))"
        let number = steps[id, default: 0] + 1
        steps[id] = number
        let change = NewMutation(
            number == 1 ? .create : .update, EntityName(trusted: "work_orders"), RecordID(trusted: id),
            data: ["n": .int(Int64(number)), "s\(number)": 1, "t": .string(Self.text(id, number))], coalesces: false)
        _ = try await stand.client.enqueue(change, key: "\(id)/\(number)")
    }

    private func read() async throws {
        readings += 1
        let reading = NewMutation(
            .create, EntityName(trusted: "readings"), nil,
            data: ["r": .int(Int64(readings)), "t": .string(Self.text("r", readings))])
        _ = try await stand.client.enqueue(reading)
    }

    private func list() async throws {
        lists += 1
        let count = Int.random(in: 2...5, using: &random)
        let members = (1...count).map { index in
            #"{"entity":"readings","action":"create","data":{"l":\#(lists),"i":\#(index),"c":\#(count),"t":"\#(Self.text("l\(lists)", index))"}}"#
        }
        try await post("/v1/mutations", #"{"atomic":true,"mutations":[\#(members.joined(separator: ","))]}"#, "application/json")
    }

    private func lines() async throws {
        let lines = (0..<30).map { _ in
            readings += 1
            return #"{"entity":"readings","action":"create","data":{"r":\#(readings),"t":"\#(Self.text("r", readings))"}}"# + "\n"
        }
        try await post("/v1/mutations/bulk", lines.joined(), "application/x-ndjson")
    }

    private func file() async throws {
        files += 1
        var bytes: [UInt8] = []
        let count = Int.random(in: 1...400_000, using: &random)
        while bytes.count < count { withUnsafeBytes(of: random.next()) { bytes.append(contentsOf: $0) } }
        let answer = try await stand.transport.send(
            HTTPRequest(
                .post, "http://localhost/v1/blobs?filename=f\(files)", headers: ["Content-Type": "image/png"], body: .bytes(bytes),
                socketPath: stand.socketPath))
        guard answer.status == 201 else { throw StandError("a file was not taken: \(answer.status)") }
    }

    private func post(_ path: String, _ body: String, _ type: String) async throws {
        let answer = try await stand.transport.send(
            HTTPRequest(
                .post, "http://localhost\(path)", headers: ["Content-Type": type], body: .bytes(Array(body.utf8)),
                socketPath: stand.socketPath))
        guard (200...201).contains(answer.status) else {
            throw StandError("\(path): \(answer.status) \(String(decoding: answer.body, as: UTF8.self))")
        }
    }

    // MARK: - What content must be

    /// Follows from its name, and is long enough at times that it goes on over several pages.
    static func text(_ name: String, _ number: Int) -> String {
        let key = "\(name)/\(number)"
        if let known = texts.withLock({ $0[key] }) { return known }
        let text = freshText(name, number)
        texts.withLock { $0[key] = text }
        return text
    }

    /// Each state is asked for nearly all of them, and making them anew was most of a long run.
    private static let texts = Mutex<[String: String]>([:])

    private static func freshText(_ name: String, _ number: Int) -> String {
        var random = SeededRandom(seed: name.utf8.reduce(UInt64(number)) { $0 &* 1_099_511_628_211 ^ UInt64($1) })
        let count = Int.random(in: 0..<10, using: &random) == 0 ? 9_000 : Int.random(in: 10..<500, using: &random)
        return String(decoding: (0..<count).map { _ in UInt8(97 + random.next() % 26) }, as: UTF8.self)
    }

    /// The fault of a record that has seen the first changes; `nil`: none.
    static func fault(ofRecord id: String, _ data: JSONObject) -> String? {
        let number = data["n"]?.int ?? 0
        let steps = data.names.compactMap { name in name.first == "s" ? Int64(name.dropFirst()) : nil }.sorted()
        guard steps == Array(1...max(1, number)) else { return "\(id) has n=\(number) and the changes \(steps)" }
        return data["t"]?.text == text(id, Int(number)) ? nil : "\(id) has n=\(number) and the text of another change"
    }

    /// The fault of a reading.
    static func fault(ofReading data: JSONObject) -> String? {
        let (name, number) =
            data["l"].flatMap(\.int).map { ("l\($0)", data["i"]?.int) } ?? ("r", data["r"]?.int)
        return data["t"]?.text == text(name, Int(number ?? 0)) ? nil : "a reading is not what was handed in: \(data.json.prefix(80))"
    }

    /// Lists of which some members are there and others are not, among these readings.
    static func fault(ofLists readings: [JSONObject]) -> String? {
        var members: [Int64: (Set<Int64>, Int64)] = [:]
        for data in readings {
            guard let list = data["l"]?.int, let index = data["i"]?.int, let count = data["c"]?.int else { continue }
            members[list, default: ([], count)].0.insert(index)
        }
        return members.first { Int64($1.0.count) != $1.1 }.map { "list \($0.key) has \($0.value.0.count) of \($0.value.1) members" }
    }

    /// Numbers of readings that are there twice.
    static func repeated(_ readings: [JSONObject]) -> String? {
        var seen: Set<String> = []
        for data in readings {
            let name = data["l"] == nil ? "r\(data["r"]?.int ?? 0)" : "l\(data["l"]?.int ?? 0).\(data["i"]?.int ?? 0)"
            guard seen.insert(name).inserted else { return "the reading \(name) is there twice" }
        }
        return nil
    }
}
