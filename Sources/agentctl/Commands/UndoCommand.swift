import ArgumentParser
import LocalAPI
import SyncCore

struct UndoCommand: AgentCommand {
    static let configuration = CommandConfiguration(
        commandName: "undo",
        abstract: "Take back a change that the hub has.",
        discussion: """
            A new change does the opposite. It leaves alone what others have changed since then, and it says what it leaves.

            A created record is deleted, and a counter is counted back. For everything else the agent must have kept what was there \
            before: it does so for entities with undo: true. agentctl mutations cancel takes back what was not sent yet.
            """)

    @OptionGroup var global: GlobalOptions
    @Argument(help: "The change's id.") var id: MutationKey
    @Flag(help: "Show what would be taken back, and change nothing.") var dryRun = false

    func run(_ session: Session) async throws -> Int32 {
        let reply = try await session.client.undo(id, UndoBody(isTrial: dryRun))
        if session.isJSON { Output.json(reply.body) } else { for line in reply.value.lines { Output.line(PlainText.safe(line)) } }
        return 0
    }
}
