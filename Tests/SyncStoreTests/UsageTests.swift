import SyncCore
import SyncStore
import Testing

@Suite("Usage")
struct UsageTests {
    private let day = UTCDay(number: 20_000)

    private func row(_ link: String, _ day: UTCDay, _ purpose: UsagePurpose, _ up: Int64, _ down: Int64, _ requests: Int64 = 1) -> UsageRow
    {
        UsageRow(link: link, day: day, purpose: purpose, up: up, down: down, requests: requests)
    }

    private func saved(_ day: UTCDay, _ bytes: Int64 = 0) -> BudgetBook.Saved {
        var account = BudgetBook.Account(monthStart: day)
        (account.dayBytes, account.monthBytes, account.anchorDay) = (bytes, bytes * 2, 15)
        (account.unsureDayBytes, account.unsureMonthBytes) = (1, 2)
        return BudgetBook.Saved(
            accounts: [BudgetBook.Name("wwan0"): account, BudgetBook.Name("wwan0", isRoaming: true): account],
            at: day.start.advanced(by: .milliseconds(5)))
    }

    @Test("Rows of the same link, day and purpose add up, over a restart too, and the budgets come back as they were")
    func adds() throws {
        let agent = try TestAgent()
        #expect(try agent.store.budgetBook() == nil)
        try agent.store.recordUsage([row("wwan0", day, .push, 10, 20)], saved(day, 30), at: agent.now)
        try agent.crash()
        #expect(try agent.store.budgetBook() == saved(day, 30))
        try agent.store.recordUsage(
            [row("wwan0", day, .push, 1, 2, 3), row("wwan0", day, .pull, 5, 6), row("eth0", day.next, .push, 7, 8)],
            saved(day.next, 1), at: agent.now)
        try agent.crash()
        #expect(try agent.store.budgetBook() == saved(day.next, 1))
        #expect(
            try agent.store.reads.usage(UsageQuery()) == [
                row("wwan0", day, .pull, 5, 6), row("wwan0", day, .push, 11, 22, 4), row("eth0", day.next, .push, 7, 8),
            ])
    }

    @Test("It is asked for by link, by first and last day, and by month")
    func queries() throws {
        let agent = try TestAgent()
        let days = try ["2026-10-31", "2026-11-01", "2026-11-30", "2026-12-01"].map { try #require(UTCDay($0)) }
        try agent.store.recordUsage(
            days.enumerated().flatMap { index, day in
                [row("wwan0", day, .push, Int64(index + 1), 0), row("eth0", day, .push, 100, 0)]
            }, saved(days[3]), at: agent.now)
        var query = UsageQuery()
        query.link = "wwan0"
        query.from = days[1]
        query.to = days[2]
        #expect(try agent.store.reads.usage(query) == [row("wwan0", days[1], .push, 2, 0), row("wwan0", days[2], .push, 3, 0)])
        query.period = .month
        query.to = nil
        #expect(try agent.store.reads.usage(query) == [row("wwan0", days[1], .push, 5, 0, 2), row("wwan0", days[3], .push, 4, 0)])
        query.limit = 1
        #expect(try agent.store.reads.usage(query).count == 1)
    }

    @Test("Rows older than 400 days by the ledger's clock are removed, and a wall clock that jumps ahead purges nothing")
    func prunes() throws {
        let agent = try TestAgent()
        try agent.store.recordUsage([row("a", day, .push, 1, 1)], saved(day), at: agent.now)
        agent.wait(.seconds(4_000 * 86_400))
        let last = UTCDay(number: day.number + 400)
        try agent.store.recordUsage([row("a", last, .push, 1, 1)], saved(last), at: agent.now)
        #expect(try agent.store.reads.usage(UsageQuery()).count == 2)
        try agent.store.recordUsage([row("a", last.next, .push, 1, 1)], saved(last.next), at: agent.now)
        #expect(try agent.store.reads.usage(UsageQuery()).map(\.day) == [last, last.next])
    }

    @Test("Absurd counts are kept in bounds and can still be added to and summed")
    func absurd() throws {
        let agent = try TestAgent()
        for _ in 0..<3 {
            try agent.store.recordUsage(
                UsagePurpose.allCases.map { row("a", day, $0, .max, .max, .max) }, saved(day, 1), at: agent.now)
        }
        var query = UsageQuery()
        query.period = .month
        #expect(try agent.store.reads.usage(query).allSatisfy { $0.up == 1 << 50 && $0.requests == 1 << 50 })
    }

    @Test("A database of the version before gets the tables and keeps its mutations")
    func migrates() throws {
        let folder = try TemporaryFolder()
        do {
            let agent = try TestAgent(in: folder)
            try agent.create("r-1")
            try agent.store.close(at: agent.now)
        }
        try RawDatabase(folder.database).goBack(to: 1)

        let agent = try TestAgent(in: folder)
        #expect(try agent.store.reads.usage(UsageQuery()).isEmpty)
        #expect(try agent.store.budgetBook() == nil)
        #expect(try agent.store.reads.facts(at: agent.now).enqueued == 1)
        #expect(try agent.store.verify() == [])
        try agent.store.recordUsage([row("a", day, .push, 1, 1)], saved(day), at: agent.now)
        try agent.crash()
        #expect(try agent.store.reads.usage(UsageQuery()).count == 1)
    }
}
