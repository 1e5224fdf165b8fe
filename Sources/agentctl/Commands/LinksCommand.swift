import ArgumentParser
import LocalAPI
import SyncCore
import SyncLinux

struct LinksCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "links",
        abstract: "Show the network interfaces: which one carries the sync, its cost and the rest of its budget.",
        subcommands: [List.self, Hint.self], defaultSubcommand: List.self)

    struct List: AgentCommand {
        static let configuration = CommandConfiguration(abstract: "List all links that could carry the sync.")

        @OptionGroup var global: GlobalOptions

        func run(_ session: Session) async throws -> Int32 {
            let reply = try await session.client.links()
            session.show(reply) { LinksScreen.render($0, width: $1.width, now: $1.now, offset: $1.offset) }
            return 0
        }
    }

    struct Hint: AgentCommand {
        static let configuration = CommandConfiguration(
            abstract: "Tell the agent what a link costs, for scripts and people who know it.",
            discussion: """
                A hint replaces the earlier one. The configuration overrides it. The interface need not exist yet. Without --ttl the \
                hint lasts a week, or until the machine restarts.

                agentctl links hint wwan0 --metered --roaming --ttl 8h
                """)

        @OptionGroup var global: GlobalOptions
        @Argument(help: "The interface, such as wwan0.") var interface: LinkName
        @Flag(help: "Its bytes cost money, or do not.") var metered: Metered?
        @Flag(help: "Its modem is abroad, or at home.") var roaming: Roaming?
        @Option(help: "Life of the hint, such as 1h; at most 7d.") var ttl: DurationArgument?
        @Flag(help: "Remove the hint.") var clear = false

        func validate() throws {
            if clear, metered != nil || roaming != nil || ttl != nil {
                throw ValidationError("--clear removes a hint. It cannot be combined with other options.")
            }
            if !clear, metered == nil, roaming == nil {
                throw ValidationError("Give one of --metered, --unmetered, --roaming, --home or --clear.")
            }
            if let life = ttl?.duration, life < .seconds(1) || life > LinkHintBody.lifeMax {
                throw ValidationError("--ttl must be from 1s to 7d.")
            }
        }

        func run(_ session: Session) async throws -> Int32 {
            let reply =
                clear
                ? try await session.client.clearHint(interface)
                : try await session.client.hint(
                    interface,
                    LinkHintBody(
                        isMetered: metered.map { $0 == .metered }, isRoaming: roaming.map { $0 == .roaming },
                        life: ttl?.duration))
            if !clear { await session.warnIfAbsent(interface) }
            if session.isJSON {
                Output.json(reply.body)
            } else {
                let view = View()
                Output.line(LinksScreen.hint(reply.value, now: view.now, offset: view.offset))
            }
            return 0
        }
    }
}

enum Metered: String, EnumerableFlag, Sendable { case metered, unmetered }
enum Roaming: String, EnumerableFlag, Sendable { case roaming, home }

extension Session {
    /// Warns about a missing link: it may be named before it exists, but a misspelt one never comes.
    func warnIfAbsent(_ name: LinkName) async {
        // Without the list there is no basis for a warning.
        guard let links = try? await client.links().value.items.map(\.name), !links.contains(name.text) else { return }
        let present = links.sorted().joined(separator: ", ")
        Output.note(PlainText.safe("agentctl: there is no link \(name.text) now. The present links are \(present)"))
    }
}
