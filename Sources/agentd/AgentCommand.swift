import Agent
import ArgumentParser
import Glibc
import LocalAPI
import SyncCore
import SyncLinux
import SyncYAML

/// `agentd --config FILE`: the daemon. It stays in the foreground, logs to standard error, and reports its state to systemd.
@main
struct AgentCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "agentd", abstract: "Store the changes of apps, and sync them with the hub.",
        discussion: """
            Exit status: 0 stopped as requested, 2 another agentd uses the state folder, 64 wrong usage, 70 internal error, \
            73 the state folder cannot be used, 78 the configuration is invalid.
            """,
        version: "agentd \(AgentVersion.current)")

    @Option(help: "Configuration file. The files `conf.d/*.yaml` beside it override its keys.")
    var config = "/etc/agentd/agentd.yaml"

    @Flag(help: "Check the configuration, print its errors, and exit.")
    var check = false

    @Flag(help: "Run the checks that need no running agent, print them as JSON, and exit.")
    var doctor = false

    mutating func run() throws {
        if doctor || check { HangUp.unblock() }
        if doctor {
            print(String(decoding: DoctorAnswer(findings: OfflineDoctor.findings(config: config)).answer.body, as: UTF8.self))
            return
        }
        if check {
            do throws(ConfigurationErrors) {
                let loaded = try ConfigurationLoader.load(main: config, accounts: SystemAccounts.accounts)
                for fault in OfflineDoctor.faultsOfFiles(loaded) { Say.error("warning: \(fault)") }
                print("\(config): the configuration is good")
            } catch {
                Say.error("\(error)")
                throw ExitCode(78)
            }
            return
        }
        let status = Daemon.run(config: config)
        if status != 0 { throw ExitCode(status) }
    }

    /// Wrong usage exits with 64 and one line, as in sysexits(3) and in all our programs.
    static func main() {
        // This comes first: a SIGHUP before its handler is installed would end the agent. While it is blocked it waits for the handler, and
        // causes one reload then.
        HangUp.block()
        StandardDescriptors.fill()
        do {
            if let twice = RepeatedOption.first(in: CommandLine.arguments.dropFirst()) {
                throw ValidationError(RepeatedOption.complaint(twice))
            }
            var command = try parseAsRoot()
            try command.run()
        } catch {
            // The same ending as by ArgumentParser, except that arguments are made safe for the terminal.
            let (code, text) = (exitCode(for: error), fullMessage(for: error))
            if !text.isEmpty { if code == .success { print(text) } else { Say.talk(text) } }
            Glibc.exit(code.rawValue)
        }
    }
}

/// Writes one line to standard error.
enum Say {
    static func error(_ text: String) {
        talk("agentd: " + text)
    }

    static func talk(_ text: String) {
        var line = TerminalText.escaped(text) + "\n"
        // When standard error is closed there is no reader left.
        line.withUTF8 { bytes in _ = write(STDERR_FILENO, bytes.baseAddress, bytes.count) }
    }
}
