/// Rows of text in columns: numbers right-aligned, words left-aligned.
struct Table {
    private var rows: [[String]]
    private let wordColumns: Set<Int>

    init(_ header: [String], words: Set<Int> = [0]) {
        rows = [header]
        wordColumns = words
    }

    mutating func add(_ row: [String]) {
        rows.append(row)
    }

    var text: String {
        let columns = rows.map(\.count).max() ?? 0
        let widths = (0..<columns).map { column in rows.map { column < $0.count ? $0[column].count : 0 }.max() ?? 0 }
        return rows.map { row in
            let cells = row.enumerated().map { column, cell in
                let space = String(repeating: " ", count: widths[column] - cell.count)
                return wordColumns.contains(column) ? cell + space : space + cell
            }
            return cells.joined(separator: "  ").trimmedAtEnd
        }.joined(separator: "\n")
    }
}

extension String {
    fileprivate var trimmedAtEnd: String {
        String(reversed().drop { $0 == " " }.reversed())
    }
}
