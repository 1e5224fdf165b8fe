import ArgumentParser
import Glibc
import LocalAPI
import SyncCore

struct ConfigCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "config",
        abstract: "Check, show or reload the agent's configuration.",
        subcommands: [Check.self, Show.self, Reload.self])

    struct Check: AgentCommand {
        static let configuration = CommandConfiguration(
            abstract: "Check a configuration. Nothing is changed.",
            discussion:
                """
                A running agent checks it; without one, agentd is started for the check. Without FILE the files are checked that \
                the agent uses.
                """
        )

        @OptionGroup var global: GlobalOptions
        @Argument(help: "The configuration file.") var file: String?

        func run(_ session: Session) async throws -> Int32 {
            var body = ConfigCheckBody()
            if let file {
                let bytes = try InputFile.contents(of: file, max: Limits.localBodyBytes)
                guard let text = String(validating: bytes, as: UTF8.self) else {
                    throw CommandFailure.failed("validation", "\(file) is not UTF-8")
                }
                body = ConfigCheckBody(name: file, text: text)
            }
            do throws(AgentError) {
                let reply = try await session.client.checkConfig(body)
                if session.isJSON { Output.json(reply.body) } else { Output.line("good") }
                return 0
            } catch {
                // A user who may not ask the agent may still run the program, which reads only files that the user can read.
                let problem = LocalProblem(error.problem)
                guard error.code == .unreachable || problem == .forbidden || problem == .notConfigured else { throw error }
                throw AgentProgram.check(file)
            }
        }
    }

    struct Show: AgentCommand {
        static let configuration = CommandConfiguration(
            abstract: "Show the configuration in force, each key with its origin. Secrets are masked.")

        @OptionGroup var global: GlobalOptions

        func run(_ session: Session) async throws -> Int32 {
            let reply = try await session.client.config()
            if session.isJSON {
                Output.json(reply.body)
            } else {
                for value in reply.value.values {
                    let origin = value.place.map { "\(value.origin) \($0)" } ?? value.origin
                    Output.line(PlainText.safe("\(value.key): \(value.value.text ?? value.value.json)   # \(origin)"))
                }
            }
            return 0
        }
    }

    struct Reload: AgentCommand {
        static let configuration = CommandConfiguration(
            abstract: "Read the configuration files again. An invalid one changes nothing.")

        @OptionGroup var global: GlobalOptions

        func run(_ session: Session) async throws -> Int32 {
            let reply = try await session.client.reloadConfig()
            if session.isJSON {
                Output.json(reply.body)
            } else {
                let changed = reply.value.changed
                Output.line(
                    PlainText.safe(changed.isEmpty ? "nothing changed" : "changed: " + changed.joined(separator: ", ")))
                if !reply.value.restartNeeded.isEmpty {
                    Output.note(
                        PlainText.safe("restart agentd to apply: " + reply.value.restartNeeded.joined(separator: ", ")))
                }
            }
            return 0
        }
    }
}

/// The daemon's own check, for use when no agent runs.
enum AgentProgram {
    static let defaultFile = "/etc/agentd/agentd.yaml"

    /// Paths of the program. The one beside this program comes first, so that a build tree and an installation each find their own.
    private static var paths: [String] { [beside("agentd"), "agentd"].compactMap { $0 } }

    /// Replaces this process by `agentd --check --config FILE`; the exit status is that program's.
    ///
    /// - Returns: The reason why it could not be started.
    static func check(_ file: String?) -> CommandFailure {
        let arguments = ["agentd", "--check", "--config", file ?? defaultFile]
        var pointers: [UnsafeMutablePointer<CChar>?] = arguments.map { strdup($0) }
        pointers.append(nil)
        for path in paths { execvp(path, pointers) }
        let error = errno
        for pointer in pointers { free(pointer) }
        return failure(error)
    }

    /// The output of `agentd` with these arguments.
    static func output(_ arguments: [String]) throws(CommandFailure) -> [UInt8] {
        do throws(Program.Absent) {
            return try Program.run(paths, arguments, hears: STDOUT_FILENO).bytes
        } catch {
            throw failure(error.errno)
        }
    }

    /// The status of `agentd --check` for the files of this machine, and its complaint.
    static func judgement() throws(CommandFailure) -> (status: Int32, complaint: String) {
        do throws(Program.Absent) {
            let result = try Program.run(paths, ["--check", "--config", defaultFile], hears: STDERR_FILENO)
            return (result.status, Program.line(of: result.bytes))
        } catch {
            throw failure(error.errno)
        }
    }

    private static func failure(_ error: Int32) -> CommandFailure {
        let reason = String(cString: strerror(error))
        return CommandFailure(
            exitStatus: 2,
            problem: Problem(
                "unreachable", status: 0, detail: "no agent answers, and agentd could not be started for the check: \(reason)"))
    }

    private static func beside(_ name: String) -> String? {
        guard let own = realpath("/proc/self/exe", nil) else { return nil }
        defer { free(own) }
        let path = String(cString: own)
        return path.lastIndex(of: "/").map { path[...$0] + name }
    }
}
