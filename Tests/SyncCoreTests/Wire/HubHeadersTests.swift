import SyncCore
import Testing

@Suite("Headers of the protocol")
struct HubHeadersTests {
    static let now = Timestamp(milliseconds: 1_795_208_400_000)  // Fri, 20 Nov 2026 21:00:00 GMT

    @Test("The agent reads the hub's header fields back unchanged")
    func agentReadsTheFieldsOfTheHub() {
        let sent = HubHeaders(
            time: Self.now, epoch: "7f3a", head: 90_211, deviceSeq: 412, config: 43, retryAfter: .milliseconds(1_500))
        var headers: HTTPHeaders = [:]
        sent.write(to: &headers)
        var read = HubHeaders(reading: headers, now: Timestamp(milliseconds: 0))
        #expect(read.retryAfter == .seconds(2))  // Whole seconds, never earlier than meant.
        read.retryAfter = sent.retryAfter
        #expect(read == sent)
        #expect(headers["sync-time"] == "1795208400000")
    }

    @Test("The hub reads the agent's header fields back unchanged, and the version also under its literal name")
    func hubReadsTheFieldsOfTheAgent() {
        var sent = HubRequestHeaders(
            device: DeviceID(trusted: "gw-17"), replica: ReplicaID(trusted: "r-1"), session: "s-1", config: 42, epoch: "e-1",
            waiting: 3, receipt: "cjE_-")
        sent.schemas = SchemaNumbers([EntityName(trusted: "audits"): 2])
        for member in Mirror(reflecting: sent).children where member.label != "schemas" && member.label != "abilities" {
            #expect(
                Mirror(reflecting: member.value).children.count == 1, "\(member.label ?? "") is missing, so this test says nothing of it")
        }
        var headers: HTTPHeaders = [:]
        sent.write(to: &headers)
        #expect(HubRequestHeaders(reading: headers) == sent)
        // A server takes over these alone.
        #expect(headers.fields.allSatisfy { HubRequestHeaders.names.contains($0.name) })
        #expect(HubRequestHeaders(reading: ["sync_version": "1"]).version == "1")
        #expect(HubRequestHeaders(reading: []).version == nil)
    }

    @Test(
        "Abilities are names with commas between; unknown ones are skipped, and without the field there are none",
        arguments: [
            ("revocations", true), (" time-travel ,revocations", true), ("time-travel,\trevocations ", true), ("revocation", false),
            ("Revocations", false), ("", false), (",,", false), ("re vocations", false),
        ])
    func abilities(_ text: String, _ isAble: Bool) {
        #expect(HubRequestHeaders(reading: ["Sync-Can": text]).abilities == (isAble ? [.revocations] : []))
        #expect(HubRequestHeaders(reading: []).abilities.isEmpty)
        // A list of any length costs little, and agents of this program name everything they can do.
        #expect(AgentAbility.read(String(repeating: "x,", count: 100_000) + "revocations").isEmpty)
        var headers: HTTPHeaders = [:]
        HubRequestHeaders().write(to: &headers)
        #expect(headers["Sync-Can"] == "revocations")
        var none = HubRequestHeaders()
        none.abilities = []
        none.write(to: &headers)
        #expect(headers["Sync-Can"] == nil)
    }

    @Test(
        "A value that is not as agreed reads as missing",
        arguments: ["", " ", "-1", "+1", "1.5", "0x5", "99999999999999999999", "9007199254740993", "12abc", "１２"])
    func nonsense(_ value: String) {
        let read = HubHeaders(
            reading: [
                ("Sync-Time", value), ("Sync-Head", value), ("Sync-Device-Seq", value), ("Sync-Config", value),
                ("Sync-Epoch", value + "\u{7}"), ("Retry-After", value == "99999999999999999999" ? "x" : value),
            ].reduce(into: HTTPHeaders([])) { $0.append($1.0, $1.1) }, now: Self.now)
        #expect(read.time == nil && read.head == nil && read.deviceSeq == nil && read.config == nil && read.epoch == nil)
        #expect(read.retryAfter == nil || value == "9007199254740993")
    }

    struct Wait: Sendable {
        let text: String
        let seconds: Int?
    }

    @Test(
        "Retry-After is seconds or a date; garbage is none",
        arguments: [
            Wait(text: "0", seconds: 0), Wait(text: "120", seconds: 120), Wait(text: "99999999999", seconds: 3_155_760_000),
            Wait(text: "99999999999999999999999", seconds: 3_155_760_000),
            Wait(text: "Fri, 20 Nov 2026 21:02:00 GMT", seconds: 120), Wait(text: "Friday, 20-Nov-26 21:02:00 GMT", seconds: 120),
            Wait(text: "Fri Nov 20 21:02:00 2026", seconds: 120), Wait(text: "Fri Nov  6 21:02:00 2026", seconds: 0),
            Wait(text: "Thu, 01 Jan 1970 00:00:00 GMT", seconds: 0),
            Wait(text: "-5", seconds: nil), Wait(text: "soon", seconds: nil), Wait(text: "", seconds: nil),
            Wait(text: "1.5", seconds: nil), Wait(text: "Fri, 31 Feb 2026 21:02:00 GMT", seconds: nil),
            Wait(text: "Fri, 20 Nov 2026 25:02:00 GMT", seconds: nil), Wait(text: "Fri, 20 Nov 2026 21:02:00 CET", seconds: nil),
            Wait(text: "Fri, 20 Nov 999999999999999999999 21:02:00 GMT", seconds: nil), Wait(text: ",,,", seconds: nil),
        ])
    func retryAfter(_ example: Wait) {
        #expect(HubHeaders.retryAfter(example.text, sentAt: Self.now) == example.seconds.map { .seconds($0) })
    }

    @Test("A date is measured against the sender's own clock, since ours may be in 1970")
    func senderClock() {
        let date = "Fri, 20 Nov 2026 21:02:00 GMT"
        let wrong = Timestamp(milliseconds: 0)
        let bySync = HubHeaders(reading: [("Retry-After", date), ("Sync-Time", "1795208460000")], now: wrong)
        #expect(bySync.retryAfter == .seconds(60))
        let byDate = HubHeaders(reading: [("Retry-After", date), ("Date", "Fri, 20 Nov 2026 21:01:30 GMT")], now: wrong)
        #expect(byDate.retryAfter == .seconds(30))
        #expect(HubHeaders(reading: [("Retry-After", date)], now: Self.now).retryAfter == .seconds(120))
    }
}
