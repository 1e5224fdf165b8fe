import ArgumentParser
import LocalAPI

struct AcknowledgeCommand: AgentCommand {
    static let configuration = CommandConfiguration(
        commandName: "acknowledge", abstract: "Say that somebody has seen an alarm that is over.",
        discussion: "Status shows what happened to the data, such as epoch_changed, until then, also over restarts.")

    @OptionGroup var global: GlobalOptions

    @Argument(help: "The code of the alarm, as status shows it. Without it: all that are over.") var code: String?

    func run(_ session: Session) async throws -> Int32 {
        let reply = try await session.client.acknowledge(AcknowledgeBody(code: code))
        if session.isJSON {
            Output.json(reply.body)
        } else {
            Output.line(reply.value.codes.isEmpty ? "no alarm was waiting" : "acknowledged: " + reply.value.codes.joined(separator: ", "))
        }
        return 0
    }
}
