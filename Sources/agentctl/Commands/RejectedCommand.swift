import ArgumentParser
import LocalAPI
import SyncCore

struct RejectedCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "rejected",
        abstract: "What the hub refused or the agent parked, and waits for a person.",
        subcommands: [List.self, Show.self, Acknowledge.self], defaultSubcommand: List.self)

    struct List: AgentCommand {
        static let configuration = CommandConfiguration(abstract: "All of them, oldest first.")

        @OptionGroup var global: GlobalOptions
        @Option(help: "Only after this seq.") var after: Int64?
        @Option(help: "How many.") var limit: Int = MutationListQuery.limitDefault

        func validate() throws { try MutationList.check(limit: limit, after: after) }

        func run(_ session: Session) async throws -> Int32 {
            let query = MutationListQuery(states: MutationListQuery.needingAttention, after: after, limit: limit)
            MutationList.show(try await session.client.mutations(query), nothing: "nothing was refused or parked", asJSON: session.isJSON)
            return 0
        }
    }

    struct Show: AgentCommand {
        static let configuration = CommandConfiguration(
            abstract: "One of them: the value, why it was refused, what can be done.")

        @OptionGroup var global: GlobalOptions
        @Argument(help: "The change's id.") var id: MutationKey

        func run(_ session: Session) async throws -> Int32 {
            let reply = try await session.client.mutation(id)
            MutationList.show(reply, asJSON: session.isJSON)
            for line in MutationScreen.choices(reply.value) { Output.note(line) }
            return 0
        }
    }

    struct Acknowledge: AgentCommand {
        static let configuration = CommandConfiguration(abstract: "Seen; the refused value is let go.")

        @OptionGroup var global: GlobalOptions
        @Argument(help: "The change's id.") var id: MutationKey
        @Option(help: "Why; kept in its history.") var reason: String = ""

        func run(_ session: Session) async throws -> Int32 {
            let reply = try await session.client.discard(id, DiscardBody(reason: reason))
            if session.isJSON { Output.json(reply.body) } else { Output.line("\(id) acknowledged") }
            return 0
        }
    }
}
