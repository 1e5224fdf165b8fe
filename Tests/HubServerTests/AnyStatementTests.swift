import Foundation
import HubServer
import SyncCore
import SyncSQLite
import Testing

/// Edits by hand of a hub's database: every table emptied, every column of every table set to values that no program would write. The
/// database names its tables and columns, so that a new one is tried without being named here.
///
/// A deleted or edited row need not be noticed (the manual, Security). But the hub lives, answers, and reports rows that it cannot read,
/// and changes that it accepts from then on are there.
@Suite("Any statement of an operator's hand")
struct AnyStatementTests {
    static let values =
        ["NULL", "-1", "9223372036854775807", "-9223372036854775808", "'x'"]
        + (ProcessInfo.processInfo.environment["EDGE_SYNC_LONG"] == nil ? [] : ["0", "1", "''", "'[]'", "x'00'"])

    /// A hub that has a little of everything, closed.
    private static func closedHub(in folder: String) throws {
        let bench = try HubBench(place: .file("\(folder)/hub.db"))
        _ = bench.send("POST", "/v1/sync/hello", [:])
        _ = try bench.verdicts([
            Sent("k-1", .create, data: ["n": 1, "tags": ["a"]]), Sent("k-2", seq: 2, .create, id: "a-2", data: ["n": 1]),
            Sent("k-3", seq: 3, .create, id: "gone"), Sent("k-4", seq: 4, .delete, id: "gone", base: 1),
            Sent("k-5", seq: 5, .create, id: ""), Sent("k-6", seq: 6, .update, data: ["n": 2], base: 1, ms: 900),
        ])
        _ = try bench.verdict(Sent("j-1", .update, data: ["n": 3], base: 1, ms: 800).with("author", "tom"), device: .two)
        _ = bench.send(
            "POST", "/v1/uploads", nil,
            headers: [
                ("Tus-Resumable", "1.0.0"), ("Upload-Length", "10"),
                ("Upload-Metadata", "sha256 " + Data(String(repeating: "ab", count: 32).utf8).base64EncodedString()),
            ])
    }

    private static func run(_ sql: String, _ path: String) -> Bool {
        do throws(SQLiteError) {
            let connection = try SQLiteConnection(.writing(path))
            connection.wait(forLockMS: 2_000)
            try connection.execute(sql)
            return true
        } catch {
            return false
        }
    }

    private static func texts(_ sql: String, _ path: String) -> [String] {
        var found: [String] = []
        do throws(SQLiteError) {
            let connection = try SQLiteConnection(.reading(path))
            let statement = try connection.statement(of: sql)
            defer { statement.reset() }
            while try statement.step() { found.append(statement.text(0)) }
        } catch {
            return []
        }
        return found
    }

    private static let folder: String = {
        let path = NSTemporaryDirectory() + "/any-" + UUID().uuidString
        // `try!`: without it there is no test.
        try! FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
        try! closedHub(in: path)
        // `try?`: a folder left behind does no harm.
        atexit { try? FileManager.default.removeItem(atPath: AnyStatementTests.folder) }
        return path
    }()

    static let tables = texts(
        "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite%' ORDER BY name", folder + "/hub.db")

    /// - Returns: The forbidden behaviour of the hub, in sentences; empty for none.
    private static func exercise(_ bench: HubBench, _ round: Int) -> [String] {
        var found: [String] = []
        func note(_ what: String, _ response: HubResponse) {
            // 503 with its reason: the record, or the hub's own row, cannot be read.
            if response.status >= 500, response.status != 503 {
                found.append("\(what): \(response.status) \(String(decoding: response.body.prefix(300), as: UTF8.self))")
            }
        }
        note("hello", bench.send("POST", "/v1/sync/hello", [:]))
        let new = Sent("new-\(round)", seq: Int64(100 + round), .create, id: "new-\(round)", data: ["n": 1])
        let pushed = bench.push([
            new, Sent("k-1", .create, data: ["n": 1, "tags": ["a"]]),
            Sent("up-\(round)", seq: Int64(200 + round), .update, data: ["n": 9], base: 2),
        ])
        note("push", pushed)
        note("push of another", bench.push([Sent("other-\(round)", seq: Int64(100 + round), .create, id: "other-\(round)")], device: .two))
        let wasAccepted =
            (try? PushMessages.readResponse(pushed.body))?.results.first.map { if case .accepted = $0.verdict { true } else { false } }
            == true
        let pull: JSON = ["streams": [["entity": "audits", "cursor": nil]], "limit": 500, "unreadable": "named"]
        let page = bench.send("POST", "/v1/sync/pull", pull)
        note("pull", page)
        if wasAccepted, page.status == 200, !String(decoding: page.body, as: UTF8.self).contains("\"new-\(round)\"") {
            found.append("what was accepted is not there")
        }
        note("listing", bench.send("GET", "/v1/sync/snapshot?entity=audits&limit=500&unreadable=named"))
        note("known", bench.send("POST", "/v1/sync/known", ["keys": ["k-1", "nobody"]]))
        note("verify", bench.send("POST", "/v1/sync/verify", ["entity": "audits", "cursor": nil, "digest": []]))
        for target in ["/healthz", "/readyz", "/metrics", "/v1/blobs/" + String(repeating: "ab", count: 32)] {
            note(target, bench.send("GET", target))
        }
        _ = try? bench.hub.housekeep(at: bench.now)
        return found
    }

    @Test("The hub goes on or says why it does not, with it running and after a restart", arguments: tables)
    func any(_ table: String) throws {
        let copy = Self.folder + "/\(table)"
        try FileManager.default.createDirectory(atPath: copy, withIntermediateDirectories: true)
        let path = copy + "/hub.db"
        var statements = ["DELETE FROM \(table)"]
        for column in Self.texts("SELECT name FROM pragma_table_info('\(table)')", Self.folder + "/hub.db") {
            statements += Self.values.map { "UPDATE \(table) SET \(column) = \($0)" }
        }
        // `ANY_STATEMENT` selects the statements that contain its text.
        if let part = ProcessInfo.processInfo.environment["ANY_STATEMENT"] { statements.removeAll { !$0.contains(part) } }
        var tried = 0
        for sql in statements {
            for ending in ["", "-wal", "-shm"] {
                // Nothing of the one before may be left.
                try? FileManager.default.removeItem(atPath: path + ending)
                if FileManager.default.fileExists(atPath: Self.folder + "/hub.db" + ending) {
                    try FileManager.default.copyItem(atPath: Self.folder + "/hub.db" + ending, toPath: path + ending)
                }
            }
            do {
                let bench = try HubBench(seed: 2, place: .file(path))
                // A constraint refuses some of them, as it should.
                guard Self.run(sql, path) else { continue }
                tried += 1
                let found = Self.exercise(bench, 1)
                #expect(found == [], "\(sql), with the hub running")
            }
            do {
                let bench = try HubBench(seed: 3, place: .file(path))
                let found = Self.exercise(bench, 2)
                #expect(found == [], "\(sql), after a restart")
            } catch let error as HubError {
                // It does not start, and says what is wrong and where.
                #expect(!error.detail.isEmpty && !error.doing.isEmpty, "\(sql)")
            }
            do throws(HubError) {
                _ = try HubInspector(file: path).stats()
            } catch {
                #expect(!error.detail.isEmpty, "\(sql)")
            }
        }
        #expect(tried > 0 || statements.isEmpty)
    }
}
