import SyncCore
import Testing

@Suite("Meanings of HTTP answers")
struct HubReplyTests {
    private static let now = Timestamp(milliseconds: 1_795_208_645_000)

    struct Answer: Sendable {
        var what: String
        var response: HTTPResponse
        /// `nil`: it is the hub's answer and its body may be read.
        var kind: HubReply.Kind?

        init(_ what: String, _ status: Int, _ headers: HTTPHeaders = [], body: String = "", _ kind: HubReply.Kind?) {
            self.what = what
            response = HTTPResponse(status: status, headers: headers, body: Array(body.utf8))
            self.kind = kind
        }
    }

    @Test(
        "Only an answer that says so and carries JSON is the hub's",
        arguments: [
            Answer("the hub", 200, ["Sync-Version": "1", "Content-Type": "application/json"], body: "{}", nil),
            Answer("with parameters", 200, ["sync-version": "1", "content-type": "Application/JSON; charset=utf-8"], nil),
            Answer("a portal", 200, ["Content-Type": "text/html"], body: "<html>", .foreign),
            Answer("a portal that answers JSON", 200, ["Content-Type": "application/json"], body: "{}", .foreign),
            Answer("HTML in the hub's name", 200, ["Sync-Version": "1", "Content-Type": "text/html"], .foreign),
            Answer("no content type", 200, ["Sync-Version": "1"], .foreign),
            Answer("an empty 204", 204, ["Sync-Version": "1"], .foreign),
            Answer("another version", 200, ["Sync-Version": "2", "Content-Type": "application/json"], .incompatible),
            Answer("no version at all", 200, ["Sync-Version": "x", "Content-Type": "application/json"], .incompatible),
            Answer("a redirect", 301, ["Location": "http://portal"], .foreign),
            Answer("a redirect of the hub's own name", 307, ["Sync-Version": "1", "Location": "/x"], .foreign),
            Answer("network authentication required", 511, [], .foreign),
            Answer("a 400 of the hub's", 400, ["Sync-Version": "1"], .malformed),
            Answer("a 400 of any server", 400, [], .foreign),
            Answer("unauthorised", 401, ["Sync-Version": "1"], .auth),
            Answer("forbidden", 403, ["Sync-Version": "1"], .auth),
            Answer("unauthorised, by any server", 401, [], .foreign),
            Answer("forbidden, by any server", 403, [], .foreign),
            Answer("not found, by any server", 404, [], .foreign),
            Answer("gone, by any server", 410, [], .foreign),
            Answer("not found", 404, ["Sync-Version": "1"], .misconfigured),
            Answer("method not allowed", 405, ["Sync-Version": "1"], .misconfigured),
            Answer("time-out of the server", 408, [], .overloaded),
            Answer("a conflict that is no regression", 409, ["Sync-Version": "1"], .misconfigured),
            Answer("gone", 410, ["Sync-Version": "1"], .gone),
            Answer("too large", 413, [], .tooLarge),
            Answer("encoding", 415, ["Sync-Version": "1"], .encoding),
            Answer("misdirected, says a proxy", 421, [], .overloaded),
            Answer("misdirected, in the hub's name", 421, ["Sync-Version": "1"], .overloaded),
            Answer("too early", 425, [], .overloaded),
            Answer("upgrade", 426, ["Sync-Version": "1"], .misconfigured),
            Answer("too many", 429, [], .overloaded),
            Answer("legal", 451, [], .foreign),
            Answer("internal", 500, ["Sync-Version": "1"], .failed),
            Answer("internal, says a proxy", 500, [], .overloaded),
            Answer("not implemented", 501, ["Sync-Version": "1"], .failed),
            Answer("bad gateway", 502, [], .overloaded),
            Answer("unavailable", 503, [], .overloaded),
            Answer("gateway time-out", 504, [], .overloaded),
            Answer("storage", 507, [], .overloaded),
            Answer("nothing known", 999, [], .foreign),
        ])
    func reads(_ answer: Answer) {
        switch HubReply.read(answer.response, now: Self.now) {
        case .answered(_, let body):
            #expect(answer.kind == nil, "\(answer.what)")
            #expect(body == answer.response.body)
        case .refused(let refusal):
            #expect(refusal.kind == answer.kind, "\(answer.what)")
            #expect(!refusal.detail.isEmpty)
        }
    }

    @Test(
        "A problem's code decides where the status alone does not",
        arguments: [
            (400, "unsupported-sync-version", HubReply.Kind.incompatible), (400, "malformed", .malformed),
            (403, "device-blocked", .blocked), (403, "forbidden", .auth), (409, "replica-regressed", .regressed),
        ])
    func problems(_ status: Int, _ code: String, _ kind: HubReply.Kind) {
        guard case .refused(let refusal) = HubReply.read(EngineRig.problem(status, code), now: Self.now) else {
            Issue.record("taken for an answer")
            return
        }
        #expect(refusal.kind == kind)
        #expect(refusal.problem?.code == code)
        #expect(refusal.detail == "\(code) it is")
    }

    @Test("A problem document that is none is not believed, its status is")
    func brokenProblem() {
        let response = HTTPResponse(
            status: 409, headers: ["Sync-Version": "1", "Content-Type": "application/problem+json"], body: Array("{".utf8))
        guard case .refused(let refusal) = HubReply.read(response, now: Self.now) else { return }
        #expect(refusal.kind == .misconfigured)
        #expect(refusal.problem == nil)
    }

    // MARK: Headers

    @Test("The agent reads the hub's description of itself back unchanged")
    func agentReadsTheDescriptionOfTheHub() {
        let said = HubHeaders(
            time: Timestamp(milliseconds: 1_795_216_800_123), epoch: "7f3a", head: 90_211, deviceSeq: 412, config: 43,
            retryAfter: .seconds(30))
        var headers: HTTPHeaders = []
        said.write(to: &headers)
        #expect(HubHeaders(reading: headers, now: Self.now) == said)
    }

    @Test(
        "A value that is not as agreed reads as missing",
        arguments: ["", "-1", "+1", "1.5", " 1", "0x10", "9007199254740993", "99999999999999999999", "abc", "１"])
    func badNumbers(_ value: String) {
        let headers: HTTPHeaders = [
            "Sync-Head": value, "Sync-Device-Seq": value, "Sync-Time": value, "Sync-Config": value,
        ]
        let read = HubHeaders(reading: headers, now: Self.now)
        #expect(read.head == nil && read.deviceSeq == nil && read.time == nil && read.config == nil)
    }

    @Test("An epoch is a name", arguments: ["", "a b", "é", String(repeating: "e", count: 65)])
    func badEpoch(_ value: String) {
        #expect(HubHeaders(reading: ["Sync-Epoch": value], now: Self.now).epoch == nil)
    }

    @Test("The hub reads the agent's description of itself back unchanged, also under the name with an underscore")
    func hubReadsTheDescriptionOfTheAgent() {
        let said = HubRequestHeaders(
            device: DeviceID(trusted: "gw-17"), replica: ReplicaID(trusted: "r-1"), session: "s-1", config: 42)
        var headers: HTTPHeaders = []
        said.write(to: &headers)
        #expect(HubRequestHeaders(reading: headers) == said)
        headers["Sync-Version"] = nil
        headers["sync_version"] = "1"
        #expect(HubRequestHeaders(reading: headers) == said)
    }

    // MARK: Retry-After and dates

    struct Wait: Sendable {
        var text: String
        var wait: Duration?
    }

    @Test(
        "Retry-After is seconds or a date, and nothing else",
        arguments: [
            Wait(text: "0", wait: .zero), Wait(text: "30", wait: .seconds(30)), Wait(text: "007", wait: .seconds(7)),
            Wait(text: "99999999999999999999999", wait: .seconds(3_155_760_000)),
            Wait(text: "Fri, 20 Nov 2026 21:05:05 GMT", wait: .seconds(60)),
            Wait(text: "Friday, 20-Nov-26 21:05:05 GMT", wait: .seconds(60)),
            Wait(text: "Fri Nov 20 21:05:05 2026", wait: .seconds(60)),
            Wait(text: "Thu, 01 Jan 1970 00:00:00 GMT", wait: .zero),
            Wait(text: "Fri, 31 Dec 9999 23:59:59 GMT", wait: .seconds(3_155_760_000)),
            Wait(text: "", wait: nil), Wait(text: "-5", wait: nil), Wait(text: "1.5", wait: nil),
            Wait(text: "5 s", wait: nil), Wait(text: "soon", wait: nil), Wait(text: "+5", wait: nil),
            Wait(text: "2026-11-20T21:05:05Z", wait: nil),
        ])
    func retryAfter(_ example: Wait) {
        #expect(HubHeaders.retryAfter(example.text, sentAt: Self.now) == example.wait)
    }

    struct Date: Sendable {
        var text: String
        var milliseconds: Int64?
    }

    @Test(
        "The three forms of an HTTP date are read (RFC 9110, 5.6.7), and no date that does not exist",
        arguments: [
            Date(text: "Sun, 06 Nov 1994 08:49:37 GMT", milliseconds: 784_111_777_000),
            Date(text: "Sunday, 06-Nov-94 08:49:37 GMT", milliseconds: 784_111_777_000),
            Date(text: "Sun Nov  6 08:49:37 1994", milliseconds: 784_111_777_000),
            Date(text: "Thu, 01 Jan 1970 00:00:00 GMT", milliseconds: 0),
            Date(text: "Tue, 29 Feb 2000 23:59:60 GMT", milliseconds: 951_868_799_000),
            Date(text: "Sun, 06 Nov 1994 08:49:37", milliseconds: nil),
            Date(text: "Sun, 06 Nov 1994 08:49:37 UTC", milliseconds: nil),
            Date(text: "Sun, 31 Nov 1994 08:49:37 GMT", milliseconds: nil),
            Date(text: "Sun, 06 Nop 1994 08:49:37 GMT", milliseconds: nil),
            Date(text: "Sun, 06 Nov 1994 8:49:37 GMT", milliseconds: nil),
            Date(text: "Sun, 06 Nov 1994 08:49:99 GMT", milliseconds: nil),
            Date(text: "Sun, 6x Nov 1994 08:49:37 GMT", milliseconds: nil),
            Date(text: "", milliseconds: nil), Date(text: "GMT", milliseconds: nil),
            Date(text: String(repeating: " ", count: 100), milliseconds: nil),
        ])
    func dates(_ example: Date) {
        #expect(HTTPDate.timestamp(example.text)?.milliseconds == example.milliseconds)
    }

    @Test("A date is measured against the sender's clock: Sync-Time, then Date, ours last")
    func senderClock() {
        let date = "Fri, 20 Nov 2026 21:05:05 GMT"
        let old = Timestamp(milliseconds: 0)
        let withTime: HTTPHeaders = ["Retry-After": date, "Sync-Time": "1795208675000", "Date": "Thu, 01 Jan 1970 00:00:00 GMT"]
        #expect(HubHeaders(reading: withTime, now: old).retryAfter == .seconds(30))
        let withDate: HTTPHeaders = ["Retry-After": date, "Date": "Fri, 20 Nov 2026 21:05:00 GMT"]
        #expect(HubHeaders(reading: withDate, now: old).retryAfter == .seconds(5))
        #expect(HubHeaders(reading: ["Retry-After": date], now: Self.now).retryAfter == .seconds(60))
    }

    @Test("Names of headers compare without case, setting replaces, appending does not")
    func headerFields() {
        var headers: HTTPHeaders = ["Content-Type": "a", "X": "1"]
        headers["content-type"] = "b"
        headers.append("x", "2")
        #expect(headers["CONTENT-TYPE"] == "b")
        #expect(headers["x"] == "1")
        #expect(headers.fields.count == 3)
        headers["X"] = nil
        #expect(headers.fields.count == 1)
    }
}
