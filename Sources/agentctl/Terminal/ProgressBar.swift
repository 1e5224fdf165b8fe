import LocalAPI
import SyncCore
import Synchronization

/// One line on standard error with the progress of an import, redrawn at most ten times a second.
final class ProgressBar: Sendable {
    private struct State {
        var bytes: Int64 = 0
        var lines: Int64 = 0
        var shown: Instant?
        var hasEnded = false
    }

    private let total: Int64?
    private let time: any TimeSource
    private let started: Instant
    private let state = Mutex(State())

    /// - Parameter total: Size of the file, bytes, if known.
    init(total: Int64?, time: any TimeSource) {
        self.total = total
        self.time = time
        started = time.now().instant
    }

    func show(bytes: Int64, lines: Int64) {
        let now = time.now().instant
        state.withLock { state in
            (state.bytes, state.lines) = (bytes, lines)
            if let shown = state.shown, shown.duration(to: now) < .milliseconds(100) { return }
            state.shown = now
            draw(state, now)
        }
    }

    /// Draws the last state and ends the line; a second call does nothing.
    func end() {
        state.withLock { state in
            if state.hasEnded { return }
            state.hasEnded = true
            draw(state, time.now().instant)
            Output.talk("\n")
        }
    }

    private func draw(_ state: State, _ now: Instant) {
        Output.talk("\r" + text(state, now) + "\u{1B}[K")
    }

    private func text(_ state: State, _ now: Instant) -> String {
        let elapsed = max(1, started.duration(to: now).milliseconds)
        let rate = state.lines.saturatingMultiply(1_000) / elapsed
        let counts = "\(PlainText.count(state.lines)) lines, \(PlainText.count(rate)) a second"
        guard let total, total > 0 else { return SizeText.readable(state.bytes) + "  " + counts }
        let percent = Int(clamping: min(state.bytes, total).saturatingMultiply(100) / total)
        let filled = percent * 30 / 100
        let bar = String(repeating: "#", count: filled) + String(repeating: ".", count: 30 - filled)
        return "[\(bar)] \(percent) %  \(counts)"
    }
}
