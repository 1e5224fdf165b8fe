import ArgumentParser
import LocalAPI
import SyncCore

/// Shows lists of records.
enum RecordList {
    static func check(limit: Int) throws {
        guard (1...RecordListQuery.limitMax).contains(limit) else {
            throw ValidationError("--limit must be from 1 to \(RecordListQuery.limitMax).")
        }
    }

    /// Shows one line a record: id, sync status, document.
    ///
    /// - Parameter command: The words that show this page, for a command that shows the next one.
    /// - Returns: The exit status: 1 when the entity is unknown, because an empty list would look like an answer.
    static func show(_ reply: Reply<RecordListPage>, of command: [String], asJSON: Bool) -> Int32 {
        if asJSON { Output.json(reply.body) } else { list(reply, of: command) }
        guard let unknown = reply.value.unknownEntity else { return 0 }
        Output.note(PlainText.safe(unknown))
        return 1
    }

    private static func list(_ reply: Reply<RecordListPage>, of command: [String]) {
        for record in reply.value.items {
            Output.line(PlainText.safe("\(record.name.id)  \(record.status)  \(record.data ?? "null")"))
        }
        if reply.value.notKept > 0 {
            let count = reply.value.notKept == 1 ? "1 record" : "\(reply.value.notKept) records"
            Output.note(
                "not searched: \(count) whose documents are not kept on this device; agentctl get --fetch brings one back by its id")
        }
        if let next = reply.value.next {
            Output.note("there is more: \(ShellWords.line(command + ["--cursor", next]))")
        }
    }

    /// A document over several lines. It is JSON from the agent; if it cannot be read, it is shown unchanged.
    static func pretty(_ document: String?) -> String {
        guard let document else { return "null" }
        // An unreadable document is shown unchanged, made safe for the terminal.
        return (try? JSONReader.read(document, limits: .answer))?.pretty ?? PlainText.safe(document)
    }
}
