import HubServer
import SyncCore
import Testing

/// A record in an answer costs the link as much as it is large: it is shown once, and no answer outgrows what a device reads.
@Suite("Records in the answer to a push", .eachEngine)
struct ShownRecordTests {
    /// A record that another device has changed since `.one` saw its first version.
    private func bench(_ text: String = "x") throws -> HubBench {
        let bench = try HubBench()
        _ = try bench.verdict(Sent("k-0", seq: 1, .create, data: ["n": 0, "text": .string(text)]))
        _ = try bench.verdict(Sent("other", .update, data: ["other": 1], base: 1), device: .two)
        return bench
    }

    /// Verdicts as a device takes them: a record that is shown, or the change on top of what it has.
    private func computed(_ results: [PushResult], of mutations: [MutationContent]) -> JSONObject? {
        var document: JSONObject?
        for (result, content) in zip(results, mutations) {
            guard case .accepted(_, _, let record, _) = result.verdict else { continue }
            document = record?.data ?? Fold.apply(content, to: document)
        }
        return document
    }

    @Test("The first verdict that needs it shows the record; from there the device computes what plain changes make of it")
    func once() throws {
        let bench = try bench()
        let results = try bench.verdicts((Int64(1)...5).map { Sent("k-\($0)", seq: $0 + 1, .update, data: ["n": .int($0)], base: 1) })
        #expect(results.map { $0.shows } == [true, false, false, false, false])
        #expect(results.map(\.verdict.version) == [3, 4, 5, 6, 7])
        let changes = (1...5).map { MutationContent(.update, data: ["n": .int($0)]) }
        #expect(computed(results, of: changes) == (try bench.data("audits", "a-1")))
    }

    @Test("A change of which the hub made something else shows the record again, and so does another record")
    func again() throws {
        let bench = try bench()
        _ = try bench.verdict(Sent("later", seq: 2, .update, data: ["n": 9], base: 2, ms: 5_000), device: .two)
        _ = try bench.verdict(Sent("b-0", seq: 2, .create, id: "b", data: ["n": 0]), device: .two)
        let results = try bench.verdicts([
            Sent("k-1", seq: 2, .update, data: ["text": "mine"], base: 1),
            // A later value of another device stands.
            Sent("k-2", seq: 3, .update, data: ["n": 1], base: 1),
            Sent("k-3", seq: 4, .update, data: ["text": "yours"], base: 1),
            Sent("k-4", seq: 5, .update, id: "b", data: ["m": 1], base: 0),
        ])
        #expect(results.map { $0.shows } == [true, true, false, true])
        #expect(try bench.data("audits", "a-1") == ["n": 9, "text": "yours", "other": 1])
    }

    // Fault: a device whose listing did not show a record made it again, and kept a document without what others had written.
    @Test("A creation of a record that is there shows it, though the device names its version")
    func madeAgain() throws {
        let bench = try bench()
        let results = try bench.verdicts([Sent("k-1", seq: 2, .create, data: ["n": 1], base: 2)])
        #expect(results.map { $0.shows } == [true])
        #expect(computed(results, of: [MutationContent(.create, data: ["n": 1])]) == (try bench.data("audits", "a-1")))
    }

    @Test("A refused atomic list leaves nothing shown")
    func group() throws {
        let bench = try bench()
        let results = try bench.verdicts([
            Sent("k-1", seq: 2, .update, data: ["n": 1], base: 1, group: "g"),
            Sent("k-2", seq: 3, .update, id: "none", data: ["n": 1], base: 1, group: "g"),
            Sent("k-3", seq: 4, .update, data: ["n": 3], base: 1),
        ])
        #expect(results.map { $0.shows } == [false, false, true])
    }

    @Test("Known keys of a large record show it until the answer has a megabyte of it, and are then accepted in their version")
    func repeats() throws {
        let text = String(repeating: "x", count: 100_000)
        let bench = try bench(text)
        let sent = (Int64(1)...40).map { Sent("k-\($0)", seq: $0 + 1, .update, data: ["n": .int($0)], base: 1) }
        let first = try bench.verdicts(sent)
        #expect(first.filter(\.shows).count == 1)
        _ = try bench.verdict(Sent("last", seq: 2, .update, data: ["other": 2], base: 42), device: .two)
        let response = bench.push(sent)
        #expect(response.body.count < 2 << 20)
        let again = try PushMessages.readResponse(response.body).results
        let shown = again.prefix { $0.verdict.word == "duplicate" }
        #expect(shown.count >= 10 && shown.count <= 12)
        for (index, result) in again.enumerated().dropFirst(shown.count) {
            #expect(result.verdict == .accepted(version: Int64(index + 3), serverID: nil, record: nil, merged: []))
        }
        // They count as what they are.
        #expect(bench.hub.head == 43)
        // Members of an atomic list share a version, so each is a repetition that shows the record.
        let list = (Int64(1)...20).map { Sent("g-\($0)", seq: 50 + $0, .update, data: ["g": .int($0)], base: 43, group: "g") }
        _ = try bench.verdicts(list)
        #expect(try Set(bench.verdicts(list).map(\.verdict.word)) == ["duplicate"])
    }

    @Test("An answer that is half full postpones the rest, which is as if it had never come")
    func postponed() throws {
        let bench = try HubBench()
        let text = JSON.string(String(repeating: "x", count: 100_000))
        let creates = (Int64(1)...120).map { Sent("c-\($0)", seq: $0, .create, id: "r-\($0)", data: ["text": text]) }
        for start in stride(from: 0, to: 120, by: 10) { _ = try bench.verdicts(Array(creates[start..<(start + 10)])) }
        for number in Int64(1)...120 {
            _ = try bench.verdict(
                Sent("o-\(number)", seq: number, .update, id: "r-\(number)", data: ["other": 1], base: number), device: .two)
        }
        let updates = (Int64(1)...120).map {
            Sent("u-\($0)", seq: 120 + $0, .update, id: "r-\($0)", data: ["n": 1], base: $0)
        }
        let response = bench.push(updates)
        #expect(response.body.count < Limits.hubAnswerBytes + (1 << 20))
        let results = try PushMessages.readResponse(response.body).results
        let accepted = results.prefix { $0.verdict.word == "accepted" }
        #expect(accepted.count > 80 && accepted.count < 90)
        #expect(Set(results.dropFirst(accepted.count).map(\.verdict.word)) == ["retry not-attempted"])
        #expect(try bench.verdicts(Array(updates.dropFirst(accepted.count))).allSatisfy { $0.verdict.word == "accepted" })
    }
}

extension PushResult {
    /// An acceptance that shows the record.
    fileprivate var shows: Bool {
        if case .accepted(_, _, .some, _) = verdict { true } else { false }
    }
}
