import Foundation
import HubPostgres
import HubServer
import PostgresStand
import SyncCore
import SyncLinux
import Testing

/// Several hubs over one database: what one of them did, the others know.
@Suite("Replicas", .needsPostgres)
struct ReplicaTests {
    @Test("A push that is repeated at another replica is a duplicate there, and what it made is there")
    func duplicates() throws {
        let bench = try ReplicaBench()
        let (a, b) = (try bench.hub(seed: 1), try bench.hub(seed: 2))
        #expect(a.hub.epoch == b.hub.epoch)
        let push = [Sent("k-1", .create, data: ["n": 1]), Sent("k-2", seq: 2, .update, data: ["m": 2], base: 1)]
        #expect(try a.verdicts(push).map(\.verdict.word) == ["accepted", "accepted"])
        #expect(try b.verdicts(push).map(\.verdict.word) == ["duplicate", "duplicate"])
        #expect(try b.data("audits", "a-1") == ["n": 1, "m": 2])
        #expect(try b.hub.stats().counters.json == ["applied": 2, "duplicates": 2, "conflicts": 0, "rejected": 0, "retried": 0])
        #expect(a.push([Sent("k-9", seq: 1, .create, id: "x")], maxSent: 1).status == 409, "the one remembers what the other was sent")
    }

    @Test("The same push at two replicas at once takes effect once")
    func atOnce() throws {
        let bench = try ReplicaBench()
        _ = try bench.hub()
        let push = (0..<20).map { Sent("k-\($0)", seq: Int64($0 + 1), .create, id: "a-\($0)") }
        let workers = (0..<4).map { _ in Worker { try bench.hub().verdicts(push).map(\.verdict.word) } }
        let words = try workers.map { try $0.join() }
        #expect(words.filter { $0 == Array(repeating: "accepted", count: 20) }.count == 1)
        #expect(words.filter { $0 == Array(repeating: "duplicate", count: 20) }.count == 3)
        #expect(try bench.hub().hub.stats().counters.applied == 20)
    }

    @Test("A cursor of one replica goes on at another, and a new history of one is one of all")
    func cursors() throws {
        let bench = try ReplicaBench()
        let (a, b) = (try bench.hub(seed: 1), try bench.hub(seed: 2))
        _ = try a.verdict(Sent("k-1", .create))
        let cursor = try b.follow("audits").cursor
        _ = try b.verdict(Sent("k-2", seq: 2, .create, id: "a-2"))
        #expect(try a.pull([("audits", cursor)]).pages.first?.records.map(\.id.text) == ["a-2"])
        try a.hub.startEpoch()
        #expect(try b.pull([("audits", cursor)]).errors.map(\.problem.code) == ["epoch-changed"])
        #expect(b.hub.epoch == a.hub.epoch)
    }

    @Test("A token given out by one replica is good at the next at once; one that is revoked is so everywhere")
    func tokens() throws {
        let bench = try ReplicaBench()
        var book = TokenBook()
        var random = SeededRandom(seed: 3)
        let oneTime = book.add(.one, .enrolment, life: .seconds(3_600), at: Timestamp(milliseconds: 1_795_208_400_000), using: &random)
        let a = try bench.hub(seed: 1, tokens: book)
        let b = try bench.hub(seed: 2, tokens: book)
        func pull(_ hub: HubBench, _ token: String) -> Int {
            hub.send("POST", "/v1/sync/pull", ["streams": []], headers: [("Authorization", "Bearer \(token)")]).status
        }
        #expect(pull(b, "est_nobody") == 401)
        let grant = a.send("POST", "/v1/devices/enroll", ["token": .string(oneTime)])
        let token = try DeviceMessages.readGrant(grant.body).token
        #expect(pull(b, token) == 200)
        #expect(a.send("POST", "/v1/devices/enroll", ["token": .string(oneTime)]).status == 401, "the other one noted that it was shown")
        #expect(try a.hub.tokens() == (try b.hub.tokens()))
        try b.hub.changeTokens { _ = $0.revoke(.one, at: b.now) }
        #expect(pull(a, token) == 403)
        #expect(try bench.hub(seed: 3, tokens: TokenBook()).hub.tokens() == (try a.hub.tokens()), "one that starts later reads the same")
    }

    @Test("A change of the tokens that is not committed has no effect on any replica")
    func tokensRolledBack() throws {
        let bench = try ReplicaBench()
        let (a, b) = (try bench.hub(tokens: TokenBook()), try bench.hub(tokens: TokenBook()))
        var random = SeededRandom(seed: 3)
        var lost = ""
        a.hub.beforeCommit = { false }
        #expect(throws: HubError.self) { try a.hub.changeTokens { lost = $0.add(.one, at: a.now, using: &random) } }
        a.hub.beforeCommit = nil
        var kept = ""
        try b.hub.changeTokens { kept = $0.add(.two, at: b.now, using: &random) }
        let book = try a.hub.tokens()
        #expect(book.find(lost) == nil && book.find(kept)?.device == .two)
    }

    @Test("An upload that began at one replica ends at another, and both have the file and the record that waited for it")
    func uploads() throws {
        let bench = try ReplicaBench()
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent("files-\(UUID().uuidString)").path
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(atPath: folder) }
        let hubs = [try bench.hub(seed: 1), try bench.hub(seed: 2)]
        for hub in hubs { hub.hub.settings.uploads = HubUploads(try BlobFiles(folder + "/blobs")) }
        let bytes = (0..<1_000).map { UInt8(truncatingIfNeeded: $0 &* 13) }
        let digest = try #require(BlobDigest(bytes: SHA256.hash(bytes)))
        func tus(_ hub: HubBench, _ method: String, _ target: String, _ headers: [(String, String)] = [], _ body: [UInt8] = [])
            -> HubResponse
        {
            var all: HTTPHeaders = [Tus.resumable: "1.0.0", "Sync-Device": "gw-1"]
            for (name, value) in headers { all[name] = value }
            return hub.hub.handle(HubRequest(method, target, headers: all, body: body), at: hub.now)
        }
        let waiting: JSON = ["$blob": .string(digest.description), "size": 1_000, "type": "image/jpeg", "state": "pending"]
        _ = try hubs[0].verdict(Sent("k-1", .create, data: ["photo": waiting]))
        let metadata = Tus.metadata([("filename", "p.jpg"), ("filetype", "image/jpeg"), ("sha256", digest.hex)])
        let place = try #require(tus(hubs[0], "POST", "/v1/files", [(Tus.length, "1000"), (Tus.metadata, metadata)]).headers["Location"])
        func patch(_ hub: HubBench, _ range: Range<Int>) -> HubResponse {
            tus(hub, "PATCH", place, [("Content-Type", Tus.contentType), (Tus.offset, "\(range.lowerBound)")], Array(bytes[range]))
        }
        #expect(patch(hubs[0], 0..<300).status == 204)
        #expect(tus(hubs[1], "HEAD", place).headers[Tus.offset] == "300")
        #expect(patch(hubs[1], 300..<700).status == 204)
        // The first one has an idea of its own of where the upload stands: what the database says goes before it.
        #expect(patch(hubs[0], 300..<700).status == 409)
        #expect(tus(hubs[0], "HEAD", place).headers[Tus.offset] == "700")
        #expect(patch(hubs[0], 700..<1_000).headers[Tus.reprDigest] == digest.field)
        for hub in hubs {
            #expect(tus(hub, "HEAD", "/v1/blobs/\(digest.hex)", [("Sync-Version", "1")]).status == 200)
            #expect(try hub.data("audits", "a-1")?["photo"]?.object?["state"] == "uploaded")
        }
    }

    @Test("A database that was replaced by an older copy is noticed by the hub that had seen more, which begins a new history")
    func wentBack() throws {
        let bench = try ReplicaBench()
        let (a, b) = (try bench.hub(seed: 1), try bench.hub(seed: 2))
        _ = try a.verdict(Sent("k-1", .create))
        let copy = try bench.server.backUp(schema: bench.schema)
        _ = try a.verdict(Sent("k-2", seq: 2, .create, id: "a-2"))
        let cursor = try a.follow("audits").cursor
        let epoch = a.hub.epoch
        try bench.server.restore(copy, schema: bench.schema)
        #expect(try a.pull([("audits", cursor)]).errors.map(\.problem.code) == ["epoch-changed"])
        #expect(a.hub.epoch != epoch && a.hub.head == 1)
        // The other one, which had seen no more than the copy has, goes by it.
        #expect(try b.pull([("audits", nil)]).epoch == a.hub.epoch)
        #expect(try b.verdict(Sent("k-2", seq: 2, .create, id: "a-2")).word == "accepted")
    }

    @Test("Text that a server's database cannot hold comes back as it was")
    func zeros() throws {
        let bench = try ReplicaBench()
        let hub = try bench.hub()
        let field = "a\u{10}0b"
        _ = try hub.verdict(Sent("k-1", .create, data: .object([field: 1])))
        _ = try hub.verdict(Sent("k-1", .update, data: .object([field: 2]), base: 1, ms: 900), device: .two)
        _ = try hub.verdict(Sent("k-2", seq: 2, .update, data: .object([field: 3]), base: 1, ms: 500))
        #expect(try hub.data("audits", "a-1") == [field: 2])
        #expect(try hub.hub.lostValues("audits").map(\.value.field).contains(field))
        #expect(try HubInspector(try PostgresPlace(bench.url)).lostValues(nil, nil, limit: 9) == hub.hub.lostValues("audits").reversed())
        // JSON with a NUL is refused at the door; the name of a field in the metadata of an upload is not JSON.
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent("zeros-\(UUID().uuidString)")
        defer { try? FileManager.default.removeItem(at: folder) }  // A folder left behind does no harm.
        hub.hub.settings.uploads = HubUploads(try BlobFiles(folder.path))
        let metadata = Tus.metadata([("entity", "audits"), ("record", "a-1"), ("field", "x\u{0}y")])
        let made = hub.send("POST", "/v1/files", headers: [(Tus.resumable, "1.0.0"), (Tus.length, "9"), (Tus.metadata, metadata)])
        #expect(made.status == 201)
        #expect(try bench.server.query("SELECT field FROM upload", schema: bench.schema) == [["x\u{10}0y"]])
    }

    @Test("Stats and export see a moment of a database that is being written")
    func inspector() throws {
        let bench = try ReplicaBench()
        let hub = try bench.hub()
        _ = try hub.verdicts([
            Sent("k-1", .create, id: "b", data: try JSONReader.read(#"{"price":1.10}"#)), Sent("k-2", seq: 2, .create, id: "B"),
            Sent("k-3", seq: 3, .create, id: "c"), Sent("k-4", seq: 4, .delete, id: "c"),
        ])
        let inspector = try HubInspector(try PostgresPlace(bench.url))
        #expect(try inspector.stats() == (try hub.hub.stats()))
        var lines: [String] = []
        try inspector.export("audits") {
            lines.append(String(decoding: $0, as: UTF8.self))
            return true
        }
        #expect(
            lines == [#"{"id":"B","version":2,"data":{}}"#, #"{"id":"b","version":1,"data":{"price":1.10}}"#], "by bytes, not by English")
        lines = []
        try inspector.export("audits") {
            lines.append(String(decoding: $0, as: UTF8.self))
            return false
        }
        #expect(lines.count == 1)
        #expect(try inspector.stats().head == 4, "one that stopped in the middle can go on")
        #expect(throws: HubError.self) { try HubInspector(try PostgresPlace(try bench.server.newURL())) }
    }
}
