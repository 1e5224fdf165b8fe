package import SyncCore

extension TextTable {
    /// A table of figures: the columns of these indexes hold words, all others hold numbers.
    package init(_ titles: [String], words: Set<Int> = [0]) {
        self.init(titles.enumerated().map { Column($1, words.contains($0) ? .left : .right) })
    }

    /// The whole table, as wide as it is.
    package var text: String { lines(width: .max).joined(separator: "\n") }
}
