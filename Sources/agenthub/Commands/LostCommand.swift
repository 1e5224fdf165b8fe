import ArgumentParser
import Glibc
import HubServer
import SyncCore
import SyncLinux

/// `agenthub lost [ENTITY [ID]]`: lists values that lost a conflict, also beside a running server.
struct LostCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "lost", abstract: "List the values that lost when two devices changed the same, the newest last.",
        discussion: """
            BY is who wrote the value, device and author; STAMP is when. A member of an object is details.size, an element of a set \
            tags[t-1]. What was decided on a device before it was sent is there: agentctl audit.

            Records that the hub has and cannot read itself come last, with what is wrong with them: changes of them wait, and no device \
            is shown them, until they are published anew (agenthub publish) or restored from a backup. To find them, every record of \
            the entity, or of all, is read. With --json each row says what it is: "kind" is lost or damaged.
            """)

    @Argument(help: "Of one entity.") var entity: EntityName?
    @Argument(help: "Of one record.") var id: RecordID?
    @Option(help: "How many of the newest.") var limit: Int = 100
    @OptionGroup var folder: DataFolder
    @Flag(help: "Print JSON, with the values whole.") var json = false

    func validate() throws {
        guard (1...Self.limitMax).contains(limit) else { throw ValidationError("--limit: expected 1 to \(Self.limitMax).") }
    }

    /// The number that a hub keeps.
    private static let limitMax = 100_000

    func run() throws {
        let inspector = try folder.inspector()
        let rows: [LostRow]
        let damaged: DamagedRecords
        do throws(HubError) {
            rows = try inspector.lostValues(entity, id, limit: limit)
            damaged = try inspector.damagedRecords(entity, id)
        } catch {
            throw Failure(error)
        }
        if json { return try Say.result(JSON.array(rows.map(\.json) + damaged.first.map(\.json)).json) }
        guard let width = Self.terminalWidth else {
            // For a script or a log: complete lines, and none when there is nothing.
            try rows.forEach { row in try Say.result(PlainText.safe(Self.cells(row, at: row.at.description).joined(separator: "  "))) }
            if rows.isEmpty, damaged.count == 0 { Say.error("no value has lost") }
            return try Self.tell(damaged)
        }
        if rows.isEmpty {
            try Say.result("no value has lost")
        } else {
            try Say.result(Self.table(rows, now: SystemClocks().now().wall).lines(width: width).joined(separator: "\n"))
        }
        try Self.tell(damaged)
    }

    /// Prints one line for each named record.
    private static func tell(_ damaged: DamagedRecords) throws {
        for row in damaged.first {
            try Say.result(PlainText.safe("damaged: \(row.record), version \(row.version), cannot be read: \(row.detail)"))
        }
        let rest = damaged.count - Int64(damaged.first.count)
        if rest > 0 { try Say.result("damaged: \(rest) more") }
    }

    private static func table(_ rows: [LostRow], now: Timestamp) -> TextTable {
        var table = TextTable([
            .init("WHEN"), .init("RECORD", widthMin: 12), .init("FIELD", widthMin: 10), .init("VALUE", widthMin: 10),
            .init("BY", widthMin: 8), .init("STAMP", dispensable: 1),
        ])
        for row in rows { table.add(cells(row, at: PlainText.clock(row.at, now: now, offset: .zero))) }
        return table
    }

    private static func cells(_ row: LostRow, at time: String) -> [String] {
        let stamp = row.value.stamp
        let writer = [stamp.writer.text, stamp.author].compactMap { $0 }.joined(separator: ", ")
        return [time, row.record.description, row.value.field, row.value.value?.json ?? "(removed)", writer, stamp.hlc.description]
    }

    /// Columns of the terminal; `nil`: standard output is no terminal.
    static var terminalWidth: Int? {
        guard isatty(STDOUT_FILENO) == 1 else { return nil }
        var size = winsize()
        guard ioctl(STDOUT_FILENO, UInt(TIOCGWINSZ), &size) == 0, size.ws_col > 0 else { return 80 }
        return Int(size.ws_col)
    }
}
