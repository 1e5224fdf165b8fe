import ArgumentParser
import LocalAPI
import SyncCore
import SyncLinux

struct StatusCommand: AgentCommand {
    static let configuration = CommandConfiguration(
        commandName: "status",
        abstract: "Is the work safe, does it flow, if not why, and what will it cost?",
        discussion: "Exit status: 0 all well, 1 degraded, 2 agent not reachable, 3 a person has to act.")

    @OptionGroup var global: GlobalOptions
    @Flag(help: "One line.") var brief = false
    @Flag(help: "Show it again every two seconds, until interrupted.") var watch = false

    func run(_ session: Session) async throws -> Int32 {
        guard watch else { return show(try await session.client.status()) }
        while true {
            // An agent that restarts is part of what one watches.
            do throws(AgentError) {
                let reply = try await session.client.status()
                clear()
                _ = show(reply)
            } catch {
                clear()
                Output.report(error, asJSON: global.json)
            }
            CallingThread.pause(.seconds(2))
        }
    }

    private func show(_ reply: Reply<StatusDocument>) -> Int32 {
        let now = SystemClocks().now().wall
        let offset = Environment.offset(at: now)
        if global.json {
            Output.json(reply.body)
        } else if brief {
            Output.line(StatusScreen.brief(reply.value, now: now, offset: offset))
        } else {
            let lines = StatusScreen.render(
                reply.value, width: Environment.width, now: now, color: Environment.usesColor, offset: offset)
            for line in lines { Output.line(line) }
        }
        return reply.value.overall.level.exitStatus
    }

    private func clear() {
        if Environment.isTerminal(1), !global.json { Output.bytes(Array("\u{1B}[H\u{1B}[2J".utf8)) }
    }
}
