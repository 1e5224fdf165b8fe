import Agent
import SyncCore
import Testing

@Suite("The queue over the last hours")
struct QueueHistoryTests {
    private static func moment(_ seconds: Int64) -> Moment {
        Moment(instant: Instant(nanoseconds: seconds * 1_000_000_000), wall: Timestamp(milliseconds: seconds * 1_000))
    }

    @Test("A number every five minutes, for eight hours; what a suspend left out is as it was")
    func samples() {
        var history = QueueHistory()
        #expect(history.isDue(at: Self.moment(0).instant))
        history.record(3, at: Self.moment(0))
        #expect(!history.isDue(at: Self.moment(299).instant) && history.isDue(at: Self.moment(300).instant))
        history.record(5, at: Self.moment(300))
        #expect(history.open == [3, 5] && history.lastAt == Self.moment(300).wall)
        history.record(1, at: Self.moment(1_500))
        #expect(history.open == [3, 5, 5, 5, 5, 1])
        history.record(2, at: Self.moment(10_000_000))
        #expect(history.open.count == QueueHistory.samplesMax && history.open.last == 2 && history.open.first == 1)
    }
}
