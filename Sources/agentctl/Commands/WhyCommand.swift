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
        if session.isJSON {
            Output.json(reply.body)
        } else {
            let view = View()
            for line in WhyScreen.render(reply.value, width: view.width, now: view.now, offset: view.offset) {
                Output.line(line)
            }
        }
        return 0
    }
}
