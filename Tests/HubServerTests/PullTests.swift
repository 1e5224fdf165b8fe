import HubServer
import SyncCore
import Testing

/// PROTOCOL A3 and A8, sentence by sentence.
@Suite("Pull", .eachEngine)
struct PullTests {
    static func filled(_ count: Int, seed: UInt64 = 1) throws -> HubBench {
        let bench = try HubBench(seed: seed)
        for index in 0..<count {
            _ = try bench.verdict(Sent("k-\(index)", seq: Int64(index + 1), .create, id: "a-\(index)", data: ["n": .int(index)]))
        }
        return bench
    }

    @Test("A first sync without a cursor gives the live records and a cursor; then there is nothing new")
    func first() throws {
        let bench = try HubBench()
        _ = try bench.verdicts([
            Sent("k-1", .create, id: "a", data: ["n": 1]), Sent("k-2", seq: 2, .create, id: "b"), Sent("k-3", seq: 3, .delete, id: "b"),
        ])
        let response = try bench.pull([("audits", nil)])
        #expect(response.epoch == bench.hub.epoch && response.head == 3)
        let page = try #require(response.pages.first)
        #expect(page.records.map(\.id.text) == ["a"] && page.deletions.isEmpty && !page.hasMore)
        #expect(page.records[0].originDevice == "gw-1" && page.records[0].originKey == "k-1")
        #expect(page.records[0].record == HubRecord(version: 1, data: ["n": 1], hlc: Sent.hlc(100)))
        #expect(try bench.pull([("audits", page.cursor)]) == PullResponse(epoch: bench.hub.epoch, head: 3, pages: []))
    }

    @Test("An entity that is empty gives a cursor, so that the next pull sees deletions")
    func emptyEntity() throws {
        let bench = try HubBench()
        let cursor = try #require(try bench.pull([("audits", nil)]).pages.first?.cursor)
        _ = try bench.verdicts([Sent("k-1", .create, id: "a"), Sent("k-2", seq: 2, .delete, id: "a")])
        let deletion = try #require(try bench.pull([("audits", cursor)]).pages.first?.deletions.first)
        #expect(deletion.id == "a" && deletion.version == 2)
        // Device and time, for people who have to decide about it.
        #expect(deletion.originDevice == DeviceID.one.text && deletion.hlc.flatMap { HybridTime($0) } != nil)
    }

    @Test("A device that asks gets the names of the entities: those with records, and those of the configuration, but no events")
    func entities() throws {
        var rules = RuleBook()
        rules.entities[EntityName(trusted: "readings")] = {
            var rules = EntityRules(); rules.kind = .event; return rules
        }()
        rules.entities[EntityName(trusted: "zones")] = EntityRules()
        let bench = try HubBench(rules: rules)
        #expect(try bench.pull([], namesEntities: true).entities?.map(\.text) == ["zones"])
        _ = try bench.verdicts([
            Sent("k-1", .create, "orders", id: "o"), Sent("k-2", seq: 2, .create, "orders", id: "p"),
            Sent("k-3", seq: 3, .create, "audits", id: "a"),
            Sent("k-4", seq: 4, .create, "readings", id: "r"),
        ])
        #expect(try bench.pull([], namesEntities: true).entities?.map(\.text) == ["audits", "orders", "zones"])
        #expect(try bench.pull([("audits", nil)]).entities == nil, "it was not asked for")
        #expect(try bench.pull([("audits", nil)], namesEntities: true).pages.map(\.entity.text) == ["audits"])
    }

    @Test("Changes come in the order of their commits, each record once with its newest document")
    func newestOnly() throws {
        let bench = try Self.filled(3)
        let cursor = try bench.follow("audits").cursor
        _ = try bench.verdict(Sent("u-1", seq: 10, .update, id: "a-0", data: ["n": 10], base: 1))
        _ = try bench.verdict(Sent("u-2", seq: 11, .update, id: "a-2", data: ["n": 20], base: 3))
        _ = try bench.verdict(Sent("u-3", seq: 12, .update, id: "a-0", data: ["n": 30], base: 4))
        let page = try #require(try bench.pull([("audits", cursor)]).pages.first)
        #expect(page.records.map(\.id.text) == ["a-2", "a-0"])
        #expect(page.records.map { $0.record.data["n"]?.int } == [20, 30])
    }

    @Test("Pages of any size put together are the whole feed, each record once", arguments: [1, 2, 3, 7, 1_000])
    func pages(_ limit: Int) throws {
        let bench = try Self.filled(20)
        let (pages, _) = try bench.follow("audits", limit: limit)
        #expect(pages.flatMap(\.records).map(\.id.text) == (0..<20).map { "a-\($0)" })
        #expect(pages.allSatisfy { $0.records.count <= limit })
        #expect(pages.map(\.hasMore) == pages.indices.map { $0 < pages.count - 1 })
        #expect(Set(pages.map(\.cursor)).count == pages.count)
    }

    @Test("A page ends where a commit ends, up to twice as far as asked; a larger commit is split")
    func commitBoundaries() throws {
        let bench = try HubBench()
        let small = (0..<4).map { Sent("s-\($0)", seq: Int64($0 + 1), .create, id: "s-\($0)", group: "small") }
        let large = (0..<9).map { Sent("l-\($0)", seq: Int64($0 + 10), .create, id: "l-\($0)", group: "large") }
        _ = try bench.verdicts([Sent("k", .create, id: "first")] + small + large)
        let sizes = try bench.follow("audits", limit: 3).pages.map(\.records.count)
        #expect(sizes == [5, 6, 3])
        let ids = try bench.follow("audits", limit: 3).pages.flatMap(\.records).map(\.id.text)
        #expect(ids == ["first"] + (0..<4).map { "s-\($0)" } + (0..<9).map { "l-\($0)" })
    }

    @Test("Bytes end a page as well, but a record that is larger alone still comes")
    func bytes() throws {
        let bench = try HubBench()
        let text = JSON.string(String(repeating: "x", count: 5_000))
        _ = try bench.verdicts((0..<4).map { Sent("k-\($0)", seq: Int64($0 + 1), .create, id: "a-\($0)", data: ["t": text]) })
        let page = try #require(try bench.pull([("audits", nil)], maxBytes: 8_000).pages.first)
        #expect(page.records.count == 2 && page.hasMore)
        #expect(try bench.pull([("audits", nil)], maxBytes: 1).pages.first?.records.count == 1)
    }

    @Test("The limit counts over all streams; a stream that found no room waits where it was")
    func manyStreams() throws {
        let bench = try HubBench()
        let entities: [EntityName] = ["x", "y", "z", "empty"]
        for (index, entity) in entities.dropLast().enumerated() {
            _ = try bench.verdicts((0..<3).map { Sent("k-\(index)-\($0)", .create, entity.text, id: "i-\($0)") })
        }
        var cursors: [EntityName: String] = [:]
        var seen: [EntityName: [String]] = [:]
        var rounds = 0
        while true {
            rounds += 1
            let response = try bench.pull(entities.map { ($0, cursors[$0]) }, limit: 4)
            #expect(response.pages.reduce(0) { $0 + $1.records.count } <= 8)
            for page in response.pages {
                cursors[page.entity] = page.cursor
                seen[page.entity, default: []] += page.records.map(\.id.text)
            }
            if !response.pages.contains(where: \.hasMore) || rounds > 10 { break }
        }
        #expect(rounds == 3)
        for entity in entities.dropLast() { #expect(seen[entity] == ["i-0", "i-1", "i-2"]) }
        #expect(cursors.count == 4)
        #expect(try bench.pull(entities.map { ($0, cursors[$0]) }).pages.isEmpty)
    }

    @Test("Changes between two pages of a first sync are not missed, deletions included")
    func movingFeed() throws {
        let bench = try Self.filled(6)
        let first = try #require(try bench.pull([("audits", nil)], limit: 3).pages.first)
        #expect(first.records.map(\.id.text) == ["a-0", "a-1", "a-2"])
        _ = try bench.verdicts([
            Sent("d-0", seq: 20, .delete, id: "a-0", base: 1), Sent("d-4", seq: 21, .delete, id: "a-4", base: 5),
            Sent("u-1", seq: 22, .update, id: "a-1", data: ["n": 99], base: 2), Sent("c", seq: 23, .create, id: "new"),
        ])
        let rest = try bench.follow("audits", from: first.cursor, limit: 3).pages
        #expect(rest.flatMap(\.records).map(\.id.text) == ["a-3", "a-5", "a-1", "new"])
        #expect(rest.flatMap(\.deletions).map(\.id.text) == ["a-0", "a-4"])
    }

    @Test("A large commit that changes while it is being handed out in parts loses nothing")
    func movingCommit() throws {
        let bench = try HubBench()
        _ = try bench.verdicts((0..<6).map { Sent("k-\($0)", seq: Int64($0 + 1), .create, id: "a-\($0)", group: "g") })
        let first = try #require(try bench.pull([("audits", nil)], limit: 1).pages.first)
        #expect(first.records.map(\.id.text) == ["a-0", "a-1"])
        _ = try bench.verdicts([
            Sent("u-0", seq: 10, .update, id: "a-0", data: ["n": 1], base: 1),
            Sent("u-3", seq: 11, .update, id: "a-3", data: ["n": 1], base: 1),
        ])
        let rest = try bench.follow("audits", from: first.cursor, limit: 1).pages.flatMap(\.records).map(\.id.text)
        #expect(rest == ["a-2", "a-4", "a-5", "a-0", "a-3"])
    }

    @Test("Own writes come back in the feed: filtering them would lose what others merged on top")
    func echo() throws {
        let bench = try HubBench()
        let cursor = try bench.follow("audits").cursor
        _ = try bench.verdict(Sent("k-1", .create))
        #expect(try bench.pull([("audits", cursor)]).pages.first?.records.count == 1)
    }

    @Test("One stream that cannot go on does not stop the others")
    func partialErrors() throws {
        let bench = try Self.filled(1)
        let response = try bench.pull([("other", "nonsense"), ("audits", nil)])
        #expect(response.errors.map(\.entity) == ["other"])
        #expect(response.errors[0].problem.code == "cursor-expired")
        #expect(response.errors[0].problem.status == 410)
        #expect(response.errors[0].problem.members["resync"] == "snapshot")
        #expect(response.pages.map(\.entity) == ["audits"])
    }

    @Test("The form that a person can type gives the same page")
    func getForm() throws {
        let bench = try Self.filled(5)
        let typed = bench.send("GET", "/v1/sync/pull?entity=audits&cursor=&limit=2")
        let page = try #require(try PullMessages.readResponse(typed.body).pages.first)
        #expect(page == (try bench.pull([("audits", nil)], limit: 2).pages.first))
        let next = bench.send("GET", "/v1/sync/pull?entity=audits&limit=2&cursor=\(page.cursor)")
        #expect(try PullMessages.readResponse(next.body).pages.first?.records.map(\.id.text) == ["a-2", "a-3"])
        for bad in ["", "?entity=", "?entity=a%20b", "?entity=a&limit=0", "?entity=a&limit=x", "?cursor=x"] {
            #expect(bench.send("GET", "/v1/sync/pull" + bad).problem?.code == "malformed")
        }
    }

    @Test("Payloads come back as they were sent, digit for digit and form for form")
    func exactPayload() throws {
        let bench = try HubBench()
        let data = try JSONReader.read(#"{"big":9007199254740993,"price":1.10,"e":"\u0065\u0301","z":1E400,"é":"é"}"#)
        _ = try bench.verdict(Sent("k-1", .create, data: data))
        #expect(try bench.data("audits", "a-1")?.json == data.json)
    }

    // MARK: Tombstones and the horizon

    @Test("A cursor that has not seen a forgotten deletion is refused; one that has goes on")
    func horizon() throws {
        let bench = try Self.filled(3)
        let before = try bench.follow("audits").cursor
        _ = try bench.verdict(Sent("d", seq: 9, .delete, id: "a-0", base: 1))
        let after = try bench.follow("audits", from: before).cursor
        let half = try #require(try bench.pull([("audits", nil)], limit: 1).pages.first?.cursor)
        #expect(try bench.hub.collectTombstones(before: bench.now) == 0)
        bench.now = bench.now.advanced(by: .seconds(91 * 86_400))
        try bench.hub.housekeep(at: bench.now)
        #expect(try bench.pull([("audits", before)]).errors.first?.problem.code == "cursor-expired")
        #expect(try bench.pull([("audits", after)]).errors.isEmpty)
        // A first sync under way never had the record, so it may go on.
        #expect(try bench.follow("audits", from: half).pages.flatMap(\.records).map(\.id.text) == ["a-2"])
        // Other entities keep their cursors.
        #expect(try bench.hub.stats().entities.map(\.tombstones) == [0])
    }

    @Test("The first page of a listing of all counts the deletions of the entity, also those that are forgotten")
    func deletedTotal() throws {
        let bench = try Self.filled(5)
        func counted(_ request: SnapshotRequest = SnapshotRequest(entity: "audits", after: nil, limit: 2)) throws -> [Int64?] {
            try bench.list(request).map(\.deletedTotal)
        }
        #expect(try counted() == [0, nil, nil])
        for number in 0..<3 {
            _ = try bench.verdict(Sent("d\(number)", seq: Int64(9 + number), .delete, id: "a-\(number)", base: Int64(1 + number)))
        }
        #expect(try counted() == [3])
        #expect(try bench.hub.collectTombstones(before: bench.now.advanced(by: .seconds(1))) == 3)
        _ = try bench.verdict(Sent("d9", seq: 20, .delete, id: "a-4", base: 5))
        #expect(try counted() == [4])
        #expect(try bench.hub.collectTombstones(before: bench.now.advanced(by: .seconds(1))) == 1)
        #expect(try counted() == [4])
        var parts = SnapshotRequest(entity: "audits", after: nil, limit: 2)
        parts.buckets = [1, 2]
        #expect(try counted(parts) == [nil])
        #expect(try counted(SnapshotRequest(entity: "other", after: nil, limit: 2)) == [0])
    }

    @Test("A device that recreates a record whose deletion is forgotten gets the present record: an old copy may still be there")
    func createOverForgotten() throws {
        let bench = try HubBench()
        _ = try bench.verdict(Sent("k", .create, data: ["old": true]), device: .two)
        _ = try bench.verdict(Sent("d", seq: 2, .delete, base: 1), device: .two)
        guard case .accepted(_, _, nil, _) = try bench.verdict(Sent("n", seq: 3, .create, id: "a-2"), device: .two) else {
            Issue.record("nothing is forgotten yet: the device can compute what it made")
            return
        }
        #expect(try bench.hub.collectTombstones(before: bench.now.advanced(by: .seconds(1))) == 1)
        guard case .accepted(_, _, let record?, _) = try bench.verdict(Sent("c", .create, data: ["new": true])) else {
            Issue.record("the record was expected with the verdict")
            return
        }
        #expect(record.data == ["new": true])
    }

    @Test("Without the horizon a device keeps a record that is gone")
    func horizonIgnored() throws {
        let bench = try HubBench(ablations: Ablations([.horizonIgnored]))
        _ = try bench.verdict(Sent("k", .create))
        let cursor = try bench.follow("audits").cursor
        _ = try bench.verdict(Sent("d", seq: 2, .delete, base: 1))
        #expect(try bench.hub.collectTombstones(before: bench.now.advanced(by: .seconds(1))) == 1)
        #expect(try bench.pull([("audits", cursor)]).errors.isEmpty)
    }

    // MARK: Cursors

    @Test("A cursor that was changed anywhere is refused, never believed")
    func tampering() throws {
        let bench = try Self.filled(3)
        let cursor = try #require(try bench.pull([("audits", nil)], limit: 1).pages.first?.cursor)
        var random = SeededRandom(seed: 5)
        let alphabet = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")
        for place in cursor.indices {
            var changed = cursor
            let other = alphabet.filter { $0 != cursor[place] }.randomElement(using: &random) ?? "A"
            changed.replaceSubrange(place...place, with: [other])
            let response = try bench.pull([("audits", changed)])
            #expect(response.pages.isEmpty && response.errors.count == 1, "position \(cursor.distance(from: cursor.startIndex, to: place))")
        }
        for broken in ["", "A", "=", cursor + "=", String(cursor.dropLast()), cursor + "A", "é", String(repeating: "A", count: 100_000)] {
            let response = try bench.pull([("audits", broken)])
            #expect(response.pages.isEmpty && response.errors.first?.problem.status == 410)
        }
    }

    @Test("A cursor of another entity or another hub is refused, and says which")
    func foreignCursors() throws {
        let bench = try Self.filled(3)
        let cursor = try bench.follow("audits").cursor
        #expect(try bench.pull([("other", cursor)]).errors.first?.problem.code == "cursor-expired")
        let other = try Self.filled(3, seed: 2)
        #expect(try other.pull([("audits", cursor)]).errors.first?.problem.code == "epoch-changed")
    }

    @Test("A cursor stays within its limit with the longest names")
    func longest() throws {
        let bench = try HubBench()
        let name = String(repeating: "e", count: 64)
        let ids = (0..<3).map { String(repeating: "x", count: 63) + "\($0)" }
        _ = try bench.verdicts(ids.enumerated().map { Sent("k-\($0)", seq: Int64($0 + 1), .create, name, id: $1, group: "g") })
        let page = try #require(try bench.pull([(EntityName(trusted: name), nil)], limit: 1).pages.first)
        #expect(page.hasMore && page.cursor.utf8.count <= 512)
        #expect(try bench.follow(EntityName(trusted: name), limit: 1).pages.flatMap(\.records).count == 3)
    }

    // MARK: Listings

    @Test("A listing gives the live records by id, and the cursor of its start repairs what moved meanwhile")
    func listing() throws {
        let bench = try Self.filled(5)
        _ = try bench.verdict(Sent("d", seq: 9, .delete, id: "a-3", base: 4))
        func page(_ after: String?) throws -> SnapshotPage {
            let response = bench.send("GET", "/v1/sync/snapshot?entity=audits&limit=2" + (after.map { "&after=\($0)" } ?? ""))
            return try SnapshotMessages.readResponse(response.body)
        }
        let first = try page(nil)
        #expect(first.records.map(\.id.text) == ["a-0", "a-1"] && first.hasMore && first.startVersion == 6)
        _ = try bench.verdicts([
            Sent("d-1", seq: 10, .delete, id: "a-0", base: 1), Sent("c", seq: 11, .create, id: "a-00"),
            Sent("u", seq: 12, .update, id: "a-4", data: ["n": 9], base: 5),
        ])
        let second = try page(first.after?.text)
        #expect(second.records.map(\.id.text) == ["a-2", "a-4"] && !second.hasMore)
        let moved = try bench.follow("audits", from: first.startCursor).pages
        #expect(moved.flatMap(\.deletions).map(\.id.text) == ["a-0"])
        #expect(moved.flatMap(\.records).map(\.id.text) == ["a-00", "a-4"])
    }

    @Test("A listing of large documents ends its pages early and loses none")
    func largeListing() throws {
        let bench = try HubBench()
        let text = JSON.string(String(repeating: "x", count: 100_000))
        for index in 0..<25 {
            _ = try bench.verdict(Sent("k-\(index)", seq: Int64(index + 1), .create, id: "a-\(index + 10)", data: ["t": text]))
        }
        var ids: [String] = []
        var after: String?
        var pages = 0
        repeat {
            let response = bench.send("GET", "/v1/sync/snapshot?entity=audits&limit=1000" + (after.map { "&after=\($0)" } ?? ""))
            let page = try SnapshotMessages.readResponse(response.body)
            ids += page.records.map(\.id.text)
            after = page.hasMore ? page.after?.text : nil
            pages += 1
        } while after != nil && pages < 30
        #expect(ids == (0..<25).map { "a-\($0 + 10)" } && pages == 3)
    }
}
