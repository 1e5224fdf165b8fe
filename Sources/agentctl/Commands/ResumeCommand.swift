import ArgumentParser
import LocalAPI

struct ResumeCommand: AgentCommand {
    static let configuration = CommandConfiguration(commandName: "resume", abstract: "End a pause.")

    @OptionGroup var global: GlobalOptions

    func run(_ session: Session) async throws -> Int32 {
        let reply = try await session.client.resume()
        if session.isJSON { Output.json(reply.body) } else { Output.line("resumed") }
        return 0
    }
}
