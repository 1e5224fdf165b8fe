import Foundation
import HubServer
import SyncCore
import SyncSQLite
import Testing

/// The database of a hub as a file, and its content after the end of the process.
@Suite("Storage")
final class StorageTests {
    let folder: URL

    init() throws {
        folder = FileManager.default.temporaryDirectory.appendingPathComponent("hub-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
    }

    deinit { try? FileManager.default.removeItem(at: folder) }

    var file: String { folder.appendingPathComponent("hub.db").path }

    @Test("Answered changes are there after the process is gone, under the same history")
    func survives() throws {
        var bench: HubBench? = try HubBench(place: .file(file))
        let epoch = bench?.hub.epoch
        let cursor = try bench?.follow("audits").cursor
        _ = try bench?.verdict(Sent("k-1", .create, data: ["n": 1]))
        bench = nil
        let again = try HubBench(seed: 9, place: .file(file))
        #expect(again.hub.epoch == epoch && again.hub.head == 1)
        #expect(try again.pull([("audits", cursor)]).pages.first?.records.map(\.id.text) == ["a-1"])
        #expect(try again.verdict(Sent("k-1", .create, data: ["n": 1])).word == "duplicate")
    }

    @Test("A hub that dies before its commit has done nothing, and the same request then goes through")
    func crashBeforeCommit() throws {
        var bench: HubBench? = try HubBench(place: .file(file))
        _ = try bench?.verdict(Sent("k-0", .create, id: "a-0"))
        bench?.hub.beforeCommit = { false }
        let batch = [Sent("k-1", seq: 2, .create), Sent("k-2", seq: 3, .update, id: "a-0", data: ["n": 1], base: 1)]
        let answer = bench?.push(batch)
        #expect(answer?.status == 503 && answer?.headers["Retry-After"] != nil)
        #expect(bench?.hub.head == 1)
        bench = nil
        let again = try HubBench(place: .file(file))
        #expect(again.hub.head == 1)
        #expect(try again.data("audits", "a-1") == nil)
        #expect(try again.hub.stats().counters.applied == 1)
        #expect(try again.verdicts(batch).map(\.verdict.word) == ["accepted", "accepted"])
    }

    @Test("After a failed commit the hub goes on where it was")
    func failedCommit() throws {
        let bench = try HubBench()
        bench.hub.beforeCommit = { false }
        #expect(bench.push([Sent("k-1", .create)]).status == 503)
        #expect(bench.send("POST", "/v1/sync/pull", ["streams": []]).status == 503)
        bench.hub.beforeCommit = nil
        #expect(try bench.verdict(Sent("k-1", .create)) == .accepted(version: 1, serverID: nil, record: nil, merged: []))
    }

    @Test("Several requests share one commit, each with its own answer; a failed commit fails all that needed it")
    func groupCommit() throws {
        let bench = try HubBench()
        func request(_ device: DeviceID, _ mutations: [Sent]) -> HubRequest {
            var headers: HTTPHeaders = [:]
            HubRequestHeaders(device: device, replica: "r").write(to: &headers)
            let body: JSON = ["mutations": .array(mutations.map { .object($0.json) })]
            return HubRequest("POST", "/v1/sync/push", headers: headers, body: body.bytes)
        }
        let requests = [
            request(.one, [Sent("k-1", .create)]), HubRequest("GET", "/v1/probe?n=x"),
            request(.two, [Sent("k-1", .update, data: ["n": 2])]),
            request(.one, [Sent("k-1", .create), Sent("k-1", .create)]),
        ]
        bench.hub.beforeCommit = { false }
        #expect(bench.hub.handle(requests, at: bench.now).map(\.status) == [503, 204, 503, 503], "all that needed it")
        bench.hub.beforeCommit = nil
        var commits = 0
        bench.hub.beforeCommit = {
            commits += 1
            return true
        }
        let answers = bench.hub.handle(requests, at: bench.now)
        #expect(answers.map(\.status) == [200, 204, 200, 400])
        #expect(commits == 1)
        #expect(answers.map { $0.headers["Sync-Head"] } == ["1", nil, "2", "2"])
        #expect(try bench.data("audits", "a-1") == ["n": 2])
    }

    @Test("A file that is not a hub's is refused and left as it was")
    func foreignFiles() throws {
        try Data("this is no database, and it is longer than a header of a hundred bytes: \(String(repeating: "x", count: 100))".utf8)
            .write(to: URL(fileURLWithPath: file))
        let before = try Data(contentsOf: URL(fileURLWithPath: file))
        #expect(throws: HubError.self) { try HubBench(place: .file(file)) }
        #expect(try Data(contentsOf: URL(fileURLWithPath: file)) == before)
        let missing = folder.appendingPathComponent("none/hub.db").path
        #expect(#expect(throws: HubError.self) { try HubBench(place: .file(missing)) }?.code == .database)
    }

    @Test("A database of a newer version is refused and left as it was")
    func newerSchema() throws {
        do { _ = try HubBench(place: .file(file)) }
        try SQLiteConnection(.writing(file)).execute("PRAGMA user_version = 99")
        let bytes = try Data(contentsOf: URL(fileURLWithPath: file))
        let refusal = #expect(throws: HubError.self) { try HubBench(place: .file(file)) }
        #expect(refusal?.code == .foreignDatabase)
        #expect(refusal?.description.contains("a newer agenthub wrote it") == true, "\(String(describing: refusal))")
        #expect(try Data(contentsOf: URL(fileURLWithPath: file)) == bytes)
        #expect(#expect(throws: HubError.self) { try HubInspector(file: file) }?.code == .foreignDatabase)
    }

    @Test("Lost values are listed with the newest last, of one record, of an entity or of all")
    func lost() throws {
        let bench = try HubBench(place: .file(file))
        for (index, id) in ["a", "b"].enumerated() {
            let seq = Int64(index * 2 + 1)
            _ = try bench.verdict(Sent("c-\(id)", seq: seq, .create, id: id, data: ["v": 1]))
            _ = try bench.verdict(
                Sent("w-\(id)", seq: seq, .update, id: id, data: ["v": 2], base: bench.hub.head, ms: 900).with("author", "tom"),
                device: .two)
            _ = try bench.verdict(Sent("l-\(id)", seq: seq + 1, .update, id: id, unset: ["v"], base: bench.hub.head - 1, ms: 500))
        }
        let inspector = try HubInspector(file: file)
        func ids(_ entity: EntityName?, _ id: RecordID?, limit: Int = 10) throws -> [String] {
            try inspector.lostValues(entity, id, limit: limit).map(\.record.id.text)
        }
        #expect(try ids(nil, nil) == ["a", "b"])
        #expect(try ids("audits", nil, limit: 1) == ["b"])
        #expect(try ids("audits", RecordID("a")) == ["a"])
        #expect(try ids("others", nil).isEmpty)
        let json = try #require(try inspector.lostValues("audits", RecordID("a"), limit: 1).first?.json.object)
        #expect(json["removed"] == true && json["value"] == nil && json["device"] == "gw-1" && json["author"] == .null, "\(json)")
    }

    @Test("Stats and export read beside a hub that is writing, and see what was committed")
    func inspector() throws {
        let bench = try HubBench(place: .file(file))
        _ = try bench.verdicts([
            Sent("k-1", .create, id: "b", data: try JSONReader.read(#"{"price":1.10}"#)), Sent("k-2", seq: 2, .create, id: "a"),
            Sent("k-3", seq: 3, .create, id: "c"), Sent("k-4", seq: 4, .delete, id: "c"), Sent("k-5", seq: 5, .update, id: "none"),
        ])
        _ = try bench.verdict(Sent("k-2", seq: 2, .create, id: "a"))
        let inspector = try HubInspector(file: file)
        var lines: [String] = []
        try inspector.export("audits") {
            lines.append(String(decoding: $0, as: UTF8.self))
            return true
        }
        #expect(lines == [#"{"id":"a","version":2,"data":{}}"#, #"{"id":"b","version":1,"data":{"price":1.10}}"#])
        let stats = try inspector.stats()
        #expect(stats == (try bench.hub.stats()))
        #expect(stats.counters.json == ["applied": 4, "duplicates": 1, "conflicts": 0, "rejected": 1, "retried": 0])
        #expect(stats.keys == 5 && stats.head == 4 && stats.epoch == bench.hub.epoch)
        #expect(stats.entities.map { [$0.records, $0.tombstones, $0.newest] } == [[2, 1, 4]])
        #expect(stats.devices.map(\.id) == ["gw-1"])
        // It does not hold the writer up.
        #expect(try bench.verdict(Sent("k-6", seq: 6, .create, id: "d")).word == "accepted")
        #expect(try inspector.stats().head == 5)
        #expect(throws: HubError.self) { try HubInspector(file: self.file + ".none") }
    }

    // MARK: Tokens

    @Test("The book of tokens holds no token, and comes back from its text as it was")
    func tokenBook() throws {
        var book = TokenBook()
        var random = SeededRandom(seed: 1)
        let now = Timestamp(milliseconds: 1_795_208_400_000)
        let first = book.add("gw-1", at: now, using: &random)
        let second = book.add("gw-1", at: now, using: &random)
        let other = book.add("gw-2", at: now, using: &random)
        #expect(Set([first, second, other]).count == 3 && first.utf8.count == 47)
        #expect(!book.text.contains(first.dropFirst(4)))
        var read = try TokenBook(reading: book.text)
        #expect(read == book)
        #expect(
            read.find(second)?.device == "gw-1" && read.find(other)?.device == "gw-2" && read.find(first + "x") == nil
                && read.find("") == nil)
        #expect(read.revoke("gw-1", at: now) == 2 && read.revoke("gw-1", at: now) == 0)
        #expect(read.isBlocked("gw-1") && !read.isBlocked("gw-2") && !read.isBlocked("gw-3"))
        // A revoked token stays in the book, so that its bearer hears why.
        let again = try TokenBook(reading: read.text)
        #expect(again.find(first)?.revokedAt == now)
        // A new token lets the device in again.
        _ = read.add("gw-1", at: now, using: &random)
        #expect(!read.isBlocked("gw-1"))
    }

    @Test(
        "A damaged book of tokens admits no device, and names the line",
        arguments: [
            "x", "{}", #"{"device":"a b","sha256":"00","created_at":"2026-11-20T21:00:00Z"}"#,
            #"{"device":"a","sha256":"zz","created_at":"2026-11-20T21:00:00Z"}"#,
            #"{"device":"a","sha256":"00","created_at":"2026-11-20T21:00:00Z"}"#,
        ])
    func damagedBook(_ line: String) {
        let error = #expect(throws: HubError.self) { try TokenBook(reading: "\n" + line + "\n") }
        #expect(error?.code == .badTokens)
        #expect(error?.detail.contains("line 2") == true)
    }
}
