import ArgumentParser
import Glibc
import HubServer
import SyncCore
import SyncLinux

/// `agenthub lost [ENTITY [ID]]`: lists values that lost a conflict, also beside a running server.
struct LostCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "lost", abstract: "List the values that lost because two devices changed the same field, the newest last.",
        discussion: """
            BY is the device and the author that wrote the value, STAMP is the time. A member of an object is shown as details.size, an \
            element of a set as tags[t-1]. A decision that a device made before it sent a change is listed there: agentctl audit.

            Records that the hub cannot read come last, with the reason. Changes of them wait, and no device gets them, until they are \
            published again (agenthub publish) or restored from a backup. To find them, the command reads every record of the entity, or \
            of all entities. With --json "kind" of each row is lost or damaged.
            """)

    @Argument(help: "Only values of this entity.") var entity: EntityName?
    @Argument(help: "Only values of this record.") var id: RecordID?
    @Option(help: "Number of values to list, the newest ones.") var limit: Int = 100
    @OptionGroup var folder: DataFolder
    @Flag(help: "Print JSON, with the complete values.") var json = false

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
            return try Self.printDamaged(damaged)
        }
        if rows.isEmpty {
            try Say.result("no value has lost")
        } else {
            try Say.result(Self.table(rows, now: SystemClocks().now().wall).lines(width: width).joined(separator: "\n"))
        }
        try Self.printDamaged(damaged)
    }

    /// Prints one line for each named record.
    private static func printDamaged(_ damaged: DamagedRecords) throws {
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
