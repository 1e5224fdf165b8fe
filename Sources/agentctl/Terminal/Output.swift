import Glibc
import LocalAPI
import SyncCore

/// Writes results to standard output and talk to standard error, at once and whole. Results are byte for byte what they are,
/// unless they go to a terminal (``TerminalText``); talk is for people and is always escaped.
enum Output {
    /// One line of a result.
    static func line(_ text: String) {
        result(Array((text + "\n").utf8))
    }

    /// Bytes that are no text: an archive.
    static func bytes(_ bytes: [UInt8]) {
        write(bytes, to: STDOUT_FILENO)
    }

    /// A body of the agent as it came, which is one line of JSON.
    static func json(_ body: [UInt8]) {
        result(body + [UInt8(ascii: "\n")])
    }

    private static let isTerminal = Environment.isTerminal(STDOUT_FILENO)

    private static func result(_ bytes: [UInt8]) {
        write(isTerminal ? TerminalText.escaped(bytes) : bytes, to: STDOUT_FILENO)
    }

    /// One line of talk.
    /// The lines of a list. For a script there is nothing where nothing is, and whoever looks on is told so beside it.
    static func list(_ lines: [String], nothing: String) {
        for text in lines { line(text) }
        if lines.isEmpty { note(nothing) }
    }

    static func note(_ text: String) {
        write(Array((TerminalText.escaped(text) + "\n").utf8), to: STDERR_FILENO)
    }

    /// As it is: for a line that draws over itself. Nothing from outside goes in.
    static func talk(_ text: String) {
        write(Array(text.utf8), to: STDERR_FILENO)
    }

    static func report(_ error: AgentError, asJSON: Bool) {
        if asJSON { line(error.problem.json(prefix: Problem.localPrefix).json) }
        note("agentctl: " + PlainText.safe(error.detail))
        // The sentence above has named the first one.
        for fault in error.problem.errors where !error.detail.contains("\(fault.pointer) \(fault.detail)") {
            note("  " + PlainText.safe(fault.pointer + " " + fault.detail))
        }
        if !error.hint.isEmpty { note("  " + error.hint) }
    }

    static func report(_ failure: CommandFailure, asJSON: Bool) {
        if asJSON { line(failure.problem.json(prefix: Problem.localPrefix).json) }
        note("agentctl: " + PlainText.safe(failure.problem.detail))
    }

    private static func write(_ bytes: [UInt8], to descriptor: Int32) {
        var rest = bytes[...]
        while !rest.isEmpty {
            let count = rest.withUnsafeBytes { Glibc.write(descriptor, $0.baseAddress, $0.count) }
            if count > 0 {
                rest = rest.dropFirst(count)
            } else if errno != EINTR {
                // The reader is gone or the disk full. A result that nobody gets must not look like success.
                _exit(1)
            }
        }
    }
}
