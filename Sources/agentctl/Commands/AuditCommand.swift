import ArgumentParser
import LocalAPI
import SyncCore

struct AuditCommand: AgentCommand {
    static let configuration = CommandConfiguration(
        commandName: "audit",
        abstract: "Who decided what: retries, discards, pauses, forced syncs, configurations.")

    @OptionGroup var global: GlobalOptions
    @Option(help: "Only after this number.") var after: Int64?
    @Option(help: "How many.") var limit: Int = MutationListQuery.limitDefault

    func validate() throws { try MutationList.check(limit: limit, after: after) }

    func run(_ session: Session) async throws -> Int32 {
        let reply = try await session.client.audit(AuditQuery(after: after, limit: limit))
        if session.isJSON {
            Output.json(reply.body)
            return 0
        }
        for item in reply.value.items {
            let target = item.target.isEmpty ? "" : " " + item.target
            let detail = item.detail.map { "  " + $0 } ?? ""
            Output.line(PlainText.safe("\(item.number)  \(item.at)  uid \(item.uid)  \(item.verb)\(target)\(detail)"))
        }
        if let next = reply.value.next { Output.note("more: agentctl audit --after \(next)") }
        return 0
    }
}
