import SyncCore
import Testing

@Suite("Budget book")
struct BudgetBookTests {
    /// Both clocks, moved together or apart.
    struct Clocks {
        var instant: Int64 = 1_000
        var wall: Int64

        init(_ text: String) throws {
            wall = try #require(RFC3339.timestamp(text)).milliseconds
        }

        var now: Moment {
            Moment(instant: Instant(nanoseconds: instant * 1_000_000_000), wall: Timestamp(milliseconds: wall))
        }

        mutating func pass(hours: Int64) {
            instant += hours * 3_600
            wall += hours * 3_600_000
        }

        mutating func set(_ text: String) throws {
            wall = try #require(RFC3339.timestamp(text)).milliseconds
        }
    }

    static let limits: LinkBudget = {
        var limits = LinkBudget()
        limits.dayBytes = 1_000
        limits.monthBytes = 10_000
        return limits
    }()

    private func traffic(_ bytes: Int) -> Traffic {
        var traffic = Traffic()
        traffic.up = bytes / 2
        traffic.headersDown = bytes - bytes / 2
        return traffic
    }

    private func used(_ book: BudgetBook, _ clocks: Clocks) -> [Int] {
        book.budgets(of: "wwan0", Self.limits, at: clocks.now).map(\.used)
    }

    private func count(_ book: inout BudgetBook, _ bytes: Int, _ clocks: Clocks, isTrusted: Bool = true) {
        _ = book.record(traffic(bytes), for: .push, on: "wwan0", at: clocks.now, isTrusted: isTrusted)
    }

    private func look(_ book: inout BudgetBook, _ clocks: Clocks, isTrusted: Bool = true) {
        book.look(clocks.now, isTrusted: isTrusted)
    }

    @Test("A day ends at midnight UTC, a month on its anchor, and both say when")
    func periods() throws {
        var clocks = try Clocks("2026-11-30T22:00:00Z")
        var book = BudgetBook(at: clocks.now)
        count(&book, 600, clocks)
        let budgets = book.budgets(of: "wwan0", Self.limits, at: clocks.now)
        #expect(budgets.map(\.used) == [600, 600])
        #expect(budgets.map(\.resetsAt) == [RFC3339.timestamp("2026-12-01T00:00:00Z"), RFC3339.timestamp("2026-12-01T00:00:00Z")])
        clocks.pass(hours: 1)
        count(&book, 300, clocks)
        #expect(used(book, clocks) == [900, 900])
        clocks.pass(hours: 1)
        look(&book, clocks)
        #expect(used(book, clocks) == [0, 0])
        count(&book, 10, clocks)
        clocks.pass(hours: 24)
        look(&book, clocks)
        #expect(used(book, clocks) == [0, 10])
    }

    @Test(
        "The month begins on the anchor day of every month, also over the turn of a year",
        arguments: [
            ("2026-01-14", 15, "2025-12-15", "2026-01-15"), ("2026-01-15", 15, "2026-01-15", "2026-02-15"),
            ("2026-12-31", 1, "2026-12-01", "2027-01-01"), ("2024-02-29", 28, "2024-02-28", "2024-03-28"),
            ("2026-03-01", 28, "2026-02-28", "2026-03-28"), ("2026-03-01", 99, "2026-02-28", "2026-03-28"),
        ])
    func anchors(_ day: String, _ anchor: Int, _ start: String, _ next: String) throws {
        let day = try #require(UTCDay(day))
        #expect(day.monthStart(anchor: anchor).text == start)
        #expect(day.nextMonthStart(anchor: anchor).text == next)
    }

    @Test(
        "A step of a trusted clock neither resets nor doubles, however far and often it goes",
        arguments: [
            ["2027-06-01T00:00:00Z"], ["1970-01-01T00:00:00Z"], ["2026-11-22T23:00:00Z", "2026-11-20T01:00:00Z", "2026-11-21T10:00:00Z"],
            ["9999-12-31T23:59:59Z", "1970-01-01T00:00:00Z"],
        ])
    func steps(_ times: [String]) throws {
        var clocks = try Clocks("2026-11-20T10:00:00Z")
        var book = BudgetBook(at: clocks.now)
        count(&book, 500, clocks)
        var total = 500
        for time in times {
            try clocks.set(time)
            look(&book, clocks)
            #expect(used(book, clocks) == [total, total])
            count(&book, 7, clocks)
            total += 7
            #expect(used(book, clocks) == [total, total])
        }
    }

    @Test("After a step, days go on from where the clock went")
    func afterStep() throws {
        var clocks = try Clocks("2026-11-20T10:00:00Z")
        var book = BudgetBook(at: clocks.now)
        count(&book, 500, clocks)
        try clocks.set("2026-11-25T22:00:00Z")
        look(&book, clocks)
        clocks.pass(hours: 2)
        look(&book, clocks)
        #expect(used(book, clocks) == [0, 500])
    }

    @Test("A clock that wavers around midnight begins the day once")
    func wavers() throws {
        var clocks = try Clocks("2026-11-20T23:59:50Z")
        var book = BudgetBook(at: clocks.now)
        count(&book, 500, clocks)
        var resets = 0
        for second in 0..<60 {
            clocks.wall += second % 2 == 0 ? 20_000 : -19_000
            clocks.instant += 1
            let before = used(book, clocks)[0]
            look(&book, clocks)
            if used(book, clocks)[0] < before { resets += 1 }
            count(&book, 1, clocks)
        }
        #expect(resets == 1)
    }

    @Test("Without a trusted clock a day lasts 24 hours of boot time, from where the ledger last was")
    func untrusted() throws {
        var clocks = try Clocks("2026-11-20T10:00:00Z")
        var book = BudgetBook(at: clocks.now)
        count(&book, 500, clocks)
        let saved = book.saved(at: clocks.now)
        // Power cut; no clock chip: it is 1970 again.
        clocks = try Clocks("1970-01-01T00:00:10Z")
        book = BudgetBook(saved, at: clocks.now)
        count(&book, 100, clocks, isTrusted: false)
        #expect(used(book, clocks) == [600, 600])
        clocks.pass(hours: 13)
        count(&book, 1, clocks, isTrusted: false)
        #expect(used(book, clocks) == [601, 601])
        // It may jump about as it likes.
        try clocks.set("2031-01-01T00:00:00Z")
        look(&book, clocks, isTrusted: false)
        #expect(used(book, clocks) == [601, 601])
        clocks.pass(hours: 1)
        look(&book, clocks, isTrusted: false)
        #expect(used(book, clocks) == [0, 601])
    }

    @Test("When the time is heard after a start, what was counted before it belongs to that day, and earlier days stay behind")
    func arrives() throws {
        var clocks = try Clocks("2026-11-20T10:00:00Z")
        var book = BudgetBook(at: clocks.now)
        count(&book, 500, clocks)
        let saved = book.saved(at: clocks.now)
        for (time, expected) in [
            ("2026-11-20T18:00:00Z", [600, 600]), ("2026-11-23T18:00:00Z", [100, 600]), ("2026-12-02T18:00:00Z", [100, 100]),
            // Behind the ledger: one of the two clocks was wrong, and nothing is given twice.
            ("2026-11-01T18:00:00Z", [600, 600]),
        ] {
            clocks = try Clocks("1970-01-01T00:00:10Z")
            book = BudgetBook(saved, at: clocks.now)
            count(&book, 100, clocks, isTrusted: false)
            // The agent restarts in between, and forgets nothing.
            book = BudgetBook(book.saved(at: clocks.now), at: clocks.now)
            try clocks.set(time)
            look(&book, clocks)
            #expect(used(book, clocks) == expected, "\(time)")
            look(&book, clocks)
            #expect(used(book, clocks) == expected)
        }
    }

    @Test("While roaming both budgets count, and the harder one decides")
    func roaming() throws {
        let clocks = try Clocks("2026-11-20T10:00:00Z")
        var book = BudgetBook(at: clocks.now)
        _ = book.record(traffic(500), for: .pull, on: "wwan0", at: clocks.now, isTrusted: true)
        _ = book.record(traffic(1_900_000), for: .pull, on: "wwan0", isRoaming: true, at: clocks.now, isTrusted: true)
        let abroad = book.budgets(of: "wwan0", .meteredDefault, isRoaming: true, at: clocks.now)
        #expect(abroad.map(\.used) == [1_900_500, 1_900_500, 1_900_000, 1_900_000])
        #expect(abroad.map(\.level) == [.open, .open, .reserve, .open])
        let home = book.budgets(of: "wwan0", .meteredDefault, at: clocks.now)
        #expect(home.map(\.level) == [.open, .open])
        #expect(book.budgets(of: "eth0", nil, at: clocks.now).isEmpty)
    }

    @Test("Another anchor day makes another month and forgets nothing")
    func otherAnchor() throws {
        let clocks = try Clocks("2026-11-20T10:00:00Z")
        var book = BudgetBook(at: clocks.now)
        count(&book, 500, clocks)
        _ = book.record(traffic(1), for: .push, on: "wwan0", anchorDay: 15, at: clocks.now, isTrusted: true)
        #expect(used(book, clocks) == [501, 501])
    }

    @Test("Hostile counts neither overflow nor turn negative, and names that come and go are bounded")
    func hostile() throws {
        let clocks = try Clocks("2026-11-20T10:00:00Z")
        var book = BudgetBook(at: clocks.now)
        for bytes in [Int.min, -1, .max, .max] {
            var traffic = Traffic()
            (traffic.up, traffic.down, traffic.headersUp, traffic.headersDown) = (bytes, bytes, bytes, bytes)
            let row = book.record(traffic, for: .push, on: "wwan0", at: clocks.now, isTrusted: true)
            #expect(row.up >= 0 && row.down >= 0)
        }
        #expect(used(book, clocks) == [.max, .max])
        for number in 0..<1_000 {
            _ = book.record(traffic(number), for: .push, on: "veth\(number)", at: clocks.now, isTrusted: true)
        }
        #expect(book.accounts.count == BudgetBook.maxAccounts)
        #expect(used(book, clocks) == [.max, .max], "the one that is used most stays")
    }

    @Test("A batch adds up by link, day and purpose, says when it is due, and is bounded")
    func batch() throws {
        let clocks = try Clocks("2026-11-20T10:00:00Z")
        let day = UTCDay(clocks.now.wall)
        var batch = UsageBatch()
        #expect(batch.dueAt == nil)
        batch.add(UsageRow(link: "a", day: day, purpose: .push, up: 1, down: 2, requests: 1), now: clocks.now.instant)
        batch.add(UsageRow(link: "a", day: day, purpose: .push, up: .max, down: 2, requests: 1), now: clocks.now.instant)
        batch.add(UsageRow(link: "a", day: day, purpose: .pull, up: 1, down: 2, requests: 1), now: clocks.now.instant)
        #expect(batch.dueAt == clocks.now.instant.advanced(by: .seconds(10)))
        let taken = batch.take()
        #expect(
            taken == [
                UsageRow(link: "a", day: day, purpose: .pull, up: 1, down: 2, requests: 1),
                UsageRow(link: "a", day: day, purpose: .push, up: .max, down: 4, requests: 2),
            ])
        #expect(batch.isEmpty && batch.dueAt == nil)
        for number in 0..<1_000 {
            batch.add(UsageRow(link: "veth\(number)", day: day, purpose: .push, up: 1, requests: 1), now: clocks.now.instant)
        }
        let rows = batch.take()
        #expect(rows.count == UsageBatch.maxRows + 1)
        #expect(rows.reduce(0) { $0 + $1.up } == 1_000)
    }
}
