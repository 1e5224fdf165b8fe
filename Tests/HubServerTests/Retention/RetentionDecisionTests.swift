import SyncCore
import Testing

@testable import HubServer

/// Decisions of housekeeping, without a database.
@Suite("Retention of events: decisions")
struct RetentionDecisionTests {
    private static let day: Duration = .seconds(86_400)
    private static func day(_ number: Int) -> Timestamp { Timestamp(milliseconds: 1_795_208_400_000).advanced(by: day * number) }

    // MARK: The clock

    @Test("The first run notes the time; later ones believe a clock that went on, or back, by no more than a week")
    func ordinary() {
        var clock = RetentionClock()
        #expect(clock.judge(Self.day(0)) == .noted)
        #expect(clock.judge(Self.day(0)) == .believed)
        #expect(clock.judge(Self.day(7)) == .believed)
        #expect(clock.judge(Self.day(-900)) == .believed)
        #expect(clock.judge(Self.day(-893)) == .believed)
        #expect(clock.waitsUntil == nil)
    }

    @Test("A clock that jumped is not believed until it is right again")
    func jump() {
        var clock = RetentionClock()
        _ = clock.judge(Self.day(0))
        #expect(clock.judge(Self.day(900)) == .doubted(isNew: true))
        #expect(clock.judge(Self.day(901)) == .doubted(isNew: false))
        #expect(clock.waitsUntil == Self.day(907))
        #expect(clock.judge(Self.day(2)) == .believed)
        #expect(clock.waitsUntil == nil)
    }

    @Test("A hub that was off for long believes its clock when it has gone on for a week")
    func longBreak() {
        var clock = RetentionClock()
        _ = clock.judge(Self.day(0))
        for day in 60..<67 { #expect(clock.judge(Self.day(day)) == .doubted(isNew: day == 60)) }
        #expect(clock.judge(Self.day(67)) == .believed)
        #expect(clock.judge(Self.day(68)) == .believed)
    }

    @Test("A clock that jumps again and again is never believed")
    func jumps() {
        var clock = RetentionClock()
        _ = clock.judge(Self.day(0))
        for number in 1...50 { #expect(clock.judge(Self.day(number * 8)) == .doubted(isNew: true)) }
        // Starts in a row are no time that passes.
        for _ in 0..<50 { #expect(clock.judge(Self.day(400)) == .doubted(isNew: false)) }
    }

    // MARK: Pages

    private static func rows(_ days: [Int], from version: Int64 = 1) -> [EventWalk.Row] {
        days.enumerated().map { index, day in
            EventWalk.Row(place: .init(version: version + Int64(index), id: "e"), at: Self.day(day))
        }
    }

    private static func walk(upTo: Int64 = .max) -> EventWalk {
        EventWalk("log", before: day(10), now: day(20), upTo: upTo)
    }

    @Test(
        "Events go up to the first one that is young",
        arguments: [
            ([1, 2, 9], false, EventWalk.Step.remove(3)), ([1, 2, 9], true, .removeLast(3)), ([1, 2, 10, 11], false, .removeLast(2)),
            ([10, 1], false, .removeLast(0)), ([], true, .removeLast(0)),
            // A time that is too early says no more than those before it.
            ([10, -900, 11], false, .removeLast(0)), ([5, -900, 5, 10], true, .removeLast(3)),
            // One in the future goes with the next one that is old, and stays before one that is young.
            ([1, 99, 2, 10], false, .removeLast(3)), ([1, 99, 10], false, .removeLast(1)), ([1, 99, 99], false, .remove(1)),
            ([99, 99], true, .removeLast(0)), ([99, 99], false, .readOn),
        ])
    func pages(days: [Int], isLast: Bool, step: EventWalk.Step) {
        var walk = Self.walk()
        #expect(walk.decide(about: Self.rows(days), isLast: isLast) == step)
    }

    @Test("Behind whole pages of wrong times, an old event takes them along, and a young one keeps them")
    func wrongTimes() {
        let pages = [Self.rows([99, 99]), Self.rows([99, 99], from: 3)]
        var walk = Self.walk()
        for page in pages { #expect(walk.decide(about: page, isLast: false) == .readOn) }
        #expect(walk.from == .init(version: 4, id: "e"))
        #expect(walk.decide(about: Self.rows([99, 1], from: 5), isLast: false) == .readOn)
        #expect(walk.from == .start)
        for page in pages { #expect(walk.decide(about: page, isLast: false) == .remove(2)) }
        #expect(walk.decide(about: Self.rows([99, 1], from: 5), isLast: false) == .remove(2))
        #expect(walk.decide(about: Self.rows([99, 10], from: 7), isLast: true) == .removeLast(0))

        walk = Self.walk()
        for page in pages { #expect(walk.decide(about: page, isLast: false) == .readOn) }
        #expect(walk.decide(about: Self.rows([10], from: 5), isLast: false) == .removeLast(0))
    }

    @Test("An event that a consumer has yet to read stays, whatever its age")
    func consumers() {
        var walk = Self.walk(upTo: 2)
        #expect(walk.decide(about: Self.rows([1, 1, 1, 1]), isLast: false) == .removeLast(2))
        walk = Self.walk(upTo: 0)
        #expect(walk.decide(about: Self.rows([1]), isLast: true) == .removeLast(0))
    }

    @Test("An operator reads the rule, what the newest run removed, and whether it was through")
    func words() {
        let at = Timestamp(milliseconds: 1_795_208_400_000)
        var log = EventRetention(keep: Self.day * 400, ranAt: at, removed: 12, total: 70, hasMore: false)
        #expect(log.words == "events older than 400d are removed; 12 removed \(at), 70 in all")
        log.hasMore = true
        #expect(log.words == "events older than 400d are removed; 12 removed \(at), and more are left for the next run, 70 in all")
        #expect(log.json(of: "log")["keep"] == "400d" && log.json(of: "log")["has_more"] == .bool(true))
    }

    // MARK: Runs

    @Test("A run goes through its tasks, and goes on with one that has more")
    func run() {
        var run = HousekeepingRun(at: Self.day(0), HousekeepingRun.deletions(before: Self.day(-90)))
        #expect(run.task == .pastScopes(before: Self.day(-90)))
        run.advance(after: HousekeepingRun.Slice(removed: 500, next: run.task))
        #expect(run.task == .pastScopes(before: Self.day(-90)))
        run.advance(after: HousekeepingRun.Slice(removed: 1))
        #expect(run.task == .tombstones(before: Self.day(-90)))
        run.advance(after: HousekeepingRun.Slice())
        run.advance(after: HousekeepingRun.Slice())
        #expect(run.isOver && run.task == nil)
    }

    @Test("Housekeeping takes half of the time at most, and an hour a day")
    func pace() {
        let pace = HousekeepingPace(began: Instant(nanoseconds: 0))
        func pause(_ milliseconds: Int, _ seconds: Int64) -> Duration? {
            pace.pause(after: .milliseconds(milliseconds), at: Instant(nanoseconds: seconds * 1_000_000_000))
        }
        #expect(pause(0, 1) == .milliseconds(1) && pause(20, 1) == .milliseconds(20) && pause(5_000, 1) == .seconds(1))
        #expect(pause(20, 3_599) == .milliseconds(20) && pause(20, 3_600) == nil)
    }
}
