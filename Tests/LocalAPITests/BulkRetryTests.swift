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
        #expect(bulk.body(cascades: true) == RetryBody(data: ["status": "open"], cascades: true))
        #expect(BulkRetry().body(cascades: false) == RetryBody())
        #expect(
            bulk.line(Self.item, "would repeat")
                == #"would repeat k-1  update notes/n-1  validation: /status: one of open, closed  with {"status":"open"}"#)
    }
}
