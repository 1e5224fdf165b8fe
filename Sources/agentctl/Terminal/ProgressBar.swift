import LocalAPI
import SyncCore

/// One line on standard error that shows how far an import is, redrawn at most ten times a second.
struct ProgressBar: Sendable {
    private let total: Int64?
    private let started: Instant
    private var shown: Instant?

    /// - Parameter total: Bytes of the file, if known.
    init(total: Int64?, now: Instant) {
        self.total = total
        started = now
    }

    mutating func show(bytes: Int64, lines: Int64, now: Instant) {
        if let shown, shown.duration(to: now) < .milliseconds(100) { return }
        shown = now
        Output.talk("\r" + text(bytes: bytes, lines: lines, now: now) + "\u{1B}[K")
    }

    /// Draws the last state and leaves the line.
    mutating func end(bytes: Int64, lines: Int64, now: Instant) {
        shown = nil
        show(bytes: bytes, lines: lines, now: now)
        Output.talk("\n")
    }

    private func text(bytes: Int64, lines: Int64, now: Instant) -> String {
        let elapsed = max(1, started.duration(to: now).milliseconds)
        let rate = lines.saturatingMultiply(1_000) / elapsed
        let counts = "\(PlainText.count(lines)) lines, \(PlainText.count(rate)) a second"
        guard let total, total > 0 else { return PlainText.bytes(bytes) + "  " + counts }
        let percent = Int(clamping: min(bytes, total).saturatingMultiply(100) / total)
        let filled = percent * 30 / 100
        let bar = String(repeating: "#", count: filled) + String(repeating: ".", count: 30 - filled)
        return "[\(bar)] \(percent) %  \(counts)"
    }
}
