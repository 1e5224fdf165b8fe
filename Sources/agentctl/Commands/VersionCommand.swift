import ArgumentParser
import LocalAPI
import SyncCore

struct VersionCommand: AgentCommand {
    static let configuration = CommandConfiguration(
        commandName: "version", abstract: "Print the versions of this program and of the running agent.")

    @OptionGroup var global: GlobalOptions

    func run(_ session: Session) async throws -> Int32 {
        var agent: String?
        do throws(AgentError) {
            agent = try await session.client.status().value.agent.version
        } catch {
            // Our own version is an answer as well; the agent's missing answer is reported and is no failure.
            if !session.isJSON { Output.note("agentctl: " + PlainText.safe(error.detail)) }
        }
        if session.isJSON {
            Output.line(
                JSON.object(["agentctl": .string(ProductVersion.text), "agentd": .optional(agent)])
                    .json)
        } else {
            Output.line("agentctl \(ProductVersion.text)")
            if let agent { Output.line("agentd \(PlainText.safe(agent))") }
        }
        return 0
    }
}
