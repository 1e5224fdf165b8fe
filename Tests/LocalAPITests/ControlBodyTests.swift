import LocalAPI
import SyncCore
import Testing

@Suite("Bodies of control") struct ControlBodyTests {
    @Test("No body means the defaults")
    func defaults() throws {
        #expect(try SyncBody.read([]) == SyncBody())
        #expect(try PauseBody.read([]) == PauseBody())
        #expect(try ResumeBody.read([]) == ResumeBody())
        #expect(try RetryBody.read([]) == RetryBody())
        #expect(try DiscardBody.read([]) == DiscardBody())
        #expect(try ConfigCheckBody.read([]) == ConfigCheckBody())
    }

    @Test("A member that is null is as good as absent")
    func nulls() throws {
        #expect(try SyncBody.read(Array(#"{"scope":null,"force":null,"wait":null}"#.utf8)) == SyncBody())
        #expect(try PauseBody.read(Array(#"{"scope":"all","until":null,"reason":null}"#.utf8)) == PauseBody())
        #expect(try RetryBody.read(Array(#"{"data":null,"cascade":null}"#.utf8)) == RetryBody())
    }

    @Test("The agent reads the client's body back unchanged")
    func agentReadsTheBodyUnchanged() throws {
        let sync = SyncBody(SyncRequest(scope: .push, isForced: true), waits: true)
        #expect(try SyncBody.read(sync.bytes) == sync)
        let pause = PauseBody(until: RFC3339.timestamp("2026-11-21T06:00:00Z"), reason: "satellite \"window\"")
        #expect(try PauseBody.read(pause.bytes) == pause)
        let retry = RetryBody(data: ["n": exactly("1.10"), "s": "x"], cascades: true)
        #expect(try RetryBody.read(retry.bytes) == retry)
        let shorter = RetryBody(data: ["s": "x"], without: ["legacy", "a.b"])
        #expect(try RetryBody.read(shorter.bytes) == shorter)
        #expect(try DiscardBody.read(DiscardBody(reason: "dup visit").bytes) == DiscardBody(reason: "dup visit"))
        let check = ConfigCheckBody(name: "/tmp/a.yaml", text: "hub:\n  url: x\n")
        #expect(try ConfigCheckBody.read(check.bytes) == check)
        #expect(try ConfigCheckBody.read(ConfigCheckBody().bytes).text == nil)
    }

    @Test("To force a sync, or to list everything again, takes an operator")
    func syncRole() {
        #expect(SyncBody().role == .enqueue)
        #expect(SyncBody(SyncRequest(isForced: true)).role == .operate)
        #expect(SyncBody(SyncRequest(scope: .full)).role == .operate)
    }

    struct Bad: Sendable, CustomTestStringConvertible {
        var read: @Sendable ([UInt8]) throws -> Void
        var body: String
        var code: LocalProblem
        var pointer: String
        var testDescription: String { body }

        init(
            _ body: String, _ code: LocalProblem, _ pointer: String,
            _ read: @escaping @Sendable ([UInt8]) throws -> Void
        ) {
            (self.body, self.code, self.pointer, self.read) = (body, code, pointer, read)
        }
    }

    static let sync: @Sendable ([UInt8]) throws -> Void = { _ = try SyncBody.read($0) }
    static let pause: @Sendable ([UInt8]) throws -> Void = { _ = try PauseBody.read($0) }
    static let retry: @Sendable ([UInt8]) throws -> Void = { _ = try RetryBody.read($0) }

    @Test(
        "Bad bodies are refused with the place",
        arguments: [
            Bad(#"{"scope":"blobs"}"#, .validation, "/scope", sync),
            Bad(#"{"scope":1}"#, .malformed, "/scope", sync),
            Bad(#"{"force":"yes"}"#, .malformed, "/force", sync),
            Bad(#"{"forced":true}"#, .unknownMember, "/forced", sync),
            Bad("[]", .malformed, "", sync),
            Bad(#"{"until":"tomorrow"}"#, .validation, "/until", pause),
            Bad(#"{"until":5}"#, .malformed, "/until", pause),
            Bad(#"{"reason":"\#(String(repeating: "x", count: 513))"}"#, .validation, "/reason", pause),
            Bad(#"{"scope":"blobs"}"#, .validation, "/scope", pause),
            Bad(#"{"data":[]}"#, .malformed, "/data", retry),
            Bad(#"{"data":{},"force":true}"#, .unknownMember, "/force", retry),
            Bad(#"{"without":"a"}"#, .malformed, "/without", retry),
            Bad(#"{"without":["a",1]}"#, .malformed, "/without/1", retry),
            Bad(#"{"without":["b","a"],"data":{"a":null}}"#, .validation, "/without/1", retry),
        ])
    func refuses(_ example: Bad) throws {
        let problem = try #require(throws: Problem.self) { try example.read(Array(example.body.utf8)) }
        #expect(problem.code == example.code.rawValue)
        #expect(problem.errors.contains { $0.pointer == example.pointer }, "\(problem.errors)")
    }
}
