import ArgumentParser
import LocalAPI
import SyncCore

struct MutationsCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "mutations",
        abstract: "List, show, retry, discard or cancel changes.",
        subcommands: [List.self, Show.self, Retry.self, Discard.self, Cancel.self], defaultSubcommand: List.self)

    struct List: AgentCommand {
        static let configuration = CommandConfiguration(abstract: "List the changes in the order of their acceptance.")

        @OptionGroup var global: GlobalOptions
        @Option(help: "Only changes in this state; may be repeated.") var state: [MutationState] = []
        @Option(help: "Only changes of this entity.") var entity: EntityName?
        @Option(help: "Only changes of this record.") var record: RecordID?
        @Option(help: "Only changes of this app; `me` is the calling app.") var app: AppName?
        @Option(help: "Only changes after this seq.") var after: Int64?
        @Option(help: "Number of changes.") var limit: Int = MutationListQuery.limitDefault

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
        static let configuration = CommandConfiguration(abstract: "Show one change with its history.")

        @OptionGroup var global: GlobalOptions
        @Argument(help: "The change's id.") var id: MutationKey

        func run(_ session: Session) async throws -> Int32 {
            MutationList.show(try await session.client.mutation(id), asJSON: session.isJSON)
            return 0
        }
    }

    struct Retry: AgentCommand {
        static let configuration = CommandConfiguration(
            abstract: "Retry a rejected, parked or expired change, with corrections if needed.",
            discussion: """
                The retry is a new change with a new id, which resolves the old one. It is merged against the version that its author \
                had seen, with all later changes of others.

                Without an id the command retries all rejected changes that --code, --entity and each --where select. With \
                --dry-run it only prints them. --where reason=CODE is another way to say --code CODE, and --where reason=schema means \
                validation: what a schema or a form has refused.

                --map field=json sets a field. --map FILE applies the steps of a file in their order: a JSON array of objects with one \
                member each, which is rename, default, values, drop or wrap. A change to which no step applies is not retried.

                agentctl mutations retry ID --data '{"status":"open"}' --cascade
                agentctl mutations retry --code validation --where status:eq:opne --map status='"open"' --dry-run
                agentctl mutations retry --code validation --entity audits --map steps.json
                steps.json: [{"rename":{"site":"site_id"}},{"values":{"severity":{"minor":"low"}}},{"drop":"legacy"}]
                """)

        @OptionGroup var global: GlobalOptions
        @Argument(help: "The change's id.") var id: MutationKey?
        @Option(help: "Corrected fields, a JSON object. They replace the rejected values of these fields.") var data: String?
        @Flag(help: "Also retry the changes that were rejected because of this one, and the rest of its atomic list.") var cascade = false
        @Flag(help: "All rejected changes.") var all = false
        @Option(help: "Changes that were rejected with this code, such as validation.") var code: String?
        @Option(help: "Changes of this entity.") var entity: EntityName?
        @Option(
            name: .customLong("where"),
            help: ArgumentHelp(
                "Changes whose data fulfil this condition, such as status:eq:open, or that were rejected for this reason; may be "
                    + "repeated.",
                valueName: "field:op:value|reason=code"))
        var conditions: [RetryCondition] = []
        @Option(
            help: ArgumentHelp("Field to set in each of them, or a file of steps; may be repeated.", valueName: "field=json|file"))
        var map: [String] = []
        @Flag(help: "Print the changes, and retry none.") var dryRun = false

        func validate() throws {
            let isMany = all || code != nil || entity != nil || !conditions.isEmpty
            guard (id != nil) != isMany else {
                throw ValidationError(
                    isMany
                        ? "Give an id, or options that choose many changes, not both."
                        : "Choose changes: an id, --all, --code, --entity or --where field:op:value.")
            }
            if Set(codes).count > 1 {
                throw ValidationError("A change has one reason. Name one of \(codes.joined(separator: ", ")).")
            }
            if isMany, data != nil { throw ValidationError("--data needs an id. For many changes, --map field=json sets a field in each.") }
            if id != nil, !map.isEmpty || dryRun {
                throw ValidationError("--map and --dry-run need --all, --code, --entity or --where.")
            }
            for text in map where text.contains("=") && BulkRetry.correction(text) == nil {
                throw ValidationError("--map \(text): expected a field, = and JSON, such as status='\"open\"' or count=3.")
            }
            if map.count(where: { !$0.contains("=") }) > 1 { throw ValidationError("--map takes one file. Put all steps into it.") }
        }

        /// The codes that were named, by either option.
        private var codes: [String] { [code].compactMap(\.self) + conditions.compactMap(\.code) }

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
            var bulk = BulkRetry(code: codes.first, entity: entity, conditions: conditions.compactMap(\.filter))
            for text in map {
                if let (field, value) = BulkRetry.correction(text) {
                    bulk.corrections[field] = value
                } else {
                    bulk.steps = try Self.steps(in: text)
                }
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
                    let body: RetryBody
                    do throws(FieldSteps.Failure) {
                        guard let found = try bulk.body(for: item, cascades: cascade) else { continue }
                        body = found
                    } catch {
                        (count, failed) = (count + 1, failed + 1)
                        Output.note("agentctl: \(item.id) \(dryRun ? "would not be" : "was not") retried: \(error)")
                        continue
                    }
                    count += 1
                    guard !dryRun else {
                        Output.line(bulk.line(item, body, "would retry"))
                        continue
                    }
                    do throws(AgentError) {
                        let reply = try await session.client.retry(MutationKey(trusted: item.id), body)
                        Output.line(bulk.line(item, body, "retried as \(reply.value.id):"))
                    } catch {
                        failed += 1
                        Output.note("agentctl: \(item.id) was not retried: \(error.detail)")
                    }
                }
                if page.next == nil { break }
            }
            Output.note(
                count == 0
                    ? "no rejected change matches. To list them with their codes: agentctl rejected"
                    : "\(count - failed) of \(count) \(dryRun ? "would be retried" : "retried")")
            return failed == 0 ? 0 : 1
        }

        private static func steps(in path: String) throws(CommandFailure) -> FieldSteps {
            let bytes: [UInt8]
            do throws(CommandFailure) {
                bytes = try InputFile.contents(of: path, max: FieldSteps.bytesMax)
            } catch {
                // The text may be the name of a field whose value was forgotten.
                throw CommandFailure.failed(
                    error.problem.code,
                    error.problem.detail + "; --map takes a file of steps, or a field with its value: --map \(path)=JSON")
            }
            do throws(FieldSteps.Failure) {
                return try FieldSteps(reading: bytes)
            } catch {
                throw CommandFailure.usage("\(path): \(error)")
            }
        }
    }

    struct Discard: AgentCommand {
        static let configuration = CommandConfiguration(
            abstract: "Discard a rejected or parked change. Its value is lost.")

        @OptionGroup var global: GlobalOptions
        @Argument(help: "The change's id.") var id: MutationKey
        @Option(help: "Reason, kept in the history.") var reason: String = ""

        func run(_ session: Session) async throws -> Int32 {
            let reply = try await session.client.discard(id, DiscardBody(reason: reason))
            if session.isJSON { Output.json(reply.body) } else { Output.line("\(id) discarded") }
            return 0
        }
    }

    struct Cancel: AgentCommand {
        static let configuration = CommandConfiguration(
            abstract: "Cancel a change that has not been sent yet.",
            discussion:
                "Its atomic list is cancelled with it, and later changes of a record that it would create. All of them are printed.")

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
