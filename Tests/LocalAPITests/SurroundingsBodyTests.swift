import LocalAPI
import SyncCore
import Testing

@Suite("Bodies about links and plans") struct SurroundingsBodyTests {
    @Test("The agent reads the client's body back unchanged")
    func agentReadsTheBodyUnchanged() throws {
        for body in [
            LinkHintBody(isMetered: true, isRoaming: false, life: .seconds(3_600)), LinkHintBody(isMetered: false),
            LinkHintBody(isRoaming: true, life: LinkHintBody.lifeMax),
        ] {
            #expect(try LinkHintBody.read(body.bytes) == body)
        }
        for body in [
            PlanBody(),
            PlanBody(
                link: LinkName("wwan0"), isMetered: true, isRoaming: false, batteryPercent: 12, isCharging: false,
                budgetBytes: 5_000_000, isOnline: true),
            PlanBody(batteryPercent: 0, budgetBytes: 0), PlanBody(isOnline: false),
        ] {
            #expect(try PlanBody.read(body.bytes) == body)
        }
    }

    @Test("A plan may be asked for as it is documented, and without a body it is about now")
    func planned() throws {
        let documented = #"{"link":"wwan0","metered":true,"battery":12,"budget":"5MB"}"#
        #expect(
            try PlanBody.read(Array(documented.utf8))
                == PlanBody(link: LinkName("wwan0"), isMetered: true, batteryPercent: 12, budgetBytes: 5_000_000))
        #expect(try PlanBody.read([]) == PlanBody())
        #expect(try PlanBody.read(Array(#"{"link":null,"budget":null}"#.utf8)) == PlanBody())
    }

    struct Bad: Sendable, CustomTestStringConvertible {
        var read: @Sendable ([UInt8]) throws -> Void
        var body: String
        var code: LocalProblem
        var pointer: String
        var testDescription: String { String(body.prefix(60)) }

        init(
            _ body: String, _ code: LocalProblem, _ pointer: String,
            _ read: @escaping @Sendable ([UInt8]) throws -> Void
        ) {
            (self.body, self.code, self.pointer, self.read) = (body, code, pointer, read)
        }
    }

    static let hint: @Sendable ([UInt8]) throws -> Void = { _ = try LinkHintBody.read($0) }
    static let plan: @Sendable ([UInt8]) throws -> Void = { _ = try PlanBody.read($0) }

    @Test(
        "Bad bodies are refused with the place",
        arguments: [
            Bad("", .malformed, "", hint),
            Bad("{}", .malformed, "", hint),
            Bad(#"{"ttl":5}"#, .malformed, "", hint),
            Bad(#"{"metered":null}"#, .malformed, "", hint),
            Bad("[true]", .malformed, "", hint),
            Bad(#"{"metered":"yes"}"#, .malformed, "/metered", hint),
            Bad(#"{"metered":1,"roaming":true}"#, .malformed, "/metered", hint),
            Bad(#"{"roaming":"home"}"#, .malformed, "/roaming", hint),
            Bad(#"{"metered":true,"ttl":0}"#, .validation, "/ttl", hint),
            Bad(#"{"metered":true,"ttl":-5}"#, .validation, "/ttl", hint),
            Bad(#"{"metered":true,"ttl":604801}"#, .validation, "/ttl", hint),
            Bad(#"{"metered":true,"ttl":1.5}"#, .malformed, "/ttl", hint),
            Bad(#"{"metered":true,"ttl":"1h"}"#, .malformed, "/ttl", hint),
            Bad(#"{"metered":true,"ttl":1e400}"#, .malformed, "/ttl", hint),
            Bad(#"{"meterd":true}"#, .unknownMember, "/meterd", hint),
            Bad(#"{"metered":true,"Roaming":true}"#, .unknownMember, "/Roaming", hint),
            Bad(#"{"link":"eth/0"}"#, .validation, "/link", plan),
            Bad(#"{"link":""}"#, .validation, "/link", plan),
            Bad(#"{"link":"\#(String(repeating: "w", count: 16))"}"#, .validation, "/link", plan),
            Bad(#"{"link":7}"#, .malformed, "/link", plan),
            Bad(#"{"battery":101}"#, .validation, "/battery", plan),
            Bad(#"{"battery":-1}"#, .validation, "/battery", plan),
            Bad(#"{"battery":"12%"}"#, .malformed, "/battery", plan),
            Bad(#"{"battery":12.5}"#, .malformed, "/battery", plan),
            Bad(#"{"charging":0}"#, .malformed, "/charging", plan),
            Bad(#"{"budget":"5 MB"}"#, .validation, "/budget", plan),
            Bad(#"{"budget":"5mb"}"#, .validation, "/budget", plan),
            Bad(#"{"budget":"-5MB"}"#, .validation, "/budget", plan),
            Bad(#"{"budget":"5"}"#, .validation, "/budget", plan),
            Bad(#"{"budget":"99999999999GB"}"#, .validation, "/budget", plan),
            Bad(#"{"budget":-1}"#, .validation, "/budget", plan),
            Bad(#"{"budget":9223372036854775807}"#, .validation, "/budget", plan),
            Bad(#"{"budget":1.5}"#, .malformed, "/budget", plan),
            Bad(#"{"budget":true}"#, .malformed, "/budget", plan),
            Bad(#"{"online":"true"}"#, .malformed, "/online", plan),
            Bad(#"{"offline":true}"#, .unknownMember, "/offline", plan),
            Bad(#"{"link":"wwan0","link":"eth0"}"#, .malformed, "", plan),
        ])
    func refuses(_ example: Bad) throws {
        let problem = try #require(throws: Problem.self) { try example.read(Array(example.body.utf8)) }
        #expect(problem.code == example.code.rawValue, "\(problem.detail)")
        // Text that is no JSON at all has an offset instead of a place.
        let isText = problem.members["offset"] != nil
        #expect(isText || problem.errors.contains { $0.pointer == example.pointer }, "\(problem.errors)")
    }

    @Test("All that is wrong is told at once")
    func together() throws {
        let problem = try #require(throws: Problem.self) {
            try PlanBody.read(Array(#"{"battery":"x","budget":"y","lnk":"z","link":"a b"}"#.utf8))
        }
        #expect(problem.code == LocalProblem.unknownMember.rawValue)
        #expect(Set(problem.errors.map(\.pointer)) == ["/battery", "/budget", "/lnk", "/link"])
        #expect(problem.errors.contains { $0.detail.contains("did you mean link?") })
    }

    @Test(
        "A link's name is what the kernel would take",
        arguments: [
            ("wwan0", true), ("enx00e04c360015", true), ("eth0.7", true), ("br-0123456789ab", true), ("%d", true),
            ("", false), (".", false), ("..", false), ("enx00e04c3600155", false), ("a b", false), ("a/b", false),
            ("eth0:1", false), ("a\u{0}", false), ("a\n", false), ("é", false), ("日本", false),
        ])
    func names(_ text: String, _ isName: Bool) { #expect((LinkName(text) != nil) == isName) }

    @Test(
        "A day is one of the calendar, written in full",
        arguments: [
            ("2026-11-19", true), ("2024-02-29", true), ("2026-02-29", false), ("2026-13-01", false),
            ("2026-11-32", false), ("2026-11", false), ("26-11-19", false), ("2026-11-19T00:00:00Z", false),
            ("2026/11/19", false), ("yesterday", false), ("", false), ("２026-11-1", false),
        ])
    func days(_ text: String, _ isDay: Bool) { #expect((CalendarDay(text) != nil) == isDay) }

    @Test("A day begins at midnight, UTC, and days have their order")
    func dayOrder() throws {
        let first = try #require(CalendarDay("2026-09-30")), second = try #require(CalendarDay("2026-10-01"))
        #expect(first < second)
        #expect(second.start == time("2026-10-01T00:00:00Z"))
    }
}
