package import SyncCore

/// A period's budget of one link and its used part, up and down together.
package struct BudgetUse: Hashable, Sendable {
    /// Used part, bytes.
    package var used: Int64
    /// Limit, bytes.
    package var limit: Int64
    /// ``BudgetLevel``; a level of a newer agent is shown unchanged.
    package var level: String?
    /// Time at which the period ends and the count begins again.
    package var resetsAt: Timestamp?

    package init(used: Int64, limit: Int64, level: String? = nil, resetsAt: Timestamp? = nil) {
        self.used = used
        self.limit = limit
        self.level = level
        self.resetsAt = resetsAt
    }

    package init(_ budget: Budget) {
        self.init(
            used: Int64(budget.used), limit: Int64(budget.limit), level: budget.level.rawValue,
            resetsAt: budget.resetsAt)
    }

    /// `true` when only critical work goes, or none.
    package var isUsedUp: Bool {
        level == BudgetLevel.reserve.rawValue || level == BudgetLevel.spent.rawValue
    }
}

/// The budgets of one link; a period without a limit is absent.
package struct LinkBudgets: Hashable, Sendable {
    package var day: BudgetUse?
    package var month: BudgetUse?

    package init(day: BudgetUse? = nil, month: BudgetUse? = nil) {
        self.day = day
        self.month = month
    }

    package var isUsedUp: Bool { day?.isUsedUp == true || month?.isUsedUp == true }
    package var isEmpty: Bool { day == nil && month == nil }

    /// Writes the budgets as `{"day":{"used","limit","level","resets_at"},"month":{…}}`.
    func write(to writer: inout JSONWriter) {
        writer.object { writer in
            if let day { writer.members("day") { LinkBudgets.write(day, to: &$0) } }
            if let month { writer.members("month") { LinkBudgets.write(month, to: &$0) } }
        }
    }

    private static func write(_ use: BudgetUse, to writer: inout JSONWriter) {
        writer.member("used", use.used)
        writer.member("limit", use.limit)
        writer.member("level", use.level)
        if let resetsAt = use.resetsAt { writer.time("resets_at", resetsAt) }
    }

    init(_ reader: AnswerReader) {
        day = LinkBudgets.use(reader, "day")
        month = LinkBudgets.use(reader, "month")
    }

    private static func use(_ reader: AnswerReader, _ name: String) -> BudgetUse? {
        let use = reader.inside(name)
        guard let limit = use.int("limit") else { return nil }
        return BudgetUse(
            used: use.int("used") ?? 0, limit: limit, level: use.text("level"), resetsAt: use.time("resets_at"))
    }
}
