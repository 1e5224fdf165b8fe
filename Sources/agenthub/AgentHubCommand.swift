import ArgumentParser
import Glibc
import HubServer
import SyncCore
import SyncLinux

/// `agenthub`: the reference hub. One process with one database file, or any number of processes over a PostgreSQL server.
@main
struct AgentHubCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "agenthub", abstract: "The hub that devices sync with, and the commands for its operator.",
        discussion: """
            Exit status: 0 success, 64 wrong usage, 65 an input file is invalid or damaged, 66 there is no such hub or device, \
            69 the address cannot be listened on, 73 the data folder cannot be used, 74 a file cannot be read or written, \
            75 another agenthub serves the folder, 77 the folder belongs to another user or the object store denies access, \
            78 the entities or credentials are invalid.
            """,
        version: "agenthub \(ProductVersion.text)",
        subcommands: [
            ServeCommand.self, TokenCommand.self, GrantCommand.self, RevokeCommand.self, GrantsCommand.self, WhyCommand.self,
            DevicesCommand.self, StatsCommand.self, LostCommand.self, DiagnosticsCommand.self, EntitiesCommand.self, ExportCommand.self,
            PublishCommand.self, FilesCommand.self, BackupCommand.self, RestoreCommand.self,
            ConformanceCommand.self,
        ])

    static func main() {
        StandardDescriptors.fill()
        ignoreDeadlySignals()
        do {
            if let twice = RepeatedOption.first(in: CommandLine.arguments.dropFirst()) {
                throw ValidationError(RepeatedOption.complaint(twice))
            }
            let commands = configuration.subcommands
            let complaint = UnknownCommand.complaint(CommandLine.arguments.dropFirst(), among: commands.map { $0._commandName }) {
                commands[$0].configuration.subcommands.map { $0._commandName }
            }
            if let complaint { throw ValidationError(complaint) }
            var command = try parseAsRoot()
            try command.run()
        } catch let failure as Failure {
            Say.error(failure.text)
            Glibc.exit(failure.status)
        } catch {
            // Ends like ArgumentParser, except that text from the arguments is escaped for the terminal.
            let (code, text) = (exitCode(for: error), fullMessage(for: error))
            // The reader may be gone; the exit status remains.
            if !text.isEmpty { if code == .success { try? Say.result(text) } else { Say.talk(text) } }
            Glibc.exit(code.rawValue)
        }
    }
}

/// The end of a failed command: one line for the operator and an exit status of sysexits(3).
struct Failure: Error, CustomStringConvertible {
    var status: Int32
    var text: String
    var description: String { text }

    init(_ status: Int32, _ text: String) {
        self.status = status
        self.text = text
    }

    init(_ error: HubError) {
        let status: Int32 =
            switch error.code {
            case .database: 73
            case .foreignDatabase, .badTokens, .badCertificate: 65
            case .cannotListen: 69
            case .badStorage, .badEntities: 78
            }
        self.init(status, error.description)
    }

    init(_ error: LinuxError) {
        self.init(error.code == .inUse ? 75 : 73, error.description)
    }
}

/// Output of commands. Results go to standard output, byte for byte except on a terminal (``TerminalText``). Messages go to standard error
/// and are always escaped.
enum Say {
    static func error(_ text: String) {
        talk("agenthub: " + text)
    }

    static func talk(_ text: String) {
        // When standard error is closed, there is no reader left.
        _ = write(TerminalText.escaped(text) + "\n", to: STDERR_FILENO)
    }

    /// Checked once: the type of standard output does not change.
    private static let isTerminal = isatty(STDOUT_FILENO) == 1

    static func result(_ text: String) throws(Failure) {
        guard write((isTerminal ? TerminalText.escaped(text) : text) + "\n", to: STDOUT_FILENO) else {
            throw Failure(74, "write to standard output: \(String(cString: strerror(errno)))")
        }
    }

    /// - Returns: `false` with `errno` set when not everything could be written.
    static func write(_ bytes: [UInt8]) -> Bool {
        (isTerminal ? TerminalText.escaped(bytes) : bytes).withUnsafeBytes { write($0, to: STDOUT_FILENO) }
    }

    private static func write(_ text: String, to descriptor: Int32) -> Bool {
        var text = text
        return text.withUTF8 { write(UnsafeRawBufferPointer($0), to: descriptor) }
    }

    private static func write(_ bytes: UnsafeRawBufferPointer, to descriptor: Int32) -> Bool {
        var rest = bytes[...]
        while !rest.isEmpty {
            let count = Glibc.write(descriptor, UnsafeRawBufferPointer(rebasing: rest).baseAddress, rest.count)
            if count < 0, errno == EINTR { continue }
            guard count > 0 else { return false }
            rest = rest.dropFirst(count)
        }
        return true
    }
}
