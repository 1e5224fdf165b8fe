package import SyncCore
import SyncSQLite

extension Store {
    static let usageKeptForDays: Int64 = 400
    private static let usageMost: Int64 = 1 << 50

    /// Adds counted bytes. Invariant: rows and budgets change together, so that a crash never counts bytes in only one of them. A call
    /// beside other work joins that work's transaction and needs no fsync of its own.
    ///
    /// - Throws: Nothing is added then; the rows may be added again.
    ///
    /// - Parameter reserved: Bytes that may move before the next call; it replaces the stored value.
    package func recordUsage(
        _ rows: [UsageRow], _ book: BudgetBook.Saved, _ reserved: UsageReservation.Stored? = nil, at now: Moment
    ) throws(StoreError) {
        try transact(at: now) { () throws(StoreError) in
            for row in rows {
                // A petabyte (2^50) is more than any link moves; with this limit no sum over the table can overflow.
                try database.run(
                    """
                    INSERT INTO usage (day, link, class, up, down, requests) VALUES (?, ?, ?, ?, ?, ?)
                    ON CONFLICT DO UPDATE SET up = min(up + excluded.up, 1125899906842624),
                        down = min(down + excluded.down, 1125899906842624),
                        requests = min(requests + excluded.requests, 1125899906842624)
                    """, .int(row.day.number), .text(row.link), .text(row.purpose.rawValue),
                    .int(min(row.up, Self.usageMost)), .int(min(row.down, Self.usageMost)),
                    .int(min(row.requests, Self.usageMost)))
            }
            try database.run("DELETE FROM budget")
            for (name, account) in book.accounts {
                try database.run(
                    """
                    INSERT INTO budget (link, roaming, day_bytes, month_bytes, anchor_day, month_start, unsure_day_bytes,
                        unsure_month_bytes) VALUES (?, ?, ?, ?, ?, ?, ?, ?)
                    """, .text(name.link), .int(name.isRoaming ? 1 : 0), .int(account.dayBytes), .int(account.monthBytes),
                    .int(Int64(account.anchorDay)), .int(account.monthStart.number), .int(account.unsureDayBytes),
                    .int(account.unsureMonthBytes))
            }
            let meta = MetaTable(database)
            try meta.set("ledger_at_ms", String(book.at.milliseconds))
            try meta.set(Self.reservedName, reserved.map { $0.json.json } ?? "")
            // The ledger's own day decides, so a wall clock that jumps ahead purges nothing.
            try database.run("DELETE FROM usage WHERE day < ?", .int(UTCDay(book.at).number - Self.usageKeptForDays))
        }
    }

    private static let reservedName = "usage_reserved"

    /// The value that ``recordUsage(_:_:_:at:)`` stored; `nil`: no transfer was running or planned.
    package func usageReservation() throws(StoreError) -> UsageReservation.Stored? {
        guard let text = try MetaTable(database).text(Self.reservedName), !text.isEmpty else { return nil }
        // `try?`: a damaged row gives no bytes to count, as if it did not exist.
        return (try? JSONReader.read(Array(text.utf8)))?.object.flatMap { UsageReservation.Stored($0) }
    }

    /// The budgets that ``recordUsage(_:_:_:at:)`` stored last; `nil` in a new database.
    package func budgetBook() throws(StoreError) -> BudgetBook.Saved? {
        guard let at = try MetaTable(database).text("ledger_at_ms").flatMap({ Int64($0) }) else { return nil }
        var accounts: [BudgetBook.Name: BudgetBook.Account] = [:]
        try database.each(
            """
            SELECT link, roaming, day_bytes, month_bytes, anchor_day, month_start, unsure_day_bytes, unsure_month_bytes
            FROM budget
            """
        ) { row throws(StoreError) in
            var account = BudgetBook.Account(monthStart: UTCDay(number: row.int(5)))
            account.dayBytes = row.int(2)
            account.monthBytes = row.int(3)
            account.anchorDay = min(max(Int(clamping: row.int(4)), 1), 28)
            account.unsureDayBytes = row.int(6)
            account.unsureMonthBytes = row.int(7)
            accounts[BudgetBook.Name(row.text(0), isRoaming: row.bool(1))] = account
        }
        return BudgetBook.Saved(accounts: accounts, at: Timestamp(milliseconds: at))
    }
}

extension UsageReservation.Stored {
    fileprivate var json: JSON {
        var object: JSONObject = [
            "link": .string(link), "roaming": .bool(isRoaming), "up": .int(bytes.up), "down": .int(bytes.down), "boot": .string(boot),
        ]
        if let carried { (object["carried_up"], object["carried_down"]) = (.int(carried.up), .int(carried.down)) }
        return .object(object)
    }

    fileprivate init?(_ object: JSONObject) {
        guard let link = object["link"]?.text, let up = object["up"]?.int, let down = object["down"]?.int, let boot = object["boot"]?.text
        else { return nil }
        var carried: UsageReservation.Bytes?
        if let up = object["carried_up"]?.int, let down = object["carried_down"]?.int { carried = .init(up: up, down: down) }
        self.init(link: link, isRoaming: object["roaming"] == true, bytes: .init(up: up, down: down), boot: boot, carried: carried)
    }
}
