import ArgumentParser
import LocalAPI
import SyncCore

struct AuditCommand: AgentCommand {
    static let configuration = CommandConfiguration(
        commandName: "audit",
        abstract: "List who decided what: retries, discards, pauses, forced syncs, accepted deletions, configurations.")

    @OptionGroup var global: GlobalOptions
    @Option(help: "Only entries after this number.") var after: Int64?
    @Option(help: "Number of entries.") var limit: Int = MutationListQuery.limitDefault

    func validate() throws { try MutationList.check(limit: limit, after: after) }

    func run(_ session: Session) async throws -> Int32 {
        let reply = try await session.client.audit(AuditQuery(after: after, limit: limit))
        if session.isJSON {
            Output.json(reply.body)
            return 0
        }
        let view = View()
        let lines =
            view.isTerminal
            ? AuditScreen.list(reply.value.items, width: view.width, now: view.now, offset: view.offset)
            : reply.value.items.map(AuditScreen.line)
        Output.list(lines, nothing: "no decisions")
        if let next = reply.value.next { Output.note("more: agentctl audit --after \(next)") }
        return 0
    }
}
