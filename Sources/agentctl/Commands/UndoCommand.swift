import ArgumentParser
import LocalAPI
import SyncCore

struct UndoCommand: AgentCommand {
    static let configuration = CommandConfiguration(
        commandName: "undo",
        abstract: "Undo a change that the hub has accepted.",
        discussion: """
            The undo is a new change with the opposite effect. It leaves fields alone that others have changed since then, and names \
            them.

            A created record is deleted, and a counter is counted back. For everything else the agent must have the earlier values, \
            which it keeps for entities with undo: true. For a change that has not been sent yet: agentctl mutations cancel ID
            """)

    @OptionGroup var global: GlobalOptions
    @Argument(help: "The change's id.") var id: MutationKey
    @Flag(help: "Show what would be undone, and change nothing.") var dryRun = false

    func run(_ session: Session) async throws -> Int32 {
        let reply = try await session.client.undo(id, UndoBody(isTrial: dryRun))
        if session.isJSON { Output.json(reply.body) } else { for line in reply.value.lines { Output.line(PlainText.safe(line)) } }
        return 0
    }
}
