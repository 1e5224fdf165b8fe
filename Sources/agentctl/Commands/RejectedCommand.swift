import ArgumentParser
import LocalAPI
import SyncCore

struct RejectedCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "rejected",
        abstract: "List, show or acknowledge rejected and parked changes, which need a decision.",
        subcommands: [List.self, Show.self, Acknowledge.self], defaultSubcommand: List.self)

    struct List: AgentCommand {
        static let configuration = CommandConfiguration(abstract: "List all of them, oldest first.")

        @OptionGroup var global: GlobalOptions
        @Option(help: "Only changes after this seq.") var after: Int64?
        @Option(help: "Number of changes.") var limit: Int = MutationListQuery.limitDefault

        func validate() throws { try MutationList.check(limit: limit, after: after) }

        func run(_ session: Session) async throws -> Int32 {
            let query = MutationListQuery(states: MutationListQuery.needingAttention, after: after, limit: limit)
            let page = try await session.client.mutations(query)
            MutationList.show(page, nothing: "no change was rejected or parked", asJSON: session.isJSON)
            return 0
        }
    }

    struct Show: AgentCommand {
        static let configuration = CommandConfiguration(
            abstract: "Show one of them: the value, the reason of the rejection and the possible next steps.")

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
        static let configuration = CommandConfiguration(abstract: "Acknowledge a rejection and drop the rejected value.")

        @OptionGroup var global: GlobalOptions
        @Argument(help: "The change's id.") var id: MutationKey
        @Option(help: "Reason, kept in the history.") var reason: String = ""

        func run(_ session: Session) async throws -> Int32 {
            let reply = try await session.client.discard(id, DiscardBody(reason: reason))
            if session.isJSON { Output.json(reply.body) } else { Output.line("\(id) acknowledged") }
            return 0
        }
    }
}
