import ArgumentParser
import LocalAPI

struct AcknowledgeCommand: AgentCommand {
    static let configuration = CommandConfiguration(
        commandName: "acknowledge", abstract: "Acknowledge an alarm that is over.",
        discussion: "Until then the status shows an alarm about the data, such as epoch_changed, also after restarts.")

    @OptionGroup var global: GlobalOptions

    @Argument(help: "Code of the alarm, as the status shows it. Default: all alarms that are over.") var code: String?

    func run(_ session: Session) async throws -> Int32 {
        let reply = try await session.client.acknowledge(AcknowledgeBody(code: code))
        if session.isJSON {
            Output.json(reply.body)
        } else {
            Output.line(
                reply.value.codes.isEmpty
                    ? "there is no alarm to acknowledge" : "acknowledged: " + reply.value.codes.joined(separator: ", "))
        }
        return 0
    }
}
