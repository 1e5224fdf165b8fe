import ArgumentParser
import LocalAPI
import SyncCore

struct WhyCommand: AgentCommand {
    static let configuration = CommandConfiguration(
        commandName: "why",
        abstract: "Explain why a change or a file waits, and until when.",
        discussion: "`agentctl enqueue` prints the id. `agentctl mutations list` shows the waiting changes.")

    @OptionGroup var global: GlobalOptions
    @Argument(help: "Id of the change or of the blob.") var id: MutationKey

    func run(_ session: Session) async throws -> Int32 {
        let reply = try await session.client.why(id)
        session.show(reply) { WhyScreen.render($0, width: $1.width, now: $1.now, offset: $1.offset) }
        return 0
    }
}
