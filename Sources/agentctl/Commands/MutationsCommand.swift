import ArgumentParser
import LocalAPI
import SyncCore

struct MutationsCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "mutations",
        abstract: "List, show, repeat, discard or take back changes.",
        subcommands: [List.self, Show.self, Retry.self, Discard.self, Cancel.self], defaultSubcommand: List.self)

    struct List: AgentCommand {
        static let configuration = CommandConfiguration(abstract: "The changes in the order they were accepted.")

        @OptionGroup var global: GlobalOptions
        @Option(help: "Only in this state; may be repeated.") var state: [MutationState] = []
        @Option(help: "Only of this entity.") var entity: EntityName?
        @Option(help: "Only of this record.") var record: RecordID?
        @Option(help: "Only of this app; `me` is the one that asks.") var app: AppName?
        @Option(help: "Only after this seq.") var after: Int64?
        @Option(help: "How many.") var limit: Int = MutationListQuery.limitDefault

        func validate() throws { try MutationList.check(limit: limit, after: after) }

        func run(_ session: Session) async throws -> Int32 {
            let query = MutationListQuery(
                states: state.isEmpty ? nil : state, entity: entity, recordID: record,
                app: app.map { $0.text == "me" ? .me : .named($0) }, after: after, limit: limit)
            MutationList.show(try await session.client.mutations(query), asJSON: session.isJSON)
            return 0
        }
    }

    struct Show: AgentCommand {
        static let configuration = CommandConfiguration(abstract: "One change with its history.")

        @OptionGroup var global: GlobalOptions
        @Argument(help: "The change's id.") var id: MutationKey

        func run(_ session: Session) async throws -> Int32 {
            MutationList.show(try await session.client.mutation(id), asJSON: session.isJSON)
            return 0
        }
    }

    struct Retry: AgentCommand {
        static let configuration = CommandConfiguration(
            abstract: "Ask again for a refused, parked or expired change, corrected if needed.",
            discussion: """
                It becomes a new change with a new id; the old one is resolved by it. It rests on what its author had seen of the \
                record: what others wrote since then is compared with it as if it had arrived late.

                agentctl mutations retry ID --data '{"status":"open"}' --cascade
                """)

        @OptionGroup var global: GlobalOptions
        @Argument(help: "The change's id.") var id: MutationKey
        @Option(help: "Fields that replace all that the refused change did with them, as a JSON object.") var data: String?
        @Flag(help: "Also repeat what fell only because this one did, and the rest of its atomic list.") var cascade = false

        func run(_ session: Session) async throws -> Int32 {
            var body = RetryBody(cascades: cascade)
            if let data {
                // Read here only to tell a slip in the argument from a refusal by the agent.
                guard let object = (try? JSONReader.read(data))?.object else {
                    throw CommandFailure.usage("--data must be a JSON object")
                }
                body.data = object
            }
            let reply = try await session.client.retry(id, body)
            if session.isJSON { Output.json(reply.body) } else { Output.line("\(reply.value.id) \(reply.value.state)") }
            return 0
        }
    }

    struct Discard: AgentCommand {
        static let configuration = CommandConfiguration(
            abstract: "Let a refused or parked change go; its value is lost.")

        @OptionGroup var global: GlobalOptions
        @Argument(help: "The change's id.") var id: MutationKey
        @Option(help: "Why; kept in its history.") var reason: String = ""

        func run(_ session: Session) async throws -> Int32 {
            let reply = try await session.client.discard(id, DiscardBody(reason: reason))
            if session.isJSON { Output.json(reply.body) } else { Output.line("\(id) discarded") }
            return 0
        }
    }

    struct Cancel: AgentCommand {
        static let configuration = CommandConfiguration(
            abstract: "Take back a change that was not sent yet.",
            discussion: "Its atomic list goes with it, and later changes of a record that it was to create. All of them are printed.")

        @OptionGroup var global: GlobalOptions
        @Argument(help: "The change's id.") var id: MutationKey

        func run(_ session: Session) async throws -> Int32 {
            let reply = try await session.client.cancel(id)
            if session.isJSON {
                Output.json(reply.body)
            } else {
                Output.line("\(id) cancelled")
                for other in reply.value where other != id { Output.line("\(other) cancelled with it") }
            }
            return 0
        }
    }
}
