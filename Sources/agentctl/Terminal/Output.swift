import Glibc
import LocalAPI
import SyncCore

/// Writes results to standard output and messages to standard error, at once and completely. Results are unchanged to the byte, unless they
/// go to a terminal (``TerminalText``). Messages are for people and are always escaped.
enum Output {
    /// Writes one line of a result.
    static func line(_ text: String) {
        result(Array((text + "\n").utf8))
    }

    /// Writes bytes that are no text, such as an archive.
    static func bytes(_ bytes: [UInt8]) {
        write(bytes, to: STDOUT_FILENO)
    }

    /// Writes a body of the agent unchanged, which is one line of JSON.
    static func json(_ body: [UInt8]) {
        result(body + [UInt8(ascii: "\n")])
    }

    private static let isTerminal = Environment.isTerminal(STDOUT_FILENO)

    private static func result(_ bytes: [UInt8]) {
        write(isTerminal ? TerminalText.escaped(bytes) : bytes, to: STDOUT_FILENO)
    }

    /// Writes the lines of a list. An empty list writes nothing for scripts, and a message for people.
    static func list(_ lines: [String], nothing: String) {
        for text in lines { line(text) }
        if lines.isEmpty { note(nothing) }
    }

    static func note(_ text: String) {
        write(Array((TerminalText.escaped(text) + "\n").utf8), to: STDERR_FILENO)
    }

    /// Writes a text without escapes, for a line that overwrites itself. It must not contain text from outside.
    static func talk(_ text: String) {
        write(Array(text.utf8), to: STDERR_FILENO)
    }

    static func report(_ error: AgentError, asJSON: Bool) {
        if asJSON { line(error.problem.json(prefix: Problem.localPrefix).json) }
        note("agentctl: " + PlainText.safe(error.detail))
        // The sentence above has named the first fault.
        for fault in error.problem.errors where !error.detail.contains("\(fault.pointer) \(fault.detail)") {
            // The pointer of a whole document is empty.
            note("  " + PlainText.safe(fault.pointer.isEmpty ? fault.detail : fault.pointer + " " + fault.detail))
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
                // The reader is gone or the disk is full. A lost result must not look like success.
                _exit(1)
            }
        }
    }
}
