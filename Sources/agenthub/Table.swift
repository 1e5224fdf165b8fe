import SyncCore

/// Columns of text for a terminal: as wide as what is in them, two blanks apart, nothing at the end of a line.
struct Table {
    struct Column {
        var title: String
        /// Numbers stand at the right.
        var isNumber = false
        /// Where there is no room for all columns, those with the highest number go first; 0 stays.
        var dispensable = 0
    }

    var columns: [Column]
    var rows: [[String]] = []

    init(_ columns: [Column]) {
        self.columns = columns
    }

    /// - Parameter width: Columns are left out, and then the first one is cut, until each line fits.
    func lines(width: Int = 80) -> [String] {
        var shown = Array(columns.indices)
        var widths = columns.indices.map { index in
            max(columns[index].title.count, rows.map { $0[index].count }.max() ?? 0)
        }
        func total() -> Int { shown.reduce(0) { $0 + widths[$1] } + 2 * (shown.count - 1) }
        while total() > width, let next = shown.max(by: { columns[$0].dispensable < columns[$1].dispensable }),
            columns[next].dispensable > 0
        {
            shown.removeAll { $0 == next }
        }
        if total() > width, let first = shown.first { widths[first] = max(8, widths[first] - (total() - width)) }
        return ([columns.map(\.title)] + rows).map { row in
            let cells = shown.map { index -> String in
                let text = Self.cut(row[index], widths[index])
                let blanks = String(repeating: " ", count: widths[index] - text.count)
                return columns[index].isNumber ? blanks + text : text + blanks
            }
            var line = cells.joined(separator: "  ")
            while line.last == " " { line.removeLast() }
            return line
        }
    }

    private static func cut(_ text: String, _ width: Int) -> String {
        text.count <= width ? text : String(text.prefix(max(0, width - 1))) + "…"
    }
}

/// Words for people.
enum PlainWords {
    /// `38 s`, `12 min`, `5 h`, `3 d`: rounded down, to be read at a glance.
    static func duration(_ duration: Duration) -> String {
        let seconds = max(0, duration.components.seconds)
        return switch seconds {
        case ..<120: "\(seconds) s"
        case ..<7_200: "\(seconds / 60) min"
        case ..<172_800: "\(seconds / 3_600) h"
        default: "\(seconds / 86_400) d"
        }
    }

    /// `512 B`, `4.1 KB`, `1.2 GB`: thousands, one decimal.
    static func bytes(_ count: Int64) -> String {
        if count < 1_000 { return "\(count) B" }
        var tenths = count / 100
        var unit = 0
        while tenths >= 10_000, unit < 3 {
            tenths /= 1_000
            unit += 1
        }
        return "\(tenths / 10).\(tenths % 10) " + ["KB", "MB", "GB", "TB"][unit]
    }
}
