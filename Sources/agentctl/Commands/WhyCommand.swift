import ArgumentParser
import LocalAPI
import SyncCore

struct WhyCommand: AgentCommand {
    static let configuration = CommandConfiguration(
        commandName: "why",
        abstract: "Why does this change, or this file, wait, and what would let it go?",
        discussion: "`agentctl enqueue` prints the id, `agentctl mutations list` shows those that wait.")

    @OptionGroup var global: GlobalOptions
    @Argument(help: "The change's id, or a blob's.") var id: MutationKey

    func run(_ session: Session) async throws -> Int32 {
        let reply = try await session.client.why(id)
        session.show(reply) { WhyScreen.render($0, width: $1.width, now: $1.now, offset: $1.offset) }
        return 0
    }
}
