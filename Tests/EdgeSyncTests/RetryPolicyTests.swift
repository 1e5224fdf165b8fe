import EdgeSync
import Testing

@Suite("Decisions about another try")
struct RetryPolicyTests {
    static let policy = RetryPolicy()

    struct WaitCase: Sendable {
        var tries: Int
        var draw: Double
        var retryAfter: Duration?
        var wait: Duration
    }

    @Test(
        "The wait doubles up to its ceiling, and is never shorter than the agent asks for",
        arguments: [
            WaitCase(tries: 1, draw: 0, wait: .milliseconds(50)),
            WaitCase(tries: 1, draw: 1, wait: .milliseconds(100)),
            WaitCase(tries: 3, draw: 1, wait: .milliseconds(400)),
            WaitCase(tries: 7, draw: 1, wait: .seconds(5)),
            WaitCase(tries: 1_000_000, draw: 0, wait: .milliseconds(2500)),
            WaitCase(tries: 1, draw: 0, retryAfter: .seconds(3), wait: .seconds(3)),
            WaitCase(tries: 1, draw: 1, retryAfter: .seconds(10), wait: .seconds(12)),
            WaitCase(tries: 9, draw: 1, retryAfter: .seconds(1), wait: .seconds(5)),
        ])
    func waits(_ example: WaitCase) {
        let wait = Self.policy.wait(tries: example.tries, draw: example.draw, retryAfter: example.retryAfter)
        let difference = wait - example.wait
        #expect(difference < .microseconds(1) && difference > .microseconds(-1), "\(wait)")
    }

    struct Case: Sendable, CustomTestStringConvertible {
        var name: String
        var error: EdgeSyncError
        var wasSent = true
        var isRepeatable = true
        var wasConnected = true
        var elapsed = Duration.seconds(5)
        var left: Duration? = .seconds(25)
        var repeats: Bool

        var testDescription: String { name }
    }

    static func error(_ kind: EdgeSyncError.Kind, _ code: EdgeSyncError.Code? = nil, after: Duration? = nil) -> EdgeSyncError {
        EdgeSyncError(kind, code: code, "test", retryAfter: after)
    }

    @Test(
        "A failed call is repeated if and only if that can help and cannot apply it twice",
        arguments: [
            Case(name: "lost answer, with a key", error: error(.brokenAnswer), repeats: true),
            Case(name: "lost answer, without a key", error: error(.brokenAnswer), isRepeatable: false, repeats: false),
            Case(name: "cut before it was sent", error: error(.brokenAnswer), wasSent: false, isRepeatable: false, repeats: true),
            Case(name: "no agent", error: error(.unreachable), wasSent: false, isRepeatable: false, repeats: true),
            Case(name: "busy, without a key", error: error(.refused, .busy), isRepeatable: false, repeats: true),
            Case(name: "outcome unknown, with a key", error: error(.refused, .outcomeUnknown), repeats: true),
            Case(name: "outcome unknown, without a key", error: error(.refused, .outcomeUnknown), isRepeatable: false, repeats: false),
            Case(name: "starting", error: error(.refused, .starting), repeats: true),
            Case(name: "read-only", error: error(.refused, .readOnly), repeats: true),
            Case(name: "rate", error: error(.refused, .rate, after: .seconds(1)), repeats: true),
            Case(name: "rate, behind the deadline", error: error(.refused, .rate, after: .seconds(25)), repeats: false),
            Case(name: "rate, no deadline", error: error(.refused, .rate, after: .seconds(25)), left: nil, repeats: true),
            Case(name: "the wait does not fit", error: error(.brokenAnswer), left: .milliseconds(60), repeats: false),
            Case(name: "validation", error: error(.refused, .validation), repeats: false),
            Case(name: "full queue", error: error(.refused, .queueFull), repeats: false),
            Case(name: "a key with another body", error: error(.refused, .idempotencyMismatch), repeats: false),
            Case(name: "an unknown code", error: error(.refused, "newer"), repeats: false),
            Case(name: "no socket, once connected", error: error(.unreachable, .noSocket), wasSent: false, repeats: true),
            Case(
                name: "no socket, for a moment", error: error(.unreachable, .noSocket), wasSent: false, wasConnected: false,
                elapsed: .seconds(1), repeats: true),
            Case(
                name: "no socket, for long", error: error(.unreachable, .noSocket), wasSent: false, wasConnected: false,
                repeats: false),
            Case(name: "not permitted", error: error(.notPermitted), wasSent: false, repeats: false),
            Case(name: "nonsense", error: error(.badAnswer), repeats: false),
            Case(name: "cancelled", error: error(.cancelled), repeats: false),
            Case(name: "deadline", error: error(.deadlinePassed), repeats: false),
        ])
    func decides(_ example: Case) {
        let failure = RetryPolicy.Failure(
            error: example.error, tries: 1, wasSent: example.wasSent, isRepeatable: example.isRepeatable,
            wasConnected: example.wasConnected, elapsed: example.elapsed, left: example.left)
        #expect((Self.policy.decide(failure, draw: 0.5) != nil) == example.repeats)
    }

    @Test("A deadline that passes in a later try names the failure of the try before, and one that passes in the pause is that failure")
    func cause() {
        var broken = Self.error(.brokenAnswer)
        broken.detail = "it broke off"
        var late = Self.error(.deadlinePassed)
        late.detail = "it is late"
        #expect(RetryPolicy.cause(of: late, wasSent: false, after: broken) == broken)
        let told = RetryPolicy.cause(of: late, wasSent: true, after: broken)
        #expect(told.kind == .deadlinePassed && told.detail == "it is late; the try before it failed: it broke off")
        #expect(RetryPolicy.cause(of: late, wasSent: true, after: nil) == late)
        #expect(RetryPolicy.cause(of: broken, wasSent: true, after: late) == broken)
    }
}
