import SyncCore

/// Events as lines of text: the last ones for people, and a hash over all of them, which tells two histories apart.
struct Trace {
    private(set) var hash: UInt64 = 0xCBF2_9CE4_8422_2325
    private(set) var count = 0
    private var lines: [String] = []
    private let keeps: Int

    /// - Parameter keeps: How many of the latest lines are kept.
    init(keeps: Int) {
        self.keeps = keeps
    }

    mutating func add(_ time: Instant, _ line: String) {
        count += 1
        let milliseconds = time.nanoseconds / 1_000_000
        let rest = milliseconds % 1_000
        let text = "\(milliseconds / 1_000).\(rest < 100 ? "0" : "")\(rest < 10 ? "0" : "")\(rest) \(line)"
        // FNV-1a.
        for byte in text.utf8 { hash = (hash ^ UInt64(byte)) &* 0x100_0000_01B3 }
        if lines.count == 2 * keeps { lines.removeFirst(keeps) }
        if keeps > 0 { lines.append(text) }
    }

    /// Adds a line for people alone. It is not built if the trace keeps no lines.
    mutating func addDetail(_ line: @autoclosure () -> String) {
        guard keeps > 0 else { return }
        if lines.count == 2 * keeps { lines.removeFirst(keeps) }
        lines.append("    " + line())
    }

    /// The latest lines, oldest first.
    var tail: [String] { lines.suffix(keeps) }
}
