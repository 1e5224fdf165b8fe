import LocalAPI
import SyncCore
import Testing

@Suite("Many refused changes at once")
struct BulkRetryTests {
    private static let item: MutationItem = {
        var item = MutationItem(
            id: "k-1", seq: 4, record: RecordName(EntityName(trusted: "notes"), RecordID(trusted: "n-1")), action: "update",
            state: "rejected",
            priority: "normal", problem: Problem("validation", status: 422, detail: "/status: one of open, closed"), app: "forms")
        item.data = #"{"status":"opne","n":3}"#
        return item
    }()

    @Test(
        "Conditions are about the data, as in a query",
        arguments: [
            ("status:eq:opne", true), ("data.status:eq:opne", true), ("n:gt:2", true), ("n:gt:3", false), ("missing:exists:true", false),
        ])
    func conditions(_ text: String, _ holds: Bool) throws {
        let filter = try #require(RecordFilter(text: text))
        #expect(BulkRetry(conditions: [filter]).chooses(Self.item) == holds)
        #expect(BulkRetry(code: "validation", entity: EntityName(trusted: "notes"), conditions: [filter]).chooses(Self.item) == holds)
        #expect(!BulkRetry(code: "deleted", conditions: [filter]).chooses(Self.item))
        #expect(!BulkRetry(entity: EntityName(trusted: "others"), conditions: [filter]).chooses(Self.item))
        var damaged = Self.item
        damaged.data = nil
        #expect(!BulkRetry(conditions: [filter]).chooses(damaged) && BulkRetry(code: "validation").chooses(damaged))
    }

    @Test("A correction is a field and JSON; what is told of a change says what it would be")
    func corrections() throws {
        #expect(BulkRetry.correction(#"status="open""#)?.value == "open")
        #expect(BulkRetry.correction("n=4")?.field == "n")
        #expect(BulkRetry.correction(#"a=b="c""#) == nil)
        for text in ["status=open", "=1", "status", "n=", "n={"] { #expect(BulkRetry.correction(text) == nil) }
        let bulk = BulkRetry(corrections: ["status": "open"])
        let body = try #require(try bulk.body(for: Self.item, cascades: true))
        #expect(body == RetryBody(data: ["status": "open"], cascades: true))
        #expect(try BulkRetry().body(for: Self.item, cascades: false) == RetryBody())
        #expect(
            bulk.line(Self.item, body, "would repeat")
                == #"would repeat k-1  update notes/n-1  validation: /status: one of open, closed  with {"status":"open"}"#)
    }

    @Test("Steps come before corrections; a change that no step concerns is not retried, unless a correction does")
    func steps() throws {
        let steps = try FieldSteps(reading: Array(#"[{"rename":{"status":"state"}},{"drop":"n"}]"#.utf8))
        let body = try #require(try BulkRetry(steps: steps).body(for: Self.item, cascades: false))
        #expect(body == RetryBody(data: ["state": "opne"], without: ["status", "n"]))
        #expect(
            BulkRetry().line(Self.item, body, "would retry").hasSuffix(#"  with {"state":"opne"}  without status, n"#))
        let both = BulkRetry(steps: steps, corrections: ["state": "open", "n": 4])
        #expect(try both.body(for: Self.item, cascades: false) == RetryBody(data: ["state": "open", "n": 4], without: ["status"]))

        let other = try FieldSteps(reading: Array(#"[{"rename":{"site":"site_id"}}]"#.utf8))
        #expect(try BulkRetry(steps: other).body(for: Self.item, cascades: false) == nil)
        #expect(try BulkRetry(steps: other, corrections: ["n": 4]).body(for: Self.item, cascades: false) == RetryBody(data: ["n": 4]))
    }
}
