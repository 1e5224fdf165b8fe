import ArgumentParser
import LocalAPI
import SyncCore

struct DoctorCommand: AgentCommand {
    static let configuration = CommandConfiguration(
        commandName: "doctor",
        abstract: "Check everything that could be wrong, and show the fix of each problem.",
        discussion: """
            Without a running agent the configuration, the files, the disk and the database are checked. This needs the rights \
            of root or of the agent's user. Exit status: 0 no problem, 1 a problem, 2 no agent answers.
            """)

    @OptionGroup var global: GlobalOptions
    @Flag(help: "Also list the checks that are OK.") var all = false
    @Option(help: "Configuration file, used when no agent runs.") var config = AgentProgram.defaultFile

    func run(_ session: Session) async throws -> Int32 {
        do throws(AgentError) {
            let reply = try await session.client.checklist()
            show(reply.value, json: reply.body)
            return reply.value.exitStatus
        } catch {
            let isAbsent = error.code == .unreachable && !Environment.isForbidden(global.socketPath)
            guard isAbsent || LocalProblem(error.problem) == .notConfigured else { throw error }
            Output.note("agentctl: \(PlainText.safe(error.detail)); agentd checks what it can without a running agent")
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
