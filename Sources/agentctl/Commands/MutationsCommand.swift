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

                Without an id it asks for all refused changes of that code and entity for whose data each --where holds. With --dry-run \
                it prints them and asks for none.

                agentctl mutations retry ID --data '{"status":"open"}' --cascade
                agentctl mutations retry --code validation --where status:eq:opne --map status='"open"' --dry-run
                """)

        @OptionGroup var global: GlobalOptions
        @Argument(help: "The change's id.") var id: MutationKey?
        @Option(help: "Fields that replace all that the refused change did with them, as a JSON object.") var data: String?
        @Flag(help: "Also repeat what fell only because this one did, and the rest of its atomic list.") var cascade = false
        @Flag(help: "All refused changes.") var all = false
        @Option(help: "Those that were refused with this code, such as validation.") var code: String?
        @Option(help: "Those of this entity.") var entity: EntityName?
        @Option(
            name: .customLong("where"), help: ArgumentHelp("Those for whose data this holds; may be repeated.", valueName: "field:op:value")
        )
        var conditions: [Condition] = []
        @Option(help: ArgumentHelp("A field that is set in each; may be repeated.", valueName: "field=json")) var map: [String] = []
        @Flag(help: "Print which changes would be asked for, and ask for none.") var dryRun = false

        func validate() throws {
            let isMany = all || code != nil || entity != nil || !conditions.isEmpty
            guard (id != nil) != isMany else {
                throw ValidationError(
                    isMany
                        ? "An id stands alone; the other options choose many."
                        : "Say which: an id, --all, --code, --entity or --where field:op:value.")
            }
            if isMany, data != nil { throw ValidationError("--data goes with an id; for many, --map field=json sets a field in each.") }
            if id != nil, !map.isEmpty || dryRun {
                throw ValidationError("--map and --dry-run go with --all, --code, --entity or --where.")
            }
            for text in map where BulkRetry.correction(text) == nil {
                throw ValidationError("--map \(text): expected a field, = and JSON, such as status='\"open\"' or count=3.")
            }
        }

        func run(_ session: Session) async throws -> Int32 {
            guard let id else { return try await retryMany(session) }
            var body = RetryBody(cascades: cascade)
            if let data {
                // Read here only to distinguish a mistake in the argument from a refusal by the agent.
                guard let object = (try? JSONReader.read(data))?.object else {
                    throw CommandFailure.usage("--data must be a JSON object")
                }
                body.data = object
            }
            let reply = try await session.client.retry(id, body)
            if session.isJSON { Output.json(reply.body) } else { Output.line("\(reply.value.id) \(reply.value.state)") }
            return 0
        }

        /// Retries mutations in the order in which they were made. One that is refused again is named, and the others continue.
        private func retryMany(_ session: Session) async throws -> Int32 {
            var bulk = BulkRetry(code: code, entity: entity, conditions: conditions.map(\.filter))
            for text in map {
                guard let (field, value) = BulkRetry.correction(text) else { continue }
                bulk.corrections[field] = value
            }
            var (after, count, failed) = (Int64(0), 0, 0)
            while true {
                let page = try await session.client.mutations(
                    MutationListQuery(states: [.rejected], after: after, limit: MutationListQuery.limitMax)
                ).value
                for short in page.items {
                    after = max(after, short.seq)
                    // A mutation that was rejected with another one is no longer rejected after that one was retried.
                    let item = try await session.client.mutation(MutationKey(trusted: short.id)).value
                    guard item.state == MutationState.rejected.name, bulk.chooses(item) else { continue }
                    count += 1
                    guard !dryRun else {
                        Output.line(bulk.line(item, "would repeat"))
                        continue
                    }
                    do throws(AgentError) {
                        let reply = try await session.client.retry(MutationKey(trusted: item.id), bulk.body(cascades: cascade))
                        Output.line(bulk.line(item, "repeated as \(reply.value.id):"))
                    } catch {
                        failed += 1
                        Output.note("agentctl: \(item.id) was not repeated: \(error.detail)")
                    }
                }
                if page.next == nil { break }
            }
            Output.note(
                count == 0
                    ? "no refused change is like that" : dryRun ? "\(count) would be repeated" : "\(count - failed) of \(count) repeated")
            return failed == 0 ? 0 : 1
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
