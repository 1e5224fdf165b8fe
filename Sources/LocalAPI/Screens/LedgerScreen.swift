package import SyncCore

/// The output of `agentctl ledger` for people: the bytes of each link by purpose, the sum, and the budgets.
package enum LedgerScreen {
    package static func render(
        _ answer: LedgerAnswer, width: Int = 80, now: Timestamp, offset: Duration = .zero
    ) -> [String] {
        var lines: [String] = []
        if answer.items.isEmpty {
            lines.append(PlainText.clip("nothing was sent or received in that time", to: width))
        } else {
            var table = TextTable([
                .init(answer.period.rawValue.uppercased()), .init("LINK"), .init("FOR", widthMin: 4),
                .init("UP", .right), .init("DOWN", .right), .init("REQUESTS", .right),
            ])
            for item in answer.items {
                table.add([
                    item.period, item.link, item.purpose, SizeText.readable(item.up), SizeText.readable(item.down),
                    PlainText.count(item.requests),
                ])
            }
            func sum(_ part: (LedgerAnswer.Item) -> Int64) -> Int64 {
                answer.items.reduce(0) { $0.saturatingAdd(part($1)) }
            }
            table.add([
                "all", "", "", SizeText.readable(sum(\.up)), SizeText.readable(sum(\.down)),
                PlainText.count(sum(\.requests)),
            ])
            lines += table.lines(width: width)
        }
        guard !answer.budgets.isEmpty else { return lines }
        var table = TextTable([
            .init("BUDGET OF", widthMin: 9), .init("PERIOD"), .init("USED", .right), .init("LEVEL", widthMin: 7),
            .init("BEGINS AGAIN"),
        ])
        for budget in answer.budgets {
            for (name, use) in [("day", budget.budgets.day), ("month", budget.budgets.month)] {
                guard let use else { continue }
                table.add([
                    budget.link, name, LinksScreen.use(use), use.level ?? "",
                    use.resetsAt.map { PlainText.clock($0, now: now, offset: offset) } ?? "",
                ])
            }
        }
        return lines + table.lines(width: width)
    }
}
