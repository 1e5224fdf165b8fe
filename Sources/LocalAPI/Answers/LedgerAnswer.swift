package import SyncCore

/// Answer to `GET /v1/usage`: the bytes of each link, by purpose and day or month.
package struct LedgerAnswer: Hashable, Sendable {
    package struct Item: Hashable, Sendable {
        package var link: String
        /// `2026-11-20`, or `2026-11` by month; days are UTC days.
        package var period: String
        /// Purpose of the traffic: `push`, `pull`, `probe`, …
        package var purpose: String
        /// Sent bytes, with all headers and the overhead of TLS and TCP.
        package var up: Int64
        package var down: Int64
        package var requests: Int64

        package init(link: String, period: String, purpose: String, up: Int64, down: Int64, requests: Int64) {
            self.link = link
            self.period = period
            self.purpose = purpose
            self.up = up
            self.down = down
            self.requests = requests
        }
    }

    package struct Budget: Hashable, Sendable {
        package var link: String
        package var budgets: LinkBudgets

        package init(link: String, _ budgets: LinkBudgets) {
            self.link = link
            self.budgets = budgets
        }
    }

    package var period: LedgerQuery.Period
    /// Rows, oldest first.
    package var items: [Item]
    /// Budgets of the links that have any.
    package var budgets: [Budget]

    package init(by period: LedgerQuery.Period, items: [Item], budgets: [Budget] = []) {
        self.period = period
        self.items = items
        self.budgets = budgets
    }

    package var answer: LocalAnswer {
        LocalAnswer(200) { writer in
            writer.object { writer in
                writer.elements("items", items) { writer, item in
                    writer.object { writer in
                        writer.member("link", item.link)
                        switch period {
                        case .day: writer.member("day", item.period)
                        case .month: writer.member("month", item.period)
                        }
                        writer.member("class", item.purpose)
                        writer.member("up", item.up)
                        writer.member("down", item.down)
                        writer.member("requests", item.requests)
                    }
                }
                writer.members("budgets") { writer in
                    for budget in budgets {
                        writer.name(JSONString(budget.link))
                        budget.budgets.write(to: &writer)
                    }
                }
                writer.member("by", period.rawValue)
            }
        }
    }

    package init?(_ json: JSON) {
        let reader = AnswerReader(json)
        guard reader.object["items"]?.array != nil else { return nil }
        period = reader.text("by").flatMap { LedgerQuery.Period(rawValue: $0) } ?? .day
        items = reader.list("items").compactMap { element in
            let item = AnswerReader(element)
            guard let link = item.text("link"), let period = item.text("day") ?? item.text("month") else { return nil }
            return Item(
                link: link, period: period, purpose: item.text("class") ?? "unknown", up: item.int("up") ?? 0,
                down: item.int("down") ?? 0, requests: item.int("requests") ?? 0)
        }
        budgets = reader.inside("budgets").object.members.map { member in
            Budget(link: member.name.text, LinkBudgets(AnswerReader(member.value)))
        }
    }
}
