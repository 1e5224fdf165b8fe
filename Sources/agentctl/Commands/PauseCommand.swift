import ArgumentParser
import LocalAPI
import SyncCore
import SyncLinux

struct PauseCommand: AgentCommand {
    static let configuration = CommandConfiguration(
        commandName: "pause",
        abstract: "Stop the exchange with the hub. Apps can still queue changes and read.",
        discussion: """
            A pause survives restarts. It lasts until its end or `agentctl resume`.

            agentctl pause --for 2h --reason "changing the modem"
            """)

    @OptionGroup var global: GlobalOptions
    @Option(name: .customLong("for"), help: "Length of the pause, such as 30m or 2h.") var length: DurationArgument?
    @Option(help: "End of the pause, such as 2026-11-21T06:00:00Z.") var until: TimeArgument?
    @Option(help: "Reason, which the status shows.") var reason: String = ""

    func validate() throws {
        if length != nil, until != nil { throw ValidationError("--for and --until exclude each other.") }
        if let length, length.duration < .seconds(1) { throw ValidationError("--for must be at least 1s.") }
    }

    func run(_ session: Session) async throws -> Int32 {
        let end = until?.time ?? length.map { SystemClocks().now().wall.advanced(by: $0.duration) }
        let reply = try await session.client.pause(PauseBody(until: end, reason: reason))
        if session.isJSON {
            Output.json(reply.body)
        } else {
            Output.line("paused " + (reply.value.pause?.until.map { "until \($0)" } ?? "until it is resumed"))
        }
        return 0
    }
}
