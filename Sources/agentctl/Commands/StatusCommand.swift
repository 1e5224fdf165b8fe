import ArgumentParser
import LocalAPI
import SyncCore
import SyncLinux

struct StatusCommand: AgentCommand {
    static let configuration = CommandConfiguration(
        commandName: "status",
        abstract: "Show whether the work is safe, whether it is sent, why not, and what it will cost.",
        discussion: "Exit status: 0 OK, 1 degraded, 2 agent not reachable, 3 attention needed.")

    @OptionGroup var global: GlobalOptions
    @Flag(help: "Print one line.") var brief = false
    @Flag(help: "Fill the screen, with graphs, every two seconds until q. Without a terminal, print one status after the other.")
    var watch = false

    func run(_ session: Session) async throws -> Int32 {
        guard watch else { return show(try await session.client.status()) }
        if !global.json, !brief, let screen = try FullScreen() {
            await fill(screen, session)
            screen.close()
            return 0
        }
        while true {
            // A watch continues over a restart of the agent.
            do throws(AgentError) {
                _ = show(try await session.client.status())
                if !global.json, !brief { Output.line("") }
            } catch {
                Output.report(error, asJSON: global.json)
            }
            CallingThread.pause(.seconds(2))
        }
    }

    /// Redraws the screen until the user quits.
    private func fill(_ screen: FullScreen, _ session: Session) async {
        var history = WatchHistory()
        var document: StatusDocument?
        var trouble: String?
        var isSeeded = false
        while true {
            do throws(AgentError) {
                let now = SystemClocks().now().wall
                if !isSeeded {
                    // Without an answer the earlier part is missing; the graph grows from here then.
                    if let from = CalendarDay(
                        String(RFC3339.text(now.advanced(by: .seconds(-86_400 * (WatchHistory.daysShown - 1)))).prefix(10)))
                    {
                        history.seed(try await session.client.ledger(LedgerQuery(from: from)).value, at: now)
                    }
                    isSeeded = true
                }
                let found = try await session.client.status().value
                history.see(found, at: now)
                (document, trouble) = (found, nil)
            } catch {
                trouble = error.detail
            }
            var action = FullScreen.Action.redraw
            while action == .redraw {
                let now = SystemClocks().now().wall
                let size = screen.size
                screen.draw(
                    WatchScreen(
                        width: size.width, height: size.height, color: Environment.usesColor, offset: Environment.offset(at: now),
                        hasBlocks: Environment.isUTF8
                    ).render(document, history, now: now, trouble: trouble))
                action = screen.wait(2_000)
            }
            if action == .quit { return }
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
}
