import ArgumentParser
import LocalAPI
import SyncCore

struct QueryCommand: AgentCommand {
    static let configuration = CommandConfiguration(
        commandName: "query",
        abstract: "Find records of an entity in the local mirror.",
        discussion: """
            A condition is field:op:value with op one of eq ne lt le gt ge in prefix exists. A record must fulfil all conditions. A \
            value is read as JSON if it is a number, true, false, null or a text in quotes. Anything else is text.

            agentctl query work_orders --where status:eq:open --where due:lt:2026-12-01 --sort due --limit 20
            """)

    @OptionGroup var global: GlobalOptions
    @Argument(help: .entity) var entity: EntityName
    @Option(
        name: .customLong("where"),
        help: ArgumentHelp(
            "Condition, such as status:eq:open; may be repeated. Operators: eq ne lt le gt ge in prefix exists.",
            valueName: "field:op:value"))
    var conditions: [Condition] = []
    @Option(parsing: .unconditionalSingleValue, help: "Field to sort by, -field for descending order; may be repeated.")
    var sort: [SortArgument] = []
    @Option(help: "A field to show; may be repeated. Default: all.") var fields: [FieldArgument] = []
    @Option(help: "Number of records.") var limit: Int = RecordListQuery.limitDefault
    @Option(help: "Continue after the page that printed this cursor.") var cursor: String?
    @Flag(help: "Show deleted records too.") var includeDeleted = false
    @Flag(help: "Show which index the query uses and how many records it reads, instead of the records.") var explain = false

    func validate() throws {
        try RecordList.check(limit: limit)
        if conditions.count > RecordListQuery.sizeMax {
            throw ValidationError("At most \(RecordListQuery.sizeMax) conditions.")
        }
        if sort.count > RecordListQuery.sortMax {
            throw ValidationError("At most \(RecordListQuery.sortMax) fields to sort by.")
        }
    }

    func run(_ session: Session) async throws -> Int32 {
        let tests = conditions.map(\.filter)
        let query = RecordListQuery(
            entity, filter: tests.count == 1 ? tests[0] : .all(tests), sort: sort.map(\.sort),
            fields: fields.map(\.path),
            limit: limit, cursor: cursor, includesDeleted: includeDeleted)
        if explain {
            let reply = try await session.client.explain(query)
            if session.isJSON { Output.json(reply.body) } else { for line in reply.value.lines { Output.line(PlainText.safe(line)) } }
            return 0
        }
        return RecordList.show(try await session.client.query(query), of: words, asJSON: session.isJSON)
    }

    /// This command without its `--cursor`, which is a page of exactly this query.
    private var words: [String] {
        var words = ["agentctl", "query", entity.text]
        for condition in conditions { words += ["--where", condition.text] }
        for key in sort { words += ["--sort", key.text] }
        for field in fields { words += ["--fields", field.text] }
        if limit != RecordListQuery.limitDefault { words += ["--limit", "\(limit)"] }
        if includeDeleted { words.append("--include-deleted") }
        return words
    }
}
