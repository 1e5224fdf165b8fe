/// A plain table for a terminal: columns as wide as their content, two spaces between them, numbers to the right. If it is wider than the
/// screen, dispensable columns are removed, and then columns that may shrink are cut, the widest first. Text from outside is made safe.
package struct TextTable {
    package struct Column {
        package enum Side { case left, right }

        var title: String
        var side: Side
        /// Smallest width to which it may be cut; `nil`: it is never cut.
        var widthMin: Int?
        /// Order of removal: columns with the highest number are removed first; 0: it stays.
        var dispensable: Int

        package init(_ title: String, _ side: Side = .left, widthMin: Int? = nil, dispensable: Int = 0) {
            self.title = title
            self.side = side
            self.widthMin = widthMin
            self.dispensable = dispensable
        }
    }

    private let columns: [Column]
    private var rows: [[String]] = []

    package init(_ columns: [Column]) {
        self.columns = columns
    }

    /// - Precondition: One cell for each column.
    package mutating func add(_ cells: [String]) {
        precondition(cells.count == columns.count, "a row has a cell for each column")
        rows.append(cells.map(PlainText.safe))
    }

    /// Title and rows, none wider than `width`. A column that is empty everywhere is left out.
    package func lines(width: Int) -> [String] {
        var used = columns.indices.filter { column in rows.contains { !$0[column].isEmpty } }
        let all = [columns.map(\.title)] + rows
        var widths = columns.indices.map { column in all.map { PlainText.columns($0[column]) }.max() ?? 0 }
        func total() -> Int { used.reduce(0) { $0 + widths[$1] } + 2 * max(0, used.count - 1) }
        while total() > width, let next = used.max(by: { columns[$0].dispensable < columns[$1].dispensable }),
            columns[next].dispensable > 0
        {
            used.removeAll { $0 == next }
        }
        while total() > width {
            let flexible = used.filter { column in
                columns[column].widthMin.map { least in widths[column] > least } ?? false
            }
            guard let widest = flexible.max(by: { widths[$0] < widths[$1] }) else { break }
            widths[widest] -= 1
        }
        return all.map { row in
            let cells = used.map { column in
                let cell = PlainText.clip(row[column], to: widths[column])
                return columns[column].side == .left
                    ? Self.padded(cell, to: widths[column])
                    : String(repeating: " ", count: max(0, widths[column] - PlainText.columns(cell))) + cell
            }
            var line = cells.joined(separator: "  ")
            while line.last == " " { line.removeLast() }
            return PlainText.clip(line, to: width)
        }
    }

    /// The table with a note for each row: in a last column if all of them fit, otherwise below the row, on at most two lines.
    ///
    /// - Precondition: One note for each row.
    package func lines(width: Int, notes: [String?], title: String) -> [String] {
        precondition(notes.count == rows.count, "a row has a note or nil")
        var wide = TextTable(columns + [Column(title)])
        for (row, note) in zip(rows, notes) { wide.add(row + [note ?? ""]) }
        if wide.widthWanted <= width { return wide.lines(width: width) }
        let indent = "    "
        let lines = lines(width: width)
        return lines.prefix(1)
            + zip(lines.dropFirst(), notes).flatMap { line, note -> [String] in
                guard let note else { return [line] }
                return [line]
                    + PlainText.wrap(PlainText.safe(note), to: max(1, width - indent.count), lines: 2).map {
                        PlainText.clip(indent + $0, to: width)
                    }
            }
    }

    /// Width with which nothing is cut, columns.
    private var widthWanted: Int {
        let used = columns.indices.filter { column in rows.contains { !$0[column].isEmpty } }
        let widths = used.map { column in
            rows.reduce(PlainText.columns(columns[column].title)) { max($0, PlainText.columns($1[column])) }
        }
        return widths.reduce(0, +) + 2 * max(0, used.count - 1)
    }

    /// `text`, clipped or filled up with spaces, in exactly `width` columns.
    package static func padded(_ text: String, to width: Int) -> String { PlainText.padded(PlainText.clip(text, to: width), to: width) }
}
