import SyncCore
import Testing

/// Berlin in 2026: summer time from Sunday 29 March, 01:00 UTC (02:00 becomes 03:00), to Sunday 25 October, 01:00 UTC
/// (03:00 becomes 02:00 again).
@Suite("Time windows")
struct WindowScheduleTests {
    static let spring = Timestamp(milliseconds: 1_774_746_000_000)
    static let autumn = Timestamp(milliseconds: 1_792_890_000_000)

    static func berlin(_ time: Timestamp) -> Int { time >= spring && time < autumn ? 7_200 : 3_600 }

    private func time(_ text: String) throws -> Timestamp { try #require(RFC3339.timestamp(text)) }

    struct Case: Sendable {
        var window: String
        var now: String
        var isOpen: Bool
        var change: String
    }

    @Test(
        "Open now, and when that changes, by the clock on the wall",
        arguments: [
            Case(window: "22:00-05:00", now: "2026-11-20T20:59:59Z", isOpen: false, change: "2026-11-20T21:00:00Z"),
            Case(window: "22:00-05:00", now: "2026-11-20T21:00:00Z", isOpen: true, change: "2026-11-21T04:00:00Z"),
            // The night in which the clock goes forward is an hour shorter, the one in which it goes back an hour longer.
            Case(window: "22:00-05:00", now: "2026-03-28T21:00:00Z", isOpen: true, change: "2026-03-29T03:00:00Z"),
            Case(window: "22:00-05:00", now: "2026-10-24T20:00:00Z", isOpen: true, change: "2026-10-25T04:00:00Z"),
            // The window lies in the hour that does not exist, so it opens on the next day.
            Case(window: "02:00-03:00", now: "2026-03-28T23:00:00Z", isOpen: false, change: "2026-03-30T00:00:00Z"),
            Case(window: "02:30-03:30", now: "2026-03-28T23:00:00Z", isOpen: false, change: "2026-03-29T01:00:00Z"),
            // The hour that comes twice is open twice.
            Case(window: "02:00-03:00", now: "2026-10-25T00:30:00Z", isOpen: true, change: "2026-10-25T02:00:00Z"),
            Case(window: "02:30-02:40", now: "2026-10-25T00:35:00Z", isOpen: true, change: "2026-10-25T00:40:00Z"),
            Case(window: "02:30-02:40", now: "2026-10-25T00:40:00Z", isOpen: false, change: "2026-10-25T01:30:00Z"),
            // Friday evening, local time; the window belongs to Friday also after midnight.
            Case(window: "fri 22:00-05:00", now: "2026-11-20T23:30:00Z", isOpen: true, change: "2026-11-21T04:00:00Z"),
            Case(window: "fri 22:00-05:00", now: "2026-11-21T04:00:00Z", isOpen: false, change: "2026-11-27T21:00:00Z"),
            Case(window: "sat,sun 00:00-24:00", now: "2026-11-20T23:00:00Z", isOpen: true, change: "2026-11-22T23:00:00Z"),
        ])
    func change(_ example: Case) throws {
        let schedule = WindowSchedule([try #require(TimeWindow(example.window))])
        let now = try time(example.now)
        #expect(schedule.isOpen(at: now, offset: Self.berlin) == example.isOpen)
        #expect(schedule.nextChange(after: now, offset: Self.berlin) == (try time(example.change)))
    }

    @Test(
        "Around both changes of the clock the next change is the first moment that differs",
        arguments: [
            ["22:00-05:00"], ["02:00-03:00"], ["02:30-02:40", "sun 03:00-03:10"], ["mon-fri 09:00-17:30", "sat 00:00-24:00"],
        ])
    func firstMoment(_ texts: [String]) throws {
        let schedule = WindowSchedule(try texts.map { try #require(TimeWindow($0)) })
        for turn in [Self.spring, Self.autumn] {
            for minutes in stride(from: -600, to: 600, by: 7) {
                let now = turn.advanced(by: .seconds(minutes * 60))
                let isOpen = schedule.isOpen(at: now, offset: Self.berlin)
                let change = try #require(schedule.nextChange(after: now, offset: Self.berlin))
                var look = now
                while look < change {
                    if schedule.isOpen(at: look, offset: Self.berlin) != isOpen { Issue.record("changed at \(look) already") }
                    look = look.advanced(by: .seconds(60))
                }
                #expect(schedule.isOpen(at: change, offset: Self.berlin) != isOpen)
            }
        }
    }

    @Test("Without windows it is always open, and so it is with the whole week")
    func always() throws {
        let now = try time("2026-11-20T20:59:59Z")
        for windows in [[], [try #require(TimeWindow("00:00-24:00"))]] {
            #expect(WindowSchedule(windows).isOpen(at: now, offset: Self.berlin))
            #expect(WindowSchedule(windows).nextChange(after: now, offset: Self.berlin) == nil)
        }
    }

    @Test("No time and no offset is too wild", arguments: [Int64.min, -1, 0, .max])
    func wild(_ milliseconds: Int64) throws {
        let schedule = WindowSchedule([try #require(TimeWindow("mon 09:00-10:00"))])
        for offset in [Int.min, -86_400, 0, 86_400, .max] {
            let now = Timestamp(milliseconds: milliseconds)
            #expect(schedule.nextChange(after: now) { _ in offset } != nil)
        }
    }
}
