import HubServer
import SyncCore
import Testing

/// Stored documents are whole, or they are damage: never empty.
@Suite("Documents at the hub", .eachEngine)
struct DocumentTests {
    /// A document that operations build out of values which are all within the limits of input.
    struct Shape: Sendable, CustomTestStringConvertible {
        var testDescription: String
        var operation: FieldOperation
    }

    private static func nested(_ levels: Int) -> JSON { (0..<levels).reduce(1) { value, _ in [value] } }

    static let shapes = [
        Shape(testDescription: "an element of 31 levels put into a set", operation: .init("s", .add, nested(31))),
        Shape(testDescription: "an element of 32 levels put into a set", operation: .init("s", .add, nested(32))),
        Shape(
            testDescription: "an object of 32 levels behind a list",
            operation: .init("list", .append, (0..<32).reduce(1) { value, _ in ["a": value] })),
        Shape(testDescription: "a name of 60 control characters", operation: .init(String(repeating: "\u{1}", count: 60), .increment, 1)),
        Shape(testDescription: "a name of 200 quotes", operation: .init(String(repeating: "\"", count: 200), .increment, 1)),
        Shape(testDescription: "a name of 300 bytes", operation: .init(String(repeating: "n", count: 300), .append, "x")),
    ]

    private static func update(_ shape: Shape) -> Sent {
        let operation = shape.operation
        return Sent(
            "k-2", seq: 2, .update,
            ops: [["field": .string(operation.field), "op": .string(operation.kind.rawValue), "value": operation.value]],
            base: 1)
    }

    @Test("The hub rejects an operation whose result would exceed the limits, and leaves the record unchanged", arguments: shapes)
    func oversizedResultIsRejectedUnchanged(_ shape: Shape) throws {
        let bench = try HubBench()
        _ = try bench.verdict(Sent("k-1", .create, data: ["precious": 1, "b": 2, "list": []]))
        let results = try bench.verdicts([Self.update(shape), Sent("k-3", seq: 3, .update, data: ["later": 1], base: 1)])
        #expect(results.map(\.verdict.word) == ["rejected validation", "accepted"])
        #expect(results[0].verdict.problem?.errors.map(\.pointer) == ["/ops/0"])
        #expect(try bench.data("audits", "a-1") == ["precious": 1, "b": 2, "list": [], "later": 1])
    }

    @Test("A document of an earlier version that is past the limits is handed out, and later changes keep all of it", arguments: shapes)
    func earlierVersion(_ shape: Shape) throws {
        let rows = try HubRows()
        var bench: HubBench? = try HubBench(ablations: Ablations([.storedReadAsInput]), place: rows.place)
        let first = ["precious": 1, "b": 2, "list": []] as JSONObject
        #expect(
            try bench?.verdicts([Sent("k-1", .create, data: .object(first)), Self.update(shape)]).map(\.verdict.word) == [
                "accepted", "accepted",
            ])
        bench = nil
        let now = try HubBench(place: rows.place)
        let whole = try #require(Fold.apply(MutationContent(.update, operations: [shape.operation]), to: first))
        #expect(try now.data("audits", "a-1") == whole)
        #expect(try now.verdict(Sent("k-3", seq: 3, .update, data: ["later": 1], base: 2)).word == "accepted")
        var later = whole
        later["later"] = 1
        #expect(try now.data("audits", "a-1") == later)
        // The hub knows the mutation that made it so by its key.
        #expect(try now.verdict(Self.update(shape)) == .duplicate(original: .accepted, current: now.state("audits", "a-1")))
        #expect(try now.verdict(Sent("k-4", seq: 4, .update, unset: [shape.operation.field], base: 3)).word == "accepted")
        #expect(try now.data("audits", "a-1")?[shape.operation.field] == nil)
    }

    #if ABLATIONS
        @Test("The tests above would notice a reader with the limits of input", arguments: shapes)
        func control(_ shape: Shape) throws {
            let bench = try HubBench(ablations: Ablations([.storedReadAsInput]))
            _ = try bench.verdicts([Sent("k-1", .create, data: ["precious": 1, "list": []]), Self.update(shape)])
            _ = try bench.verdict(Sent("k-3", seq: 3, .update, data: ["later": 1], base: 2))
            #expect(try bench.data("audits", "a-1") == ["later": 1])
        }
    #endif

    // MARK: Damage

    @Test(
        "A damaged row makes its own mutations wait and stops its stream, and nothing else; publishing it repairs it",
        arguments: [
            ("data", #"'{"precious":1'"#), ("data", "'[]'"), ("exceptions", #"'{"n":[1]}'"#), ("exceptions", "'x'"),
            ("additions", #"'{"tags":[[1]]}'"#), ("hlc", "'never'"),
        ])
    func damage(_ column: String, _ value: String) throws {
        let rows = try HubRows()
        let bench = try HubBench(place: rows.place)
        let told = Told()
        bench.hub.report = { told.errors.append($0) }
        _ = try bench.verdicts([
            Sent("k-1", .create, id: "a-0", data: ["n": 1]), Sent("k-2", seq: 2, .create, data: ["precious": 1]),
            Sent("k-3", seq: 3, .create, id: "a-2", data: ["n": 1]), Sent("k-4", seq: 4, .create, "other", id: "o-1", data: ["n": 1]),
        ])
        try rows.run("UPDATE record SET \(column) = \(value) WHERE id = 'a-1'")

        let results = try bench.verdicts([
            Sent("k-2", seq: 2, .create, data: ["precious": 1]), Sent("k-5", seq: 5, .update, data: ["later": 1], base: 2),
            Sent("k-6", seq: 6, .update, id: "a-2", data: ["n": 2], base: 3),
        ])
        #expect(results.map(\.verdict.word) == ["retry record-damaged", "retry record-damaged", "accepted"])

        // Records before it in the feed are handed out. Then the stream stops, and the other one goes on.
        let first = try bench.pull([("audits", nil), ("other", nil)])
        #expect(first.pages.map { $0.records.map(\.id.text) } == [["a-0"], ["o-1"]])
        let page = try #require(first.pages.first)
        #expect(page.hasMore)
        let second = try bench.pull([("audits", page.cursor), ("other", nil)])
        #expect(second.errors.map(\.entity.text) == ["audits"] && second.errors.first?.problem.code == "record-damaged")
        #expect(second.pages.map(\.entity.text) == ["other"])
        #expect(
            bench.send("GET", "/v1/sync/snapshot?" + SnapshotMessages.query(SnapshotRequest(entity: "audits", after: nil, limit: 500)))
                .status == 503)
        #expect(told.errors.map(\.isDamage) == [true] && told.errors.first?.doing == "read the record audits/a-1", "\(told.errors)")
        #expect(String(decoding: bench.send("GET", "/metrics").body, as: UTF8.self).contains("\nagenthub_damaged_records 1\n"))

        // An operator sees it without the hub that serves, also before a device has asked for it: in sum, and by its name.
        let inspector = try rows.inspector()
        #expect(try inspector.stats().damaged == nil && inspector.stats().json.object?["damaged"] == .null)
        let damaged = try #require(try inspector.stats(checksRecords: true).damaged)
        #expect(damaged.count == 1 && damaged.first.map(\.record.description) == ["audits/a-1"] && damaged.first.first?.version == 2)
        #expect(damaged.first.first?.detail.contains(column) == true, "\(damaged)")
        #expect(try inspector.damagedRecords("audits", nil) == damaged && inspector.damagedRecords("audits", "a-1") == damaged)
        #expect(try inspector.damagedRecords("audits", "a-2").count == 0 && inspector.damagedRecords("other", nil).count == 0)
        #expect(try inspector.stats(checksRecords: true).json.object?["damaged"]?.object?["records"] == 1)
        #expect(damaged.first.first?.json.object?["kind"] == "damaged")

        // A device that understands unreadable records gets everything else, in both forms, with the names of the missing ones.
        let beside = try bench.pull([("audits", nil)], namesUnreadable: true)
        #expect(beside.pages.map { $0.records.map(\.id.text) } == [["a-0", "a-2"]] && beside.errors.isEmpty)
        #expect(beside.pages.map { $0.unreadable.map(\.text) } == [["a-1"]] && beside.pages.map(\.hasMore) == [false])
        let query = SnapshotMessages.query(SnapshotRequest(entity: "audits", after: nil, limit: 2, namesUnreadable: true))
        let listed = try SnapshotMessages.readResponse(bench.send("GET", "/v1/sync/snapshot?" + query).body)
        #expect(listed.records.map(\.id.text) == ["a-0"] && listed.unreadable.map(\.text) == ["a-1"])
        #expect(listed.hasMore && listed.after?.text == "a-1", "what is left out counts as a record of its page")
        let rest = SnapshotMessages.query(SnapshotRequest(entity: "audits", after: listed.after, limit: 2, namesUnreadable: true))
        let remainder = try SnapshotMessages.readResponse(bench.send("GET", "/v1/sync/snapshot?" + rest).body)
        #expect(remainder.records.map(\.id.text) == ["a-2"] && remainder.unreadable.isEmpty && !remainder.hasMore)

        try bench.hub.publish(RecordName("audits", "a-1"), ["precious": 1], at: bench.now)
        #expect(try rows.inspector().stats(checksRecords: true).damaged == DamagedRecords())
        #expect(
            try bench.pull([("audits", beside.pages.first?.cursor)], namesUnreadable: true).pages.map { $0.records.map(\.id.text) } == [
                ["a-1"]
            ])
        #expect(try bench.verdict(Sent("k-5", seq: 5, .update, data: ["later": 1], base: 2)).word == "accepted")
        #expect(try bench.data("audits", "a-1") == ["precious": 1, "later": 1])
    }

    @Test("A lost value that cannot be read is shown as the text that it is")
    func lostValue() throws {
        let rows = try HubRows()
        let bench = try HubBench(place: rows.place)
        _ = try bench.verdict(Sent("k-1", .create, data: ["n": 1]))
        _ = try bench.verdict(Sent("k-1", .update, data: ["n": 2], base: 1, ms: 900), device: .two)
        _ = try bench.verdict(Sent("k-2", seq: 2, .update, data: ["n": 3], base: 1, ms: 500))
        try rows.run("UPDATE lost_value SET value = '{\"n'")
        let lost = try inspector(rows.place).lostValues(nil, nil, limit: 10)
        #expect(lost.map { $0.json.object?["value"]?.text } == [#"{"n"#])
        #expect(lost.map { $0.json.object?["unreadable"]?.bool } == [true])
    }

    private func inspector(_ place: Hub.Place) throws -> HubInspector {
        switch place {
        case .memory: throw HubRows.Failure(what: "memory has no second reader")
        case .file(let path): try HubInspector(file: path)
        case .shared(let place): try HubInspector(place)
        }
    }

    private final class Told {
        var errors: [HubError] = []
    }

    @Test(
        "A document that no device could change is not published",
        arguments: [
            JSONObject(dictionaryLiteral: ("f", nested(32))), ["text": .string(String(repeating: "x", count: Limits.documentBytes))],
        ])
    func published(_ document: JSONObject) throws {
        let bench = try HubBench()
        #expect(throws: HubError.self) { try bench.hub.publish(RecordName("audits", "a-1"), document, at: bench.now) }
        #expect(try bench.data("audits", "a-1") == nil)
    }

    @Test("Fields that come and go under ever new names leave a bounded trace")
    func removals() throws {
        let bench = try HubBench()
        _ = try bench.verdict(Sent("k-0", .create, data: ["keep": 1]))
        var seq: Int64 = 1
        for round in 0..<6 {
            var data = JSONObject()
            for number in 0..<700 { data["r\(round)-\(number)"] = 1 }
            seq += 1
            #expect(try bench.verdict(Sent("s-\(round)", seq: seq, .update, data: .object(data), base: seq - 1)).word == "accepted")
            seq += 1
            #expect(try bench.verdict(Sent("u-\(round)", seq: seq, .update, unset: data.names, base: seq - 1)).word == "accepted")
        }
        let record = try #require(try bench.follow("audits").pages.flatMap(\.records).last?.record)
        #expect(record.data == ["keep": 1])
        #expect((record.fieldHLC?.count ?? 0) <= Limits.documentFields + 1)
    }
}

extension HubBench {
    func state(_ entity: EntityName, _ id: RecordID) throws -> HubState {
        let records = try follow(entity).pages.flatMap(\.records)
        return records.last { $0.id == id }.map { .record($0.record) } ?? .absent
    }
}
