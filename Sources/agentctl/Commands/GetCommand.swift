import ArgumentParser
import LocalAPI
import SyncCore

struct GetCommand: AgentCommand {
    static let configuration = CommandConfiguration(
        commandName: "get",
        abstract: "Read one record of the local mirror, or list those of an entity.",
        discussion:
            """
            The command reads locally and does not wait for the network. The document goes to standard output, its version and state \
            to standard error. Exit status 1: there is no such record, it was deleted, or its document is not kept on this device.

            With --fetch the agent asks the hub for a document that is not kept here (entities.NAME.keep). The record is then kept \
            in full again.

            agentctl get work_orders wo-1
            agentctl get --fetch work_orders wo-1
            """
    )

    @OptionGroup var global: GlobalOptions
    @Argument(help: .entity) var entity: EntityName
    @Argument(help: "The record's id.") var id: RecordID?
    @Option(help: "merged (with open changes), server (as the hub has it), or both.") var view: RecordView = .merged
    @Flag(help: "Ask the hub for the document if it is not kept on this device.") var fetch = false
    @Option(help: "Number of records in a list.") var limit: Int = RecordListQuery.limitDefault

    func validate() throws {
        try RecordList.check(limit: limit)
        if fetch, id == nil { throw ValidationError("--fetch needs the id of one record.") }
    }

    func run(_ session: Session) async throws -> Int32 {
        guard let id else {
            let page = try await session.client.query(RecordListQuery(entity, limit: limit))
            return RecordList.show(page, of: ["agentctl", "query", entity.text, "--limit", "\(limit)"], asJSON: session.isJSON)
        }
        let reply = try await session.client.record(RecordName(entity, id), view: view, fetches: fetch)
        let record = reply.value
        let isGone = record.data == nil && (view != .both || record.base == nil)
        if session.isJSON {
            Output.json(reply.body)
            return isGone ? 1 : 0
        }
        guard !isGone else {
            Output.note("agentctl: " + PlainText.safe(record.absence(in: view)))
            return 1
        }
        let pending = record.pending.isEmpty ? "" : ", open changes: \(record.pending.count)"
        Output.note(PlainText.safe("\(record.name) version \(record.version), \(record.status)\(pending), etag \(record.etag)"))
        if view == .both { Output.line(RecordList.pretty(record.base)) }
        Output.line(RecordList.pretty(record.data))
        return 0
    }
}
