import Glibc
package import Logging
import SyncCore
import Synchronization

/// Writes one line per message on standard error, as text or as JSON. It never blocks the agent: a line that standard error does not accept
/// at once is dropped, and the next line that passes reports the number of dropped ones. Both daemons use this format.
package struct StandardErrorLog: LogHandler {
    package var metadata: Logger.Metadata = [:]
    package var logLevel: Logger.Level = .trace
    private let isJSON: Bool

    package init(isJSON: Bool = false) {
        self.isJSON = isJSON
    }

    package subscript(metadataKey key: String) -> Logger.Metadata.Value? {
        get { metadata[key] }
        set { metadata[key] = newValue }
    }

    package func log(event: LogEvent) {
        if !isJSON, let journal = LogSink.journal, send(event, to: journal) { return }
        let all = metadata.merging(event.metadata ?? [:]) { _, new in new }.sorted { $0.key < $1.key }
        let message = "\(event.message)"
        LogSink.write(isJSON ? json(event.level, message, all) : text(event.level, message, all))
    }

    /// Sends a message to the journal. The text for people stays one line, and its fields can be searched.
    ///
    /// - Returns: `true` when the journal has accepted it.
    private func send(_ event: LogEvent, to journal: Journal) -> Bool {
        let all = metadata.merging(event.metadata ?? [:]) { _, new in new }.sorted { $0.key < $1.key }
        let fields = all.map { (name: $0.key, value: Printable.text("\($0.value)")) }
        let line = Printable.text("\(event.message)") + fields.map { " \($0.name)=\(Self.quoted($0.value))" }.joined()
        switch journal.send(priority: event.level.priority, message: line, fields: fields) {
        case .sent: return true
        // Standard error ends in the same journal, and counts dropped lines.
        case .isFull, .isGone: return false
        }
    }

    /// The line as text. journald adds the time, and reads the number in angle brackets as the priority (sd-daemon(3)).
    private func text(
        _ level: Logger.Level, _ message: String, _ metadata: [(key: String, value: Logger.Metadata.Value)]
    ) -> String {
        let fields = metadata.map { " \($0.key)=\(Self.quoted(Printable.text("\($0.value)")))" }.joined()
        return (LogSink.isJournal ? "<\(level.priority)>" : "\(Self.now()) \(level) ") + Printable.text(message) + fields + "\n"
    }

    private func json(
        _ level: Logger.Level, _ message: String, _ metadata: [(key: String, value: Logger.Metadata.Value)]
    ) -> String {
        var writer = JSONWriter()
        writer.object { writer in
            writer.member("time", Self.now())
            writer.member("level", level.rawValue)
            writer.member("message", message)
            for (name, value) in metadata {
                writer.name(JSONString(name))
                writer.string(Printable.text("\(value)"))
            }
        }
        return String(decoding: writer.bytes, as: UTF8.self) + "\n"
    }

    private static func now() -> String { SystemClocks().now().wall.description }

    private static func quoted(_ text: String) -> String {
        let isPlain = !text.isEmpty && text.utf8.allSatisfy { $0 > 0x20 && $0 != UInt8(ascii: "\"") && $0 != UInt8(ascii: "=") }
        return isPlain ? text : JSON.string(text).json
    }
}

/// Standard error, written without waiting for its reader.
private enum LogSink {
    static let isJournal = getenv("JOURNAL_STREAM") != nil
    /// Name of the program as it was called: `agentd`, `agenthub`.
    private static let program = CommandLine.arguments.first?.split(separator: "/").last.map(String.init) ?? "agentd"
    static let journal = Journal.ofStandardError(
        identifier: program, stream: getenv("JOURNAL_STREAM").map { String(cString: $0) })

    static func write(_ line: String) {
        var waiting = pollfd(fd: STDERR_FILENO, events: Int16(POLLOUT), revents: 0)
        guard poll(&waiting, 1, 0) == 1, waiting.revents & Int16(POLLOUT) != 0 else { return _ = dropped.add(1, ordering: .relaxed) }
        var text = line
        let missed = dropped.exchange(0, ordering: .relaxed)
        if missed > 0 { text = "\(program): \(missed) log lines were dropped\n" + line }
        // A pipe that polls writable accepts at least PIPE_BUF bytes, and a line is shorter. A line that fails is lost, because the log
        // must not block.
        text.withUTF8 { bytes in _ = Glibc.write(STDERR_FILENO, bytes.baseAddress, min(bytes.count, Int(PIPE_BUF))) }
    }

    private static let dropped = Atomic(0)
}

extension Logger.Level {
    /// Priority of syslog(3).
    fileprivate var priority: Int {
        switch self {
        case .trace, .debug: 7
        case .info: 6
        case .notice: 5
        case .warning: 4
        case .error: 3
        case .critical: 2
        }
    }
}
