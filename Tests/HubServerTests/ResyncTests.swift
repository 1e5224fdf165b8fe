import SyncCore
import Synchronization
import Testing

@testable import HubServer

/// PROTOCOL A6 and A8 at the hub: comparing from afar, listings of buckets, what is known after a restore, cloned devices.
@Suite("Resync", .eachEngine)
struct ResyncTests {
    private static func digest(_ bench: HubBench) throws -> EntityDigest {
        var digest = EntityDigest()
        for item in try bench.follow("audits").pages.flatMap(\.records) { digest.add(item.id, version: item.record.version) }
        return digest
    }

    private func verify(_ bench: HubBench, _ cursor: String, _ digest: EntityDigest) throws -> HubResponse {
        let body = VerifyMessages.request(VerifyRequest(entity: "audits", cursor: cursor, digest: digest))
        return bench.send("POST", "/v1/sync/verify", try JSONReader.read(body))
    }

    @Test("The same records compare as the same; one that is missing, too many or of another version is in its bucket")
    func compares() throws {
        let bench = try PullTests.filled(60)
        let cursor = try #require(try bench.follow("audits").cursor)
        let same = try Self.digest(bench)
        let verdict = try VerifyMessages.readResponse(try verify(bench, cursor, same).body)
        #expect(verdict.differs.isEmpty && verdict.startVersion == bench.hub.head)
        func bucket(_ id: String) -> UInt8 { EntityDigest.bucket(of: RecordID(trusted: id)) }
        var other = same
        other.add("too-many", version: 1)
        #expect(try VerifyMessages.readResponse(try verify(bench, cursor, other).body).differs == [bucket("too-many")])
        _ = try bench.verdict(Sent("u", seq: 100, .update, id: "a-7", data: ["n": 700], base: 8))
        _ = try bench.verdict(Sent("d", seq: 101, .delete, id: "a-9", base: 10))
        let changed = try VerifyMessages.readResponse(try verify(bench, cursor, same).body)
        #expect(changed.differs == Set([bucket("a-7"), bucket("a-9")]).sorted())
        #expect(try bench.pull([("audits", changed.startCursor)]).pages.isEmpty, "the feed goes on after all that was compared")
    }

    @Test("A listing of buckets has their records and no others, page by page")
    func buckets() throws {
        let bench = try PullTests.filled(80)
        let buckets = Set((0..<3).map { EntityDigest.bucket(of: RecordID(trusted: "a-\($0)")) }).sorted()
        let pages = try bench.list(SnapshotRequest(entity: "audits", after: nil, limit: 1, buckets: buckets))
        // A page ends by bytes as well, with one record at least, and goes on after it.
        let small = try bench.list(SnapshotRequest(entity: "audits", after: nil, limit: 100, buckets: buckets, maxBytes: 1))
        #expect(small.flatMap(\.records).map(\.id) == pages.flatMap(\.records).map(\.id))
        #expect(small.allSatisfy { $0.records.count <= 1 })
        #expect(pages.allSatisfy { $0.records.count <= 1 })
        let found = pages.flatMap(\.records).map(\.id.text)
        let expected = (0..<80).map { "a-\($0)" }.filter { buckets.contains(EntityDigest.bucket(of: RecordID(trusted: $0))) }.sorted()
        #expect(found == expected)
        #expect(bench.send("GET", "/v1/sync/snapshot?entity=audits&bucket=256").status == 400)
        #expect(bench.send("GET", "/v1/sync/snapshot?entity=audits&bucket=1,,2").status == 400)
    }

    @Test("A seed lists what passes the entity's filter for the device that asks, page by page, and nothing else")
    func seeds() throws {
        var rules = EntityRules()
        rules.seedFilter = SeedFilter(["assignee": SeedFilter.device])
        let bench = try HubBench(rules: RuleBook(["audits": rules]))
        for number in 0..<40 {
            let data: JSONObject = ["assignee": number.isMultiple(of: 7) ? "gw-1" : "gw-2", "n": .int(number)]
            _ = try bench.verdict(Sent("k-\(number)", seq: Int64(number + 1), .create, id: "a-\(number)", data: .object(data)))
        }
        func listed(_ device: DeviceID, entity: EntityName = "audits") throws -> [String] {
            let pages = try bench.list(SnapshotRequest(entity: entity, after: nil, limit: 2, isSeed: true), device: device)
            #expect(pages.allSatisfy { $0.records.count <= 2 && $0.total == nil })
            return pages.flatMap(\.records).map(\.id.text)
        }
        #expect(try listed("gw-1") == ["a-0", "a-14", "a-21", "a-28", "a-35", "a-7"])
        #expect(try listed("gw-2").count == 34)
        #expect(try listed("gw-3").isEmpty)
        _ = try bench.verdict(Sent("other", seq: 50, .create, "notes", id: "n-1"))
        #expect(try listed("gw-3", entity: "notes") == ["n-1"], "an entity without a filter is listed as a whole")
        #expect(bench.send("GET", "/v1/sync/snapshot?entity=audits&filter=mine").status == 400)
    }

    /// A hub with 4,100 records that do not pass the filter, and the record `z` that does.
    private static func sparse(_ filter: SeedFilter, passing value: JSON, others: JSON = "gw-2") throws -> HubBench {
        var rules = EntityRules()
        rules.seedFilter = filter
        let bench = try HubBench(rules: RuleBook(["audits": rules]))
        for batch in 0..<41 {
            _ = try bench.verdicts(
                (batch * 100..<batch * 100 + 100).map { number in
                    Sent("k-\(number)", seq: Int64(number + 1), .create, id: "a-\(number)", data: ["assignee": others])
                })
        }
        _ = try bench.verdict(Sent("k-z", seq: 5_000, .create, id: "z", data: ["assignee": value]))
        return bench
    }

    @Test("Where the filter has a text that JSON never escapes, the database finds the records, in one request")
    func scanned() throws {
        let bench = try Self.sparse(SeedFilter(["assignee": SeedFilter.device]), passing: "gw-1")
        let pages = try bench.list(SnapshotRequest(entity: "audits", after: nil, limit: 500, isSeed: true), device: "gw-1")
        #expect(pages.map { $0.records.map(\.id.text) } == [["z"]])
    }

    @Test("A text that is a part of those of others is found in one request", arguments: ["gw-1", ["gw-1"]] as [JSON])
    func parts(_ value: JSON) throws {
        let bench = try Self.sparse(SeedFilter(["assignee": SeedFilter.device]), passing: value, others: "gw-10")
        let pages = try bench.list(SnapshotRequest(entity: "audits", after: nil, limit: 500, isSeed: true), device: "gw-1")
        #expect(pages.map { $0.records.map(\.id.text) } == [["z"]])
    }

    @Test(
        "A filter finds numbers and truths, too", arguments: zip(["17", "17", "true", "1e5"], [17, "17", true, "1e5"] as [JSON]))
    func values(_ wanted: String, _ value: JSON) throws {
        let bench = try Self.sparse(SeedFilter(["assignee": wanted]), passing: value)
        let pages = try bench.list(SnapshotRequest(entity: "audits", after: nil, limit: 500, isSeed: true))
        #expect(pages.map { $0.records.map(\.id.text) } == [["z"]])
    }

    @Test("Where few pass, the database looks far beyond the first documents for the same page")
    func far() throws {
        let bench = try Self.sparse(SeedFilter(["assignee": SeedFilter.device]), passing: "gw-1")
        let database = bench.hub.store.database
        try database.execute(
            """
            INSERT INTO record(entity, id, version, data, hlc, writer, origin_key, updated_at_ms)
            WITH RECURSIVE numbers(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < \(10 * SearchPace.first.documents))
            SELECT 'audits', 'b-' || n, 1, '{"assignee":"gw-2"}', '0199c3f2a1b4-0007-9f2c11ab', 'gw-2', 'k', 1 FROM numbers
            """)
        try database.waitForWrites()
        let pages = try bench.list(SnapshotRequest(entity: "audits", after: nil, limit: 500, isSeed: true), device: "gw-1")
        #expect(pages.map { $0.records.map(\.id.text) } == [["z"]])
    }

    @Test("Where more pass than the page holds, it ends there and the listing goes on")
    func crowded() throws {
        let bench = try Self.sparse(SeedFilter(["assignee": "gw-2"]), passing: "gw-2")
        let pages = try bench.list(SnapshotRequest(entity: "audits", after: nil, limit: 1_000, isSeed: true))
        #expect(pages.map(\.records.count) == [1_000, 1_000, 1_000, 1_000, 101])
        #expect(pages.flatMap(\.records).map(\.id.text) == (0..<4_100).map { "a-\($0)" }.sorted() + ["z"])
    }

    @Test("The database looks through a bounded number of documents at a time, and says where it stopped")
    func eachLookIsBounded() throws {
        let bench = try HubBench()
        for number in 10..<50 {
            let data: JSONObject = ["tag": .string(number % 10 == 3 ? "x_1" : "other")]
            _ = try bench.verdict(Sent("k-\(number)", seq: Int64(number), .create, id: "a-\(number)", data: .object(data)))
        }
        /// The ids that are found, and then the id at which the search stopped.
        func find(after: String?, limit: Int) throws -> [String?] {
            let found = try bench.hub.store.listing(
                "audits", after: after.map { RecordID(trusted: $0) }, containing: "x_1",
                within: SearchPace.Bounds(documents: 15, bytes: .max), limit: limit)
            return found.rows.map(\.id.text) + [found.searchedTo?.text]
        }
        #expect(try find(after: nil, limit: 10) == ["a-13", "a-23", "a-24"])
        #expect(try find(after: "a-24", limit: 10) == ["a-33", "a-39"])
        #expect(try find(after: "a-39", limit: 10) == ["a-43", nil], "the end")
        #expect(try find(after: nil, limit: 1) == ["a-13", "a-13"], "as many as were asked for")
        #expect(try find(after: "a-49", limit: 10) == [nil])
    }

    @Test("Where the engine knows sizes, a look is bounded by bytes as well, has one document at least, and misses none")
    func eachLookIsBoundedByBytes() throws {
        let bench = try HubBench()
        let sizes = (0..<30).map { $0 == 12 ? 120_000 : $0.isMultiple(of: 3) ? 20_000 : 100 }
        for (number, size) in sizes.enumerated() {
            let data: JSONObject = [
                "tag": .string(number.isMultiple(of: 5) ? "x_1" : "other"), "text": .string(.init(repeating: "t", count: size)),
            ]
            _ = try bench.verdict(Sent("k-\(number)", seq: Int64(number + 1), .create, id: "a-\(number + 10)", data: .object(data)))
        }
        let knowsSizes = bench.hub.store.database.spelling.bytesOfDocuments != nil
        var (found, looks, after, done): ([String], [Int], RecordID?, Int) = ([], [], nil, 0)
        repeat {
            let look = try bench.hub.store.listing(
                "audits", after: after, containing: "x_1", within: SearchPace.Bounds(documents: 25, bytes: 50_000), limit: 10)
            let bytes = sizes[done..<(done + look.documents)].reduce(0) { $0 + $1 }
            #expect(!knowsSizes || bytes <= 50_000 || look.documents == 1, "\(done): \(bytes) bytes of \(look.documents)")
            found += look.rows.map(\.id.text)
            looks.append(look.documents)
            (after, done) = (look.searchedTo, done + look.documents)
        } while after != nil
        #expect(found == [10, 15, 20, 25, 30, 35].map { "a-\($0)" })
        #expect(done == 30 && (knowsSizes ? looks.count > 6 && looks.contains(1) : looks == [25, 5]), "\(looks)")
    }

    /// A clock that goes on by as much with each look at it.
    private final class Steps: TimeSource {
        private let step: Duration
        private let looks = Atomic<Int>(0)

        init(_ step: Duration) { self.step = step }

        func now() -> Moment {
            let instant = Instant(nanoseconds: 0).advanced(by: step * looks.add(1, ordering: .relaxed).newValue)
            return Moment(instant: instant, wall: Timestamp(milliseconds: 0))
        }
    }

    @Test("Where looking takes long, a page ends by time, and the next goes on there")
    func slow() throws {
        let bench = try Self.sparse(SeedFilter(["assignee": SeedFilter.device]), passing: "gw-1")
        // The first part has 2,000 documents, each further one half of the one before, and then the page has taken 6 s.
        bench.hub.settings.time = Steps(.seconds(2))
        let pages = try bench.list(SnapshotRequest(entity: "audits", after: nil, limit: 500, isSeed: true), device: "gw-1")
        let ids = (0..<4_100).map { "a-\($0)" }.sorted()
        try #require(pages.count == 2)
        #expect(pages[0].records.isEmpty && pages[0].hasMore && pages[0].after?.text == ids[3_499])
        #expect(pages[1].records.map(\.id.text) == ["z"] && !pages[1].hasMore)
    }

    @Test("Where little passes, a page ends early and says where the search goes on")
    func sparse() throws {
        let bench = try Self.sparse(SeedFilter(["assignee": "north east"]), passing: "north east")
        let pages = try bench.list(SnapshotRequest(entity: "audits", after: nil, limit: 500, isSeed: true))
        let searched = (0..<4_100).map { "a-\($0)" }.sorted()[3_999]
        try #require(pages.count == 2)
        #expect(pages[0].records.isEmpty && pages[0].hasMore && pages[0].after?.text == searched)
        #expect(pages[1].records.map(\.id.text) == ["z"] && !pages[1].hasMore)
    }

    @Test("A comparison with a cursor of another history or an old one is answered 410; what is no digest, 400")
    func refuses() throws {
        let bench = try PullTests.filled(3)
        let cursor = try #require(try bench.follow("audits").cursor)
        let digest = try Self.digest(bench)
        try bench.hub.startEpoch()
        #expect(try verify(bench, cursor, digest).status == 410)
        #expect(try verify(bench, "garbage", digest).status == 410)
        #expect(bench.send("POST", "/v1/sync/verify", ["entity": "audits", "at": "x", "buckets": "AAAA"]).status == 400)
        #expect(bench.send("POST", "/v1/sync/verify", ["entity": "audits", "buckets": .string(digest.text)]).status == 400)
        #expect(bench.send("GET", "/v1/sync/verify").status == 405)
    }

    @Test("The first page of several says how many records there are in all")
    func totals() throws {
        let bench = try PullTests.filled(5)
        #expect(try bench.pull([("audits", nil)], limit: 2).pages.first?.total == 5)
        #expect(try bench.pull([("audits", nil)]).pages.first?.total == nil)
        let first = try SnapshotMessages.readResponse(bench.send("GET", "/v1/sync/snapshot?entity=audits&limit=2").body)
        #expect(first.total == 5)
        let next = try SnapshotMessages.readResponse(bench.send("GET", "/v1/sync/snapshot?entity=audits&limit=2&after=a-1").body)
        #expect(next.total == nil)
    }

    @Test("After a restore, what the copy does not have as accepted is unknown, whatever else became of it")
    func known() throws {
        let bench = try HubBench()
        _ = try bench.verdicts([Sent("k-1", .create, id: "b"), Sent("k-d", seq: 2, .delete, id: "b", base: 1)])
        let copy = try bench.backUp()
        _ = try bench.verdict(Sent("k-2", seq: 3, .create, id: "b", base: 2))
        #expect(try bench.verdict(Sent("k-3", seq: 4, .update, id: "b", data: ["n": 1], base: 1)).word == "accepted")
        try bench.restore(copy)
        let answer = bench.send("POST", "/v1/sync/known", ["keys": ["k-1", "k-2", "k-3"]])
        #expect(try KnownMessages.readResponse(answer.body) == [MutationKey(trusted: "k-2"), MutationKey(trusted: "k-3")])
    }

    @Test("A push that is meant for another history is refused before anything of it is applied")
    func otherHistory() throws {
        let bench = try HubBench()
        let epoch = bench.hub.epoch
        let body: JSON = ["acked_seq": 0, "mutations": [.object(Sent("k-1", .create).json)]]
        try bench.hub.startEpoch()
        let refused = bench.send("POST", "/v1/sync/push", body, headers: [("Sync-Epoch", epoch)])
        #expect(refused.status == 410)
        #expect(bench.hub.head == 0)
        #expect(bench.send("POST", "/v1/sync/push", body, headers: [("Sync-Epoch", bench.hub.epoch)]).status == 200)
    }

    @Test("A copied card is told with the first word of the original after its copy has spoken; an older copy that was put back is not")
    func twinsAtOnce() throws {
        let bench = try HubBench()
        func hello(_ replica: ReplicaID, showing receipt: String?) -> HubResponse {
            bench.now = bench.now.advanced(by: .seconds(60))
            return bench.send("POST", "/v1/sync/hello", [:], replica: replica, headers: receipt.map { [(HubHeader.receipt, $0)] } ?? [])
        }
        let older = try #require(bench.push([Sent("k-1", .create)]).headers[HubHeader.receipt])
        let newest = try #require(bench.push([Sent("k-2", seq: 2, .create, id: "a-2")]).headers[HubHeader.receipt])
        // The copy finds out that it is one, and goes on under an id of its own.
        #expect(hello("r-2", showing: nil).status == 200)
        // The older state of the original is put back. It is asked to take a new id, too, and is no second machine.
        let refused = hello("r-1", showing: older)
        #expect(refused.status == 409 && refused.headers["Sync-Twins"] == nil)
        // The original itself: both are alive, and both are told, each with its next word.
        #expect(hello("r-2", showing: nil).headers["Sync-Twins"] == nil)
        let original = hello("r-1", showing: newest)
        #expect(original.status == 200 && original.headers["Sync-Twins"] == "2")
        #expect(hello("r-2", showing: nil).headers["Sync-Twins"] == "2")
    }

    @Test("Two databases that take turns under one name are told so; one that replaced another is not")
    func twins() throws {
        let bench = try HubBench()
        func speak(_ replica: ReplicaID) -> String? {
            bench.now = bench.now.advanced(by: .seconds(60))
            return bench.push([], maxSent: 0, replica: replica).headers["Sync-Twins"]
        }
        for _ in 0..<3 { #expect(speak("r-1") == nil) }
        // Restored: a new database, and late requests of the old one, which are refused.
        for replica in ["r-2", "r-2", "r-1", "r-1", "r-1", "r-2", "r-2"] { #expect(speak(ReplicaID(trusted: replica)) == nil) }
        // From now on they are let through: two machines must not make new ids for ever.
        for replica in ["r-1", "r-2"] { #expect(speak(ReplicaID(trusted: replica)) == nil) }
        _ = speak("r-1")
        #expect(speak("r-2") == "2")
        #expect(speak("r-1") == "2")
        // The other device was given a name of its own.
        bench.now = bench.now.advanced(by: .seconds(2 * 86_400))
        #expect(speak("r-1") == nil)
        #expect(bench.send("POST", "/v1/sync/hello", [:], device: .two, replica: "x-1").headers["Sync-Twins"] == nil)
    }
}
