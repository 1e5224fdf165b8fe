import Foundation
import SyncCore
import SyncStore
import Testing

/// Edits by hand of an agent's database: every table emptied, every column of every table set to values that no program would write. The
/// database names its tables and columns, so that a new one is tried without being named here.
///
/// Either the store reports that it is damaged, and another one is made of it (``DatabaseRescue``), or it works and sends all changes that
/// it accepts from then on.
@Suite("Any statement of an operator's hand, at the agent")
struct AnyStatementTests {
    static let values =
        ["NULL", "-1", "9223372036854775807", "-9223372036854775808", "'x'"]
        + (ProcessInfo.processInfo.environment["EDGE_SYNC_LONG"] == nil ? [] : ["0", "1", "''", "'[]'", "x'00'"])

    /// A file with a little of everything.
    private static let original: [UInt8]? = {
        guard let folder = try? TemporaryFolder(), let agent = try? TestAgent(in: folder, rules: TieTests.rules) else { return nil }
        do {
            try agent.pull([("s", 5, ["n": 1]), ("t", 6, ["n": 1])], entity: "site")
            let digest = BlobDigest(bytes: SHA256.hash(Array("x".utf8)))!
            let blob = try agent.store.addBlob(
                digest, size: 1, type: "a/b", filename: "x", by: agent.app, capacity: BlobCapacity(), at: agent.now)
            var shown = TestAgent.mutation(.update, "s", entity: "site")
            shown.blobs = [["field": "photo", "blob": .string(blob.row.id.description)]]
            try agent.enqueue(shown, appKey: AppKey(key: "k", fingerprint: [UInt8](repeating: 1, count: 16)))
            try agent.enqueue(TestAgent.mutation(.create, "u", entity: "site"))
            try agent.enqueue(TestAgent.mutation(.create, "v", ["site": "u"], entity: "visit"))
            try agent.enqueue(TestAgent.mutation(.create, "w", ["site": "nobody"], entity: "visit"))
            _ = try agent.list([TestAgent.mutation(.create, "l1", entity: "site"), TestAgent.mutation(.create, "l2", entity: "site")])
            let other = try agent.enqueue(TestAgent.mutation(.update, "t", ["n": 2], entity: "site", priority: .critical)).key
            #expect(try agent.claim(1).map(\.key) == [other])
            try agent.answer(.conflict(other, ["n"], .record(HubRecord(version: 9, data: ["n": 3]))))
            try agent.store.close(at: agent.now)
        } catch {
            Issue.record("\(error)")
        }
        return folder.bytes()
    }()

    static let tables: [String] = {
        guard let original, let folder = try? TemporaryFolder(), (try? folder.write(original)) != nil,
            let raw = try? RawDatabase(folder.database)
        else { return [] }
        let sql = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite%' ORDER BY name"
        return ((try? raw.rows(sql)) ?? []).compactMap(\.first).compactMap { $0 }
    }()

    private static func exercise(_ agent: TestAgent, _ round: Int) throws {
        let key = try agent.enqueue(TestAgent.mutation(.create, "new-\(round)", ["n": 1], entity: "site", priority: .critical)).key
        var version: Int64 = 1_000 * Int64(round)
        var sent: [MutationKey] = []
        for _ in 0..<20 {
            let batch = try agent.claim()
            if batch.isEmpty { break }
            sent += batch.map(\.key)
            let results = batch.map { mutation in
                version += 1
                return PushResult.accepted(mutation.key, version)
            }
            _ = try agent.store.applyResults(results, next: nil, at: agent.now)
        }
        #expect(sent.contains(key), "what was accepted is not sent")
        try agent.pull([("p-\(round)", version + 1, ["n": 1])], entity: "site", head: version + 10)
        _ = try agent.store.reads.facts(at: agent.now)
        _ = try agent.store.reads.waiting(limit: 100, at: agent.now)
        _ = try agent.store.loadStreams(at: agent.now)
        _ = try agent.store.housekeep(at: agent.now)
        _ = try agent.store.memory()
        _ = try agent.store.verify()
    }

    @Test("The store goes on or says that it is damaged, with it open and after a restart", arguments: tables)
    func any(_ table: String) throws {
        let original = try #require(Self.original)
        let folder = try TemporaryFolder()
        try folder.write(original)
        var statements = ["DELETE FROM \(table)"]
        for row in try RawDatabase(folder.database).rows("SELECT name FROM pragma_table_info('\(table)')") {
            statements += Self.values.map { "UPDATE \(table) SET \(row[0] ?? "") = \($0)" }
        }
        // To look at some of them alone.
        if let part = ProcessInfo.processInfo.environment["ANY_STATEMENT"] { statements.removeAll { !$0.contains(part) } }
        var tried = 0
        for sql in statements {
            let folder = try TemporaryFolder()
            try folder.write(original)
            for step in ["open", "restarted"] {
                do {
                    let agent = try TestAgent(in: folder, rules: TieTests.rules)
                    if step == "open" {
                        // A constraint refuses some of them, as it should.
                        guard (try? RawDatabase(folder.database).rows(sql)) != nil else { break }
                        tried += 1
                    }
                    try Self.exercise(agent, step == "open" ? 1 : 2)
                } catch let error as StoreError {
                    let isTold = [.corrupt, .notADatabase, .lostDatabase, .foreignFile, .newerSchema, .constraint, .other].contains(
                        error.code)
                    #expect(isTold, "\(sql), \(step): \(error)")
                }
            }
        }
        #expect(tried > 0 || statements.isEmpty, "\(table)")
    }
}
