import ArgumentParser
import LocalAPI

struct PowerCommand: AgentCommand {
    static let configuration = CommandConfiguration(
        commandName: "power",
        abstract: "Show the power supply of this machine, and whether the sync waits because of it.")

    @OptionGroup var global: GlobalOptions

    func run(_ session: Session) async throws -> Int32 {
        let reply = try await session.client.power()
        if session.isJSON {
            Output.json(reply.body)
        } else {
            for line in PowerScreen.render(reply.value, width: View().width) { Output.line(line) }
        }
        return 0
    }
}
