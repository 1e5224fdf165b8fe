import LocalAPI
import SyncCore
import Testing

/// The output of `agentctl mutations list`, `rejected list`, `audit` and `sync --wait`.
@Suite("Screens of lists") struct ListScreenTests {
    private static let now = RFC3339.timestamp("2026-11-20T22:00:00Z") ?? Timestamp(milliseconds: 0)

    private static func item(
        _ seq: Int64, _ state: String, _ record: String, action: String = "update", problem: Problem? = nil,
        deferral: MutationItem.Deferral? = nil, attempts: Int64 = 0
    ) -> MutationItem {
        let parts = record.split(separator: "/").map(String.init)
        return MutationItem(
            id: "01a20560-1556-7776-8588-b0000000000\(seq)", seq: seq,
            record: RecordName(EntityName(trusted: parts[0]), RecordID(trusted: parts[1])), action: action, state: state,
            priority: "normal", attempts: attempts, deferral: deferral, problem: problem)
    }

    private static let mutations = [
        item(1, "done", "orders/wo-1", action: "create"),
        item(
            2, "pending", "orders/wo-2", deferral: .init(reason: "metered", until: RFC3339.timestamp("2026-11-20T22:05:00Z")),
            attempts: 3),
        item(
            3, "rejected", "audit_responses/pump-17.bearing",
            problem: Problem("validation", status: 422, detail: "status must be one of open, in progress, waiting, closed or cancelled")),
    ]

    @Test("Changes on 80 columns: ids whole, records as long as there is room, reasons below")
    func list() {
        #expect(
            MutationScreen.list(Self.mutations, width: 80, now: Self.now).joined(separator: "\n") == """
                SEQ  ID                                    STATE     RECORD
                  1  01a20560-1556-7776-8588-b00000000001  done      orders/wo-1
                  2  01a20560-1556-7776-8588-b00000000002  pending   orders/wo-2
                    waits: the link is metered, until 22:05:00Z
                  3  01a20560-1556-7776-8588-b00000000003  rejected  audit_responses/pump-17.be…
                    validation: status must be one of open, in progress, waiting, closed or
                    cancelled
                """)
        #expect(
            MutationScreen.list(Array(Self.mutations.prefix(2)), width: 160, now: Self.now).joined(separator: "\n") == """
                SEQ  ID                                    STATE    ACTION  RECORD       PRIORITY  ATTEMPTS  WHY
                  1  01a20560-1556-7776-8588-b00000000001  done     create  orders/wo-1  normal
                  2  01a20560-1556-7776-8588-b00000000002  pending  update  orders/wo-2  normal           3  waits: the link is metered, until 22:05:00Z
                """)
        #expect(MutationScreen.list([], now: Self.now) == ["no changes"])
    }

    @Test("A line for a script has everything, on one line")
    func line() {
        #expect(
            MutationScreen.line(Self.mutations[1])
                == "2  01a20560-1556-7776-8588-b00000000002  pending  update orders/wo-2  normal  attempts 3  waits: metered")
        #expect(
            MutationScreen.line(Self.mutations[2]).hasSuffix(
                "validation: status must be one of open, in progress, waiting, closed or cancelled"))
    }

    @Test("Only commands that work are offered for a refused change")
    func choices() {
        let id = "01a20560-1556-7776-8588-b00000000003"
        #expect(
            MutationScreen.choices(Self.mutations[2])
                == ["again: agentctl mutations retry \(id) [--cascade] [--data JSON]   drop it: agentctl rejected acknowledge \(id)"])
        let fell = Problem(Problem.groupRejected, status: 409, detail: "another mutation of the group was rejected")
        #expect(
            MutationScreen.choices(Self.item(3, "rejected", "orders/wo-3", problem: fell))[0]
                .hasPrefix("again: agentctl mutations retry \(id) --cascade [--data JSON]"), "one of a list alone is refused")
        let gone = Problem("deleted", status: 410, detail: "orders/wo-3 does not exist any more")
        let lines = MutationScreen.choices(Self.item(3, "rejected", "orders/wo-3", problem: gone))
        #expect(lines.contains("  agentctl enqueue orders wo-3 --data JSON"))
        #expect(lines.last == "drop it: agentctl rejected acknowledge \(id)")
        #expect(!lines.joined().contains("retry"), "it is refused as long as the record is deleted")
        let left = Problem(Problem.revoked, status: 403, detail: "the record left the share of this device")
        let parked = MutationScreen.choices(Self.item(3, "rejected", "orders/wo-3", problem: left))
        #expect(parked.count == 3 && parked[1] == "  agentctl mutations retry \(id) [--cascade]" && parked[0].contains("new grant"))
        #expect(MutationScreen.choices(Self.mutations[0]).isEmpty)
    }

    private static let decisions: [AuditAnswer.Item] = [
        .init(
            number: 9, at: RFC3339.timestamp("2026-11-20T21:59:58Z") ?? now, uid: 0, verb: "force", target: "", detail: #"{"scope":"all"}"#),
        .init(
            number: 10, at: RFC3339.timestamp("2026-11-19T08:00:00Z") ?? now, uid: 1_000, verb: "accept_deletions", target: "audits",
            detail: #"{"records":297}"#),
    ]

    @Test("Decisions: when, who, what, about what, and what was said")
    func audit() {
        #expect(
            AuditScreen.list(Self.decisions, width: 80, now: Self.now).joined(separator: "\n") == """
                 N  WHEN               WHO       WHAT              ABOUT   SAID
                 9  21:59:58Z          uid 0     force                     scope: all
                10  2026-11-19 08:00Z  uid 1000  accept_deletions  audits  records: 297
                """)
        #expect(
            AuditScreen.list(Self.decisions, width: 60, now: Self.now).joined(separator: "\n") == """
                 N  WHEN               WHO       WHAT              ABOUT
                 9  21:59:58Z          uid 0     force
                    scope: all
                10  2026-11-19 08:00Z  uid 1000  accept_deletions  audits
                    records: 297
                """)
        #expect(AuditScreen.line(Self.decisions[1]) == #"10  2026-11-19T08:00:00.000Z  uid 1000  accept_deletions audits  {"records":297}"#)
        #expect(AuditScreen.list([], now: Self.now) == ["no decisions"])
    }

    private static let offline = SyncAnswer.Outcome(
        result: "deferred", detail: "the hub does not answer", pushed: 0, pulled: 1_200,
        deferred: ["pull": "degraded", "normal": "degraded", "bulk": "metered"], bytesUp: 12, bytesDown: 3_400)

    @Test("A cycle: what went, why not more, and what waits by reason")
    func sync() {
        #expect(
            SyncScreen.render(Self.offline, width: 80).joined(separator: "\n") == """
                deferred: pushed 0, pulled 1,200, 12 B up, 3.4 KB down
                the hub does not answer
                normal, pull wait: the link is up, but the hub does not answer
                bulk waits: the link is metered
                """)
        #expect(
            SyncScreen.line(Self.offline)
                == "deferred: pushed 0, pulled 1,200, 12 B up, 3.4 KB down; the hub does not answer; bulk waits: metered; "
                + "normal waits: degraded; pull waits: degraded")
    }

    @Test("No line is wider than the screen, and none moves the cursor", arguments: [20, 40, 80, 200])
    func fits(_ width: Int) {
        var awkward = Self.mutations
        awkward[2].problem = Problem("validation", status: 422, detail: String(repeating: "x\u{1B}[2J\n日本 ", count: 100))
        var decisions = Self.decisions
        decisions[0].detail = #"{"reason":"\#(String(repeating: "日本 ", count: 100))"}"#
        decisions[1].detail = "not \u{1B} JSON"
        let lines =
            MutationScreen.list(awkward, width: width, now: Self.now) + AuditScreen.list(decisions, width: width, now: Self.now)
            + SyncScreen.render(Self.offline, width: width)
        for line in lines {
            #expect(PlainText.columns(line) <= width, "\(line)")
            #expect(line.unicodeScalars.allSatisfy { $0.value >= 0x20 && $0.value != 0x7F }, "\(line)")
        }
    }
}
