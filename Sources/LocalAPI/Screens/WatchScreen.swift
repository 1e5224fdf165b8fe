package import SyncCore

/// The output of `agentctl status --watch`: the status, below it small graphs of the queue and the data use, and a last line. It fills
/// exactly the given screen. It is a pure function, so that the tests can have a picture of each situation.
package struct WatchScreen: Sendable {
    package var width: Int
    package var height: Int
    package var color: Bool
    /// Offset of local time from UTC.
    package var offset: Duration
    /// Use Unicode blocks; otherwise ASCII.
    package var hasBlocks: Bool

    package init(width: Int, height: Int, color: Bool, offset: Duration = .zero, hasBlocks: Bool = true) {
        self.width = max(1, width)
        self.height = max(1, height)
        self.color = color
        self.offset = offset
        self.hasBlocks = hasBlocks
    }

    private static let labelWidth = 10
    /// Width of a text such as `999 KB today, most 999 KB in 14 d`, and two spaces.
    private static let textWidth = 38
    private static let keys = "q quits"

    /// - Parameters:
    ///   - trouble: The reason why there is no newer document, in words.
    /// - Returns: ``height`` lines, none wider than ``width``.
    package func render(_ document: StatusDocument?, _ history: WatchHistory, now: Timestamp, trouble: String? = nil) -> [String] {
        let graphs = graphs(history, now)
        // The status comes first: graphs are shown where there is room for at least its first lines.
        let showsGraphs = height >= graphs.count + 12
        let footer = footer(now, trouble)
        var lines: [String] = []
        if let document {
            let room = height - footer.count - (showsGraphs ? graphs.count : 0)
            lines = StatusScreen.render(document, width: width, now: now, color: color, offset: offset, lines: max(1, room))
        } else {
            lines = [PlainText.clip("waiting for the agent", to: width)]
        }
        let bottom = (showsGraphs ? graphs : []) + footer
        lines = Array(lines.prefix(max(0, height - bottom.count)))
        lines += Array(repeating: "", count: max(0, height - bottom.count - lines.count))
        return Array((lines + bottom).suffix(height))
    }

    private func footer(_ now: Timestamp, _ trouble: String?) -> [String] {
        let time = PlainText.clock(now, now: now, offset: offset)
        let text = trouble.map { PlainText.safe($0) + "; trying again" } ?? Self.keys
        let left = PlainText.clip(text, to: max(0, width - time.utf8.count - 2))
        let line = left + String(repeating: " ", count: max(0, width - PlainText.columns(left) - time.utf8.count)) + time
        return [paint(PlainText.clip(line, to: width), trouble == nil ? "2" : "1;31")]
    }

    // MARK: Graphs

    private func graphs(_ history: WatchHistory, _ now: Timestamp) -> [String] {
        // Two lines each on a large screen.
        let rows = height >= 32 ? 2 : 1
        return queue(history, now, rows) + data(history, rows)
    }

    private func queue(_ history: WatchHistory, _ now: Timestamp, _ rows: Int) -> [String] {
        guard let last = history.samples.last else { return [] }
        let columns = max(8, width - Self.labelWidth - Self.textWidth)
        let shown = history.samples.suffix(columns)
        let most = shown.map(\.open).max() ?? 0
        let span = DurationText.readable((shown.first?.at ?? now).duration(to: now))
        let text = "\(PlainText.count(last.open)) open, most \(PlainText.count(most)) in \(span)"
        return graph("QUEUE", shown.map(\.open), columns, rows, text)
    }

    private func data(_ history: WatchHistory, _ rows: Int) -> [String] {
        guard let today = history.days.last else { return [] }
        let columns = max(8, width - Self.labelWidth - Self.textWidth)
        // A day is as wide as possible.
        let each = max(1, min(3, columns / max(1, history.days.count)))
        let values = history.days.flatMap { Array(repeating: $0.bytes, count: each) }
        let most = history.days.map(\.bytes).max() ?? 0
        let text = "\(SizeText.readable(today.bytes)) today, most \(SizeText.readable(most)) in \(history.days.count) d"
        return graph("DATA", values.suffix(columns), columns, rows, text)
    }

    private func graph(_ label: String, _ values: some Collection<Int64>, _ columns: Int, _ rows: Int, _ text: String) -> [String] {
        let bars = Sparkline(hasBlocks: hasBlocks).rows(Array(values), columns: columns, rows: rows)
        return bars.enumerated().map { index, bar in
            let isLast = index == bars.count - 1
            let name = isLast ? label : ""
            let head = name + String(repeating: " ", count: max(0, Self.labelWidth - name.utf8.count))
            let tail = isLast ? "  " + text : ""
            let room = max(0, width - Self.labelWidth)
            let body = PlainText.clip(bar + tail, to: room)
            return (isLast ? paint(PlainText.clip(head, to: width), "1") : PlainText.clip(head, to: width)) + body
        }
    }

    private func paint(_ text: String, _ code: String) -> String {
        color ? "\u{1B}[" + code + "m" + text + "\u{1B}[0m" : text
    }
}

/// Bars of a row of numbers, the newest on the right; the highest fills the height, and every value except 0 is visible.
package struct Sparkline: Sendable {
    private let steps: [Character]

    package init(hasBlocks: Bool) {
        steps = Array(hasBlocks ? " ▁▂▃▄▅▆▇█" : " .:-=+*#@")
    }

    /// - Returns: `rows` lines of `columns` characters, the highest first.
    package func rows(_ values: [Int64], columns: Int, rows: Int) -> [String] {
        let shown = values.suffix(columns)
        let most = shown.max() ?? 0
        let full = Int64(rows * (steps.count - 1))
        let heights = shown.map { value -> Int64 in
            guard value > 0, most > 0 else { return 0 }
            // Floating point is used because the product may be larger than an integer can hold.
            return max(1, min(full, Int64((Double(value) / Double(most) * Double(full)).rounded())))
        }
        let margin = String(repeating: " ", count: max(0, columns - heights.count))
        return (0..<rows).reversed().map { row in
            let below = Int64(row * (steps.count - 1))
            return margin + String(heights.map { steps[Int(min(max($0 - below, 0), Int64(steps.count - 1)))] })
        }
    }
}
