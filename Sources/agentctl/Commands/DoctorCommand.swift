import ArgumentParser
import LocalAPI
import SyncCore

struct DoctorCommand: AgentCommand {
    static let configuration = CommandConfiguration(
        commandName: "doctor",
        abstract: "Look at everything that could be wrong, and say what mends it.",
        discussion: """
            Without a running agent the configuration, the files, the disk and the database are looked at, which takes the \
            rights of root or of the agent. Exit status: 0 nothing to mend, 1 something, 2 no agent answers.
            """)

    @OptionGroup var global: GlobalOptions
    @Flag(help: "Also list what is fine.") var all = false
    @Option(help: "The configuration file, for when no agent runs.") var config = AgentProgram.defaultFile

    func run(_ session: Session) async throws -> Int32 {
        do throws(AgentError) {
            let reply = try await session.client.checklist()
            show(reply.value, json: reply.body)
            return reply.value.exitStatus
        } catch {
            let isAbsent = error.code == .unreachable && !Environment.isForbidden(global.socketPath)
            guard isAbsent || LocalProblem(error.problem) == .notConfigured else { throw error }
            Output.note("agentctl: \(PlainText.safe(error.detail)); agentd looks at what can be seen without one")
            let body = try AgentProgram.output(["--doctor", "--config", config])
            // Without a checklist from agentd, the earlier error is the one to report.
            guard let json = try? JSONReader.read(body, limits: .message), let answer = DoctorAnswer(json) else { throw error }
            show(answer, json: answer.answer.body)
            return 2
        }
    }

    private func show(_ answer: DoctorAnswer, json: [UInt8]) {
        if global.json { return Output.json(json) }
        let lines = DoctorScreen.render(answer, width: Environment.width, color: Environment.usesColor, showsAll: all)
        for line in lines { Output.line(line) }
    }
}
