/// The used part of each link's budget: bytes of the running day and of the running month, by ``LedgerClock``.
///
/// Bytes of a roaming modem count twice, for the link and for its roaming budget, because both are limits.
package struct BudgetBook: Hashable, Sendable {
    /// The owner of a budget.
    package struct Name: Hashable, Sendable {
        package var link: String
        package var isRoaming: Bool

        package init(_ link: String, isRoaming: Bool = false) {
            self.link = link
            self.isRoaming = isRoaming
        }
    }

    package struct Account: Hashable, Sendable {
        /// Bytes of the day, up and down together, never negative.
        package var dayBytes: Int64 = 0
        package var monthBytes: Int64 = 0
        package var anchorDay = 1
        package var monthStart: UTCDay
        /// Bytes of the day and of the month that were counted while the clock was not trusted.
        package var unsureDayBytes: Int64 = 0
        package var unsureMonthBytes: Int64 = 0

        package init(monthStart: UTCDay) {
            self.monthStart = monthStart
        }
    }

    /// The stored state.
    package struct Saved: Hashable, Sendable {
        package var accounts: [Name: Account]
        /// The time of the ledger.
        package var at: Timestamp

        package init(accounts: [Name: Account], at: Timestamp) {
            self.accounts = accounts
            self.at = at
        }
    }

    /// Largest number of accounts. Beyond it, a new one replaces the one that is used least this month, because names of links that come
    /// and go are normal.
    package static let maxAccounts = 64

    package private(set) var accounts: [Name: Account]
    package private(set) var clock: LedgerClock

    package init(_ saved: Saved? = nil, at moment: Moment) {
        accounts = saved?.accounts ?? [:]
        clock = LedgerClock(saved: saved?.at, at: moment)
    }

    package func saved(at moment: Moment) -> Saved {
        Saved(accounts: accounts, at: clock.time(at: moment))
    }

    /// Brings days and months up to date.
    package mutating func look(_ moment: Moment, isTrusted: Bool) {
        let change = clock.look(moment, isTrusted: isTrusted)
        let day = clock.day
        for name in accounts.keys { accounts[name]?.turn(change, to: day, isTrusted: isTrusted) }
    }

    /// Counts the bytes of a request.
    ///
    /// - Parameter requests: Number of requests; 0 for bytes that belong to none.
    /// - Returns: The row for the table `usage`, with the ledger's day.
    package mutating func record(
        _ traffic: Traffic, for purpose: UsagePurpose, on link: String, isRoaming: Bool = false, anchorDay: Int = 1, requests: Int64 = 1,
        at moment: Moment, isTrusted: Bool
    ) -> UsageRow {
        look(moment, isTrusted: isTrusted)
        let row = UsageRow(
            link: link, day: clock.day, purpose: purpose, up: Int64(traffic.wireUp), down: Int64(traffic.wireDown),
            requests: requests)
        let bytes = row.up.saturatingAdd(row.down)
        add(bytes, Name(link), anchorDay)
        if isRoaming { add(bytes, Name(link, isRoaming: true), anchorDay) }
        return row
    }

    /// The budgets of a link; empty for a link without limits.
    ///
    /// - Parameter now: Present time, to show the reset times by the present wall clock.
    package func budgets(
        of link: String, _ limits: LinkBudget?, isRoaming: Bool = false, at now: Moment
    ) -> [Budget] {
        var all: [Budget] = []
        if let limits { all += budgets(accounts[Name(link)], limits, now) }
        if isRoaming { all += budgets(accounts[Name(link, isRoaming: true)], .roamingDefault, now) }
        return all
    }

    private func budgets(_ account: Account?, _ limits: LinkBudget, _ now: Moment) -> [Budget] {
        let anchor = account?.anchorDay ?? limits.anchorDay
        var all: [Budget] = []
        if let limit = limits.dayBytes {
            all.append(
                Budget(
                    limit: limit, used: Int(clamping: account?.dayBytes ?? 0), resetsAt: wall(of: clock.day.next, now)))
        }
        if let limit = limits.monthBytes {
            all.append(
                Budget(
                    limit: limit, used: Int(clamping: account?.monthBytes ?? 0),
                    resetsAt: wall(of: clock.day.nextMonthStart(anchor: anchor), now)))
        }
        return all
    }

    /// Time at which a day of the ledger begins, by the present wall clock.
    private func wall(of day: UTCDay, _ now: Moment) -> Timestamp {
        now.wall.advanced(by: clock.time(at: now).duration(to: day.start))
    }

    private mutating func add(_ bytes: Int64, _ name: Name, _ anchorDay: Int) {
        if accounts[name] == nil, accounts.count >= Self.maxAccounts {
            let least = accounts.min { ($0.value.monthBytes, $0.key.link) < ($1.value.monthBytes, $1.key.link) }
            if let least { accounts[least.key] = nil }
        }
        var account = accounts[name] ?? Account(monthStart: clock.day.monthStart(anchor: anchorDay))
        if account.anchorDay != anchorDay {
            // Another anchor day makes another month of it; counted bytes stay counted.
            account.anchorDay = anchorDay
            account.monthStart = clock.day.monthStart(anchor: anchorDay)
        }
        account.add(bytes, isTrusted: clock.isTrusted)
        accounts[name] = account
    }
}

extension BudgetBook.Account {
    fileprivate mutating func add(_ bytes: Int64, isTrusted: Bool) {
        dayBytes = dayBytes.saturatingAdd(bytes)
        monthBytes = monthBytes.saturatingAdd(bytes)
        guard !isTrusted else { return }
        unsureDayBytes = unsureDayBytes.saturatingAdd(bytes)
        unsureMonthBytes = unsureMonthBytes.saturatingAdd(bytes)
    }

    fileprivate mutating func turn(_ change: LedgerClock.Change, to day: UTCDay, isTrusted: Bool) {
        let month = day.monthStart(anchor: anchorDay)
        switch change {
        case .none: break
        case .began:
            (dayBytes, unsureDayBytes) = (0, 0)
            if month > monthStart { (monthBytes, unsureMonthBytes) = (0, 0) }
            monthStart = max(month, monthStart)
        case .moved: monthStart = month
        case .arrived:
            dayBytes = unsureDayBytes
            if month > monthStart { monthBytes = unsureMonthBytes }
            monthStart = max(month, monthStart)
        }
        if isTrusted { (unsureDayBytes, unsureMonthBytes) = (0, 0) }
    }
}

extension LinkBudget {
    /// The budget while roaming, besides the link's own.
    package static let roamingDefault: LinkBudget = {
        var budget = LinkBudget()
        budget.dayBytes = 2_000_000
        budget.monthBytes = 20_000_000
        return budget
    }()
}
