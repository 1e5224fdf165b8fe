/// A version of the program as numbers: `1.4` is before `1.4.2`, and `1.10` after both.
package struct AgentRelease: Hashable, Comparable, Sendable {
    private let numbers: [Int]

    /// - Returns: `nil` unless the text is 1 to 4 numbers with dots between them. A part after `-` or `+` is ignored.
    package init?(_ text: String) {
        let core = text.prefix { $0 != "-" && $0 != "+" }
        let parts = core.split(separator: ".", omittingEmptySubsequences: false).map { part in
            part.utf8.allSatisfy { (48...57).contains($0) } && part.utf8.count <= 6 ? Int(part) : nil
        }
        let numbers = parts.compactMap { $0 }
        guard numbers.count == parts.count, (1...4).contains(numbers.count) else { return nil }
        // Zeros at the end have no meaning.
        self.numbers = Array(numbers.reversed().drop { $0 == 0 }.reversed())
    }

    package static func < (left: AgentRelease, right: AgentRelease) -> Bool {
        left.numbers.lexicographicallyPrecedes(right.numbers)
    }
}
