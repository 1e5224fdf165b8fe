import ArgumentParser
import LocalAPI
import SyncCore
import SyncLinux

/// A command that talks to the agent. It throws its failure; all failures are shown, and end the program, in the same way.
protocol AgentCommand: ParsableCommand, Sendable {
    var global: GlobalOptions { get }

    /// `true` when the command begins with a call of the agent, and so gives one that was just started time to create its socket.
    static var beginsWithAgent: Bool { get }

    /// - Returns: The exit status.
    func run(_ session: Session) async throws -> Int32
}

/// The tools of a command.
struct Session: Sendable {
    let client: AgentClient
    let isJSON: Bool

    /// Shows an answer, unchanged as JSON or as text for people.
    func show<Value>(_ reply: Reply<Value>, _ render: (Value, View) -> [String]) {
        if isJSON { return Output.json(reply.body) }
        for line in render(reply.value, View()) { Output.line(line) }
    }
}

extension AgentCommand {
    static var beginsWithAgent: Bool { true }

    func run() throws {
        let command = self
        if Self.beginsWithAgent { Environment.awaitFile(command.global.socketPath) }
        let result = CallingThread.run { () async -> Result<Int32, any Error> in
            do {
                let client = AgentClient(
                    transport: try CurlTransport(name: "agentctl", idleConnections: 1),
                    socketPath: command.global.socketPath)
                return .success(try await command.run(Session(client: client, isJSON: command.global.json)))
            } catch {
                return .failure(error)
            }
        }
        switch result {
        case .success(let status):
            if status != 0 { throw ExitCode(status) }
        case .failure(let error as AgentError):
            if error.code == .unreachable, Environment.isForbidden(global.socketPath) {
                let failure = CommandFailure.notAllowed(socket: global.socketPath)
                Output.report(failure, asJSON: global.json)
                throw ExitCode(failure.exitStatus)
            }
            Output.report(error, asJSON: global.json)
            throw ExitCode(error.exitStatus)
        case .failure(let error as CommandFailure):
            Output.report(error, asJSON: global.json)
            throw ExitCode(error.exitStatus)
        case .failure(let error):
            throw error
        }
    }
}

/// A failure on this side of the socket.
struct CommandFailure: Error, Sendable {
    var exitStatus: Int32
    var problem: Problem

    /// The arguments are invalid: exit 64.
    static func usage(_ detail: String) -> CommandFailure {
        CommandFailure(exitStatus: 64, problem: Problem("usage", status: 0, detail: detail))
    }

    /// The socket exists but may not be opened: exit 77.
    static func notAllowed(socket: String) -> CommandFailure {
        let detail =
            switch Environment.group(thatMayOpen: socket) {
            case "root":
                // A member of the group root may read far more than this socket.
                "\(Environment.user) may not open \(socket). Only root and its owner may. To let others in, name "
                    + "a group of theirs in agentd.yaml (socket.group), and restart agentd"
            case let group?:
                "\(Environment.user) may not open \(socket). Only root and the members of the group \(group) may. To add "
                    + "\(Environment.user) to the group: sudo usermod -aG \(group) \(Environment.user), then log in again"
            case nil:
                "\(Environment.user) may not open \(socket). Only root and its owner may (socket.mode, socket.group)"
            }
        return CommandFailure(exitStatus: 77, problem: Problem("forbidden", status: 0, detail: detail))
    }

    /// The answer is negative: exit 1.
    static func failed(_ code: String, _ detail: String) -> CommandFailure {
        CommandFailure(exitStatus: 1, problem: Problem(code, status: 0, detail: detail))
    }
}
