import ArgumentParser
import LocalAPI
import SyncCore

struct ConflictsCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "conflicts",
        abstract: "List, show or resolve conflicts that only a person can decide.",
        subcommands: [List.self, Show.self, Resolve.self], defaultSubcommand: List.self)

    struct List: AgentCommand {
        static let configuration = CommandConfiguration(abstract: "List the conflicts that wait for a decision, oldest first.")

        @OptionGroup var global: GlobalOptions
        @Option(help: "Only conflicts in this state; may be repeated. Default: open, which includes stale.") var state: [ConflictState] = []
        @Option(help: "Only conflicts of this entity.") var entity: EntityName?
        @Option(help: "Only conflicts that are newer than this one.") var after: ConflictID?
        @Option(help: "Number of conflicts.") var limit: Int = MutationListQuery.limitDefault

        func validate() throws { try MutationList.check(limit: limit, after: after?.number) }

        func run(_ session: Session) async throws -> Int32 {
            let query = ConflictListQuery(states: state.isEmpty ? nil : state, entity: entity, after: after, limit: limit)
            let reply = try await session.client.conflicts(query)
            if session.isJSON {
                Output.json(reply.body)
            } else {
                let view = View()
                let items = reply.value.items
                Output.list(
                    view.isTerminal ? ConflictScreen.list(items, width: view.width) : items.map(ConflictScreen.line),
                    nothing: "no conflicts")
                if let next = reply.value.next { Output.note("there is more: agentctl conflicts list --after c-\(next)") }
            }
            return 0
        }
    }

    struct Show: AgentCommand {
        static let configuration = CommandConfiguration(
            abstract: "Show one conflict: base, local and remote value side by side, with author and time.")

        @OptionGroup var global: GlobalOptions
        @Argument(help: "The conflict's id, such as c-12.") var id: ConflictID
        @Option(help: "Only this field, with its complete values; may be repeated.") var field: [String] = []

        func run(_ session: Session) async throws -> Int32 {
            let reply = try await session.client.conflict(id)
            guard !field.isEmpty, !session.isJSON else {
                session.show(reply) { ConflictScreen.render($0, width: $1.width, now: $1.now, offset: $1.offset) }
                return 0
            }
            let view = View()
            for name in field {
                guard let found = reply.value.fields.first(where: { $0.name == name }) else {
                    let names = reply.value.fields.map(\.name).joined(separator: ", ")
                    throw CommandFailure.failed("not-found", "\(id) is not about \(name), but about \(names)")
                }
                for line in ConflictScreen.field(found, width: view.width, now: view.now, offset: view.offset) { Output.line(line) }
            }
            return 0
        }
    }

    struct Resolve: AgentCommand {
        static let configuration = CommandConfiguration(
            abstract: "Resolve a conflict: one side for all of it, or a choice for each field.",
            discussion: """
                agentctl conflicts resolve c-12 --local
                agentctl conflicts resolve c-12 --field finding=remote --value 'notes="both of it"'

                A change of an atomic list is never sent without the others. The list waits until all its conflicts are resolved, and \
                the rest of it is then sent in one commit. To drop the whole list:

                agentctl conflicts resolve c-12 --remote --whole
                """)

        @OptionGroup var global: GlobalOptions
        @Argument(help: "The conflict's id, such as c-12.") var id: ConflictID
        @Flag(help: "Keep the values of this device, for all disputed fields.") var local = false
        @Flag(help: "Keep the values of the hub, for all disputed fields.") var remote = false
        @Flag(help: "With --remote: drop all changes of its atomic list.") var whole = false
        @Option(help: "Side for a field, FIELD=local or FIELD=remote; may be repeated.") var field: [String] = []
        @Option(help: "Another value for a field, in place of both sides, FIELD=JSON; may be repeated.") var value: [String] = []
        @Option(help: "Reason, kept in the history.") var comment: String?
        @Option(help: "Person who decides, kept with the change.") var author: String?
        @Option(help: "Version of the hub on which the decision is based. If the hub has a newer one, nothing is resolved.")
        var expect: Int64?

        func validate() throws {
            let ways = (local ? 1 : 0) + (remote ? 1 : 0) + (field.isEmpty && value.isEmpty ? 0 : 1)
            guard ways == 1 else {
                throw ValidationError("give --local, or --remote, or a choice for each field with --field and --value")
            }
            guard !whole || remote else { throw ValidationError("--whole drops the whole list. It needs --remote") }
        }

        func run(_ session: Session) async throws -> Int32 {
            let decision = ConflictDecision(
                try scope(), comment: comment, author: author, expectedRemoteVersion: expect, letsGoOfList: whole)
            let reply = try await session.client.resolve(id, decision)
            if session.isJSON {
                Output.json(reply.body)
            } else {
                Output.line("\(id) \(reply.value.state)" + (reply.value.mutation.map { "  by mutation \($0)" } ?? ""))
                if let list = reply.value.list { Output.line(list.sentence) }
            }
            return 0
        }

        private func scope() throws -> ConflictDecision.Scope {
            if local { return .all(.local) }
            if remote { return .all(.remote) }
            var choices: [String: ConflictDecision.Choice] = [:]
            for text in field {
                let (name, word) = try Resolve.split(text, "--field")
                guard word == "local" || word == "remote" else {
                    throw CommandFailure.usage("--field \(name) must be local or remote, not \(word)")
                }
                choices[name] = word == "local" ? .local : .remote
            }
            for text in value {
                let (name, json) = try Resolve.split(text, "--value")
                // Read here only to distinguish a mistake in the argument from a refusal by the agent.
                guard let value = try? JSONReader.read(json) else {
                    throw CommandFailure.usage("--value \(name) must be JSON, such as '\(name)=\"text\"'")
                }
                guard choices.updateValue(.value(value), forKey: name) == nil else {
                    throw CommandFailure.usage("\(name) is given twice")
                }
            }
            return .fields(choices)
        }

        private static func split(_ text: String, _ option: String) throws -> (String, String) {
            guard let equals = text.firstIndex(of: "="), equals != text.startIndex else {
                throw CommandFailure.usage("\(option) is FIELD=…, not \(text)")
            }
            return (String(text[..<equals]), String(text[text.index(after: equals)...]))
        }
    }
}
