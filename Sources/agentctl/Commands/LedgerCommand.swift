import ArgumentParser
import LocalAPI
import SyncCore

struct LedgerCommand: AgentCommand {
    static let configuration = CommandConfiguration(
        commandName: "ledger",
        abstract: "Show the bytes that went over each link, by purpose and day, and the budgets.",
        discussion: """
            Days and months are those of UTC.

            agentctl ledger --link wwan0 --from 2026-11-01 --by month
            """)

    @OptionGroup var global: GlobalOptions
    @Option(help: "Only over this link.") var link: LinkName?
    @Option(help: "From this day, such as 2026-11-19.") var from: CalendarDay?
    @Option(help: "To this day, inclusive.") var to: CalendarDay?
    @Option(help: "day or month.") var by: LedgerQuery.Period = .day

    func validate() throws {
        if let from, let to, to < from { throw ValidationError("--to \(to) is before --from \(from).") }
    }

    func run(_ session: Session) async throws -> Int32 {
        let reply = try await session.client.ledger(LedgerQuery(link: link, from: from, to: to, by: by))
        session.show(reply) { LedgerScreen.render($0, width: $1.width, now: $1.now, offset: $1.offset) }
        return 0
    }
}
