import ArgumentParser
import Glibc
import LocalAPI
import SyncCore
import SyncLinux

/// The command line of the agent. It uses only the agent's socket.
@main
struct AgentCtl: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "agentctl",
        abstract: "Query and control the Edge Sync Agent on this machine.",
        discussion: """
            Results go to standard output, everything else to standard error. With --json the result is JSON, and so is an \
            error. Exit status: 0 success, 1 degraded or the answer is no, 2 agent not reachable, 3 attention needed (status), \
            64 wrong usage, 77 permission denied.
            """,
        version: "agentctl \(ProductVersion.text)",
        subcommands: [
            JoinCommand.self, StatusCommand.self, WhyCommand.self, PlanCommand.self, EnqueueCommand.self, ImportCommand.self,
            GetCommand.self, QueryCommand.self, FormCommand.self,
            WatchCommand.self, MutationsCommand.self, UndoCommand.self, RejectedCommand.self, ConflictsCommand.self, BlobsCommand.self,
            LinksCommand.self, PowerCommand.self,
            LedgerCommand.self, SyncCommand.self, PauseCommand.self,
            ResumeCommand.self, AcknowledgeCommand.self, AuditCommand.self, ConfigCommand.self, DoctorCommand.self, DiagnoseCommand.self,
            VersionCommand.self, CompletionsCommand.self,
        ])

    /// Options that may be repeated to make a list.
    private static let repeatable: Set = [
        "--type", "--where", "--sort", "--fields", "--map", "--state", "--depends-on", "--field", "--value",
    ]

    /// Synchronous on purpose: the default asynchronous entry would start the threads of the default executor.
    static func main() {
        do {
            if let twice = RepeatedOption.first(in: CommandLine.arguments.dropFirst(), repeatable: repeatable) {
                throw ValidationError(RepeatedOption.complaint(twice))
            }
            let commands = configuration.subcommands
            let complaint = UnknownCommand.complaint(CommandLine.arguments.dropFirst(), among: commands.map { $0._commandName }) {
                commands[$0].configuration.subcommands.map { $0._commandName }
            }
            if let complaint { throw ValidationError(complaint) }
            var command = try parseAsRoot()
            try command.run()
        } catch {
            let code = exitCode(for: error)
            // With `--json` the output is JSON even if the arguments are wrong; nothing else has been written to standard output then.
            if !(error is ExitCode), code != .success, CommandLine.arguments.contains("--json") {
                Output.line(
                    Problem("usage", status: 0, detail: message(for: error)).json(prefix: Problem.localPrefix).json)
            }
            // The same ending as by ArgumentParser, except that arguments are made safe for the terminal.
            let text = fullMessage(for: error)
            if !text.isEmpty { if code == .success { Output.line(text) } else { Output.note(text) } }
            Glibc.exit(code.rawValue)
        }
    }
}

/// Options of every command.
struct GlobalOptions: ParsableArguments {
    @Option(help: "The agent's socket. Default: $AGENTD_SOCKET, else \(GlobalOptions.defaultSocket).")
    var socket: String?

    @Flag(help: "Print the result as JSON.")
    var json = false

    static let defaultSocket = "/run/agentd/agent.sock"

    var socketPath: String {
        let fromEnvironment = Environment.value("AGENTD_SOCKET")
        return socket ?? (fromEnvironment?.isEmpty == false ? fromEnvironment : nil) ?? GlobalOptions.defaultSocket
    }
}
