import SyncCore
import Testing

@Suite("A configuration on trial")
struct ConfigurationTrialTests {
    enum Event: Sendable {
        case read(String, ConfigurationTrial.Choice, isAsked: Bool = false)
        case reached(isNews: Bool)
        /// Seconds since the last one, and whether they count.
        case time(Int64, counts: Bool = true, ConfigurationTrial.Step = .wait)
        /// The agent ends and begins again: only the record is left.
        case restart
    }

    struct Case: Sendable, CustomTestStringConvertible {
        var testDescription: String
        var events: [Event]
        var proven: String?

        init(_ name: String, _ events: [Event], proven: String?) {
            (testDescription, self.events, self.proven) = (name, events, proven)
        }
    }

    private static let begin: [Event] = [.read("old", .settled), .reached(isNews: true)]

    @Test(
        "The hub's answer proves it; without one the proven one comes back",
        arguments: [
            Case("the first one of a box is never taken back", [.read("a", .settled), .time(0), .time(100_000)], proven: nil),
            Case("an answer proves it", begin, proven: "old"),
            Case("a second answer is no news", begin + [.reached(isNews: false)], proven: "old"),
            Case("the same again is settled", begin + [.read("old", .settled, isAsked: true)], proven: "old"),
            Case(
                "a new one is on trial and then proven", begin + [.read("new", .onTrial), .time(0), .time(599), .reached(isNews: true)],
                proven: "new"),
            Case(
                "without an answer it is taken back after the window", begin + [.read("new", .onTrial), .time(0), .time(600, .revert)],
                proven: "old"),
            Case(
                "taken back, it does not come back with a restart",
                begin + [.read("new", .onTrial), .time(0), .time(600, .revert), .restart, .read("new", .useProven)], proven: "old"),
            Case(
                "taken back, it is tried again on a request",
                begin + [
                    .read("new", .onTrial), .time(0), .time(600, .revert), .read("new", .onTrial, isAsked: true), .reached(isNews: true),
                ], proven: "new"),
            Case(
                "taken back, another one is tried",
                begin + [.read("new", .onTrial), .time(0), .time(600, .revert), .read("newer", .onTrial)], proven: "old"),
            Case(
                "going back by hand ends the trial",
                begin + [.read("new", .onTrial), .time(0), .read("old", .settled, isAsked: true), .time(600)], proven: "old"),
            Case(
                "time that does not count does not end it",
                begin + [
                    .read("new", .onTrial), .time(0), .time(300), .time(100_000, counts: false), .time(100_000, counts: false), .time(0),
                    .time(299), .time(1, .revert),
                ], proven: "old"),
            Case(
                "a restart neither ends it nor begins it anew",
                begin + [
                    .read("new", .onTrial), .time(0), .time(400), .restart, .read("new", .onTrial), .time(0), .time(199), .time(1, .revert),
                ], proven: "old"),
            Case(
                "many restarts do not stretch it for ever",
                begin + [.read("new", .onTrial), .time(0), .time(599), .restart, .read("new", .onTrial), .time(0), .time(1, .revert)],
                proven: "old"),
            Case(
                "a change during the trial begins it anew",
                begin + [.read("a", .onTrial), .time(0), .time(599), .read("b", .onTrial), .time(0), .time(599), .time(1, .revert)],
                proven: "old"),
            Case(
                "proved while it was stopped for a moment",
                begin + [
                    .read("new", .onTrial), .restart, .read("new", .onTrial), .reached(isNews: true), .restart, .read("new", .settled),
                ], proven: "new"),
            Case(
                "an answer after it was taken back proves nothing new",
                begin + [.read("new", .onTrial), .time(0), .time(600, .revert), .reached(isNews: false)], proven: "old"),
        ])
    func trial(_ example: Case) {
        var trial = ConfigurationTrial()
        var now = Instant(nanoseconds: 0)
        for (index, event) in example.events.enumerated() {
            switch event {
            case .read(let name, let choice, let isAsked): #expect(trial.consider(name, isAsked: isAsked) == choice, "event \(index)")
            case .reached(let isNews): #expect(trial.reached() == isNews, "event \(index)")
            case .time(let seconds, let counts, let step):
                now = now.advanced(by: .seconds(seconds))
                #expect(trial.tick(counts: counts, now: now) == step, "event \(index)")
            case .restart: trial = ConfigurationTrial(record: trial.record)
            }
        }
        #expect(trial.proven == example.proven)
    }

    @Test("A record that is damaged proves nothing", arguments: ["{}", "[]", #"{"proven":1}"#, #"{"proven":"","spent_ms":-5}"#])
    func damaged(_ text: String) throws {
        let trial = ConfigurationTrial(record: try JSONReader.read(text))
        #expect(trial.proven == nil && !trial.isOnTrial && trial.spent == .zero)
    }
}
