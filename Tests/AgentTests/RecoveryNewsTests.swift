import Agent
import SyncCore
import Testing

struct RecoveryNewsTests {
    private static let hour: Duration = .seconds(3_600)

    struct Case: Sendable {
        var cause: Recovery.Cause
        var after: Duration
        var hasRoom: Bool
        var isTold: Bool
    }

    @Test(
        "A full disk is told until there is room again; a failing one for an hour, whatever room there is",
        arguments: [
            Case(cause: .fullDisk, after: .zero, hasRoom: false, isTold: true),
            Case(cause: .fullDisk, after: hour * 1_000, hasRoom: false, isTold: true),
            Case(cause: .fullDisk, after: .zero, hasRoom: true, isTold: false),
            Case(cause: .disk, after: .zero, hasRoom: true, isTold: true),
            Case(cause: .disk, after: hour - .nanoseconds(1), hasRoom: true, isTold: true),
            Case(cause: .disk, after: hour, hasRoom: true, isTold: false),
            Case(cause: .disk, after: hour, hasRoom: false, isTold: false),
        ])
    func told(_ example: Case) {
        let start = Instant(nanoseconds: 5)
        let recovery = Recovery("what happened", example.cause, at: start)
        let text = recovery.told(at: start.advanced(by: example.after), hasRoom: example.hasRoom)
        #expect(text == (example.isTold ? "what happened" : nil))
    }
}
