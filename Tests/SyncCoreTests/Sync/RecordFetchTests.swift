import Testing

@testable import SyncCore

@Suite("Fetching one record")
struct RecordFetchTests {
    private static let entity = EntityName(trusted: "work_orders")

    private static func fetch(_ id: String = "w-5") -> RecordFetch {
        RecordFetch(RecordName(entity, RecordID(trusted: id)), epoch: "e1")
    }

    private static func answer(
        _ ids: [String], after: String? = nil, hasMore: Bool = false, epoch: String? = "e1", entity: EntityName = entity
    ) -> HubReply {
        let records = ids.map { StreamPage.Record(id: RecordID(trusted: $0), record: HubRecord(version: 9, data: ["v": 1])) }
        let page = SnapshotPage(
            entity: entity, startCursor: "c", startVersion: 9, records: records,
            after: after.map { RecordID(trusted: $0) } ?? records.last?.id, hasMore: hasMore)
        return .answered(HubHeaders(epoch: epoch), body: SnapshotMessages.response(page))
    }

    // MARK: - The id before

    @Test(
        "Nothing lies between an id and the one before it",
        arguments: [("a-", "a"), ("b", "a" + String(repeating: "z", count: 63)), ("w-0", "w-." + String(repeating: "z", count: 61))])
    func predecessor(_ id: String, before: String) {
        #expect(RecordID(trusted: id).predecessor?.text == before)
    }

    @Test("The least id has none before it, and one of 64 characters stays within them")
    func ends() {
        #expect(RecordID(trusted: "-").predecessor == nil)
        let long = String(repeating: "m", count: 64)
        #expect(RecordID(trusted: long).predecessor?.text == String(repeating: "m", count: 63) + "l")
        // Each letter of ids, at the end of a short and of the longest id.
        for letter in "-.0123456789:ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz" {
            for id in ["x\(letter)", String(repeating: "x", count: 63) + "\(letter)"].compactMap({ RecordID($0) }) {
                let before = id.predecessor
                #expect(before.map { RecordID($0.text) == $0 && $0 < id } == true, "\(id)")
            }
        }
    }

    // MARK: - Answers

    @Test("The record is asked for as a listing of one, right before its id")
    func asks() {
        #expect(Self.fetch("w-5").request == SnapshotRequest(entity: Self.entity, after: RecordID(trusted: "w-5").predecessor, limit: 1))
        #expect(Self.fetch("-").request.after == nil)
    }

    @Test("The hub's record is found")
    func found() {
        let fetch = Self.fetch()
        guard case .found(let item) = fetch.handle(Self.answer(["w-5"], hasMore: true)) else {
            Issue.record("it is there")
            return
        }
        #expect(item.id.text == "w-5" && item.record.version == 9)
    }

    // Fault: the record after the wanted one is taken for it, or its absence is told in another way than that of a record of others.
    @Test("Another record, an end without one and a page that has passed the id are the same answer")
    func absent() {
        for reply in [
            Self.answer(["w-6"], hasMore: true), Self.answer([]), Self.answer([], after: "w-5", hasMore: true),
            Self.answer([], after: "w-7", hasMore: true),
        ] {
            let fetch = Self.fetch()
            #expect(fetch.handle(reply) == .absent)
        }
    }

    // No id lies between the place that is asked for and the id.
    @Test("A hub that stops before the place that it was asked for has failed")
    func stopsBefore() {
        guard case .failed = Self.fetch("w-5").handle(Self.answer([], after: "w-4zz1", hasMore: true)) else {
            Issue.record("it ends")
            return
        }
    }

    // Fault: a restored hub shows an older state with a higher number.
    @Test("An answer of another history, of another entity, a refusal and an answer that cannot be read bring nothing")
    func failures() {
        let damaged = HubReply.answered(HubHeaders(epoch: "e1"), body: Array("{".utf8))
        for reply in [
            Self.answer(["w-5"], epoch: "e2"), Self.answer(["w-5"], entity: EntityName(trusted: "other")), damaged,
            .refused(HubReply.Refusal(.overloaded, "the hub is busy")),
        ] {
            let fetch = Self.fetch()
            guard case .failed(let why) = fetch.handle(reply) else {
                Issue.record("\(reply)")
                continue
            }
            #expect(!why.isEmpty)
        }
    }
}
