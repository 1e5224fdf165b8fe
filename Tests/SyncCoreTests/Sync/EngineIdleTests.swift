import SyncCore
import Testing

/// The requests of an agent without work in a month. The manual multiplies them with the bytes that a network interface counted for each.
@Suite("Engine: a month without work")
struct EngineIdleTests {
    struct Month: Sendable, CustomTestStringConvertible {
        var testDescription: String
        var conditions: Conditions
        var criticalEntities: Set<EntityName> = []
        var pullsADay: ClosedRange<Int>
    }

    private static func metered(unmeteredSeenAt: Timestamp?) -> Conditions {
        var conditions = EnginePolicyTests.metered
        conditions.unmeteredSeenAt = unmeteredSeenAt
        return conditions
    }

    private static let start = EngineRig().wall

    @Test(
        "Pulls of each day, and one greeting",
        arguments: [
            Month(testDescription: "unmetered", conditions: .plain, pullsADay: 1_439...1_441),
            Month(
                testDescription: "metered, with a critical entity", conditions: metered(unmeteredSeenAt: start),
                criticalEntities: [EngineRig.works], pullsADay: 47...49),
            // No unmetered link was seen for a day: everything is pulled once a day.
            Month(
                testDescription: "metered for ever", conditions: metered(unmeteredSeenAt: Timestamp(milliseconds: 0)),
                pullsADay: 47...49),
            // The unmetered link is seen every night: what is not critical waits for it.
            Month(
                testDescription: "metered by day, nothing critical",
                conditions: metered(unmeteredSeenAt: start.advanced(by: .seconds(40 * 86_400))), pullsADay: 0...0),
        ])
    func month(_ month: Month) throws {
        var settings = SyncEngine.Settings()
        settings.criticalEntities = month.criticalEntities
        settings.timer.phase = 12_345
        var rig = EngineRig(settings: settings)
        rig.start(conditions: month.conditions)
        let days = 31
        var pulls = Array(repeating: 0, count: days + 1), greetings = pulls
        let began = rig.instant
        // Wake-ups that find nothing to do are counted too: a battery feels them.
        var wakes = 0
        while let wake = rig.wakeAt, began.duration(to: wake) < .seconds(days * 86_400) {
            rig.wake()
            wakes += 1
            while rig.asked != nil {
                let day = Int(began.duration(to: rig.instant) / .seconds(86_400))
                switch rig.asked {
                case "hello":
                    greetings[day] += 1
                    rig.answer(EngineRig.hello())
                case "pull":
                    pulls[day] += 1
                    rig.answer(EngineRig.pull())
                case "loadStreams": rig.stored(.streams([EngineRig.position(EngineRig.works)]))
                case "applyPull": rig.stored(.pullApplied(PullSummary()))
                case "housekeep": rig.stored(.housekept(more: false))
                case "remember": rig.stored(.done)
                default: rig.stored(.batch(nil, retryAt: nil))
                }
            }
        }
        // The first day has the greeting of the start and what is pulled at once.
        for day in 1..<days {
            #expect(month.pullsADay.contains(pulls[day]), "day \(day): \(pulls[day])")
            #expect(greetings[day] <= 1, "day \(day)")
        }
        #expect(wakes <= (month.pullsADay.upperBound + 2) * days * 2, "\(wakes) wake-ups")
    }
}
