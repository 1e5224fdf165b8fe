/// Finds the known name that a misspelt one most likely meant.
package enum NearestName {
    /// - Returns: The candidate with the smallest edit distance, if that is at most a third of the longer name, and at least one for short
    ///   names; `nil` when none is near.
    package static func of(_ name: String, among candidates: [String]) -> String? {
        // A longer text than any known name is no typing mistake, and not worth the time.
        guard name.utf8.count <= 64 else { return nil }
        let ranked = candidates.map { ($0, distance(Array(name.utf8), Array($0.utf8))) }
        guard let best = ranked.min(by: { $0.1 < $1.1 }) else { return nil }
        return best.1 <= max(1, max(name.utf8.count, best.0.utf8.count) / 3) ? best.0 : nil
    }

    /// Edit distance with transposition of neighbours as one step ("optimal string alignment").
    private static func distance(_ a: [UInt8], _ b: [UInt8]) -> Int {
        if a.isEmpty || b.isEmpty { return max(a.count, b.count) }
        var before = [Int](repeating: 0, count: b.count + 1)
        var last = Array(0...b.count)
        for i in 1...a.count {
            var row = [i] + [Int](repeating: 0, count: b.count)
            for j in 1...b.count {
                let change = a[i - 1] == b[j - 1] ? 0 : 1
                row[j] = min(last[j] + 1, row[j - 1] + 1, last[j - 1] + change)
                if i > 1, j > 1, a[i - 1] == b[j - 2], a[i - 2] == b[j - 1] { row[j] = min(row[j], before[j - 2] + 1) }
            }
            (before, last) = (last, row)
        }
        return last[b.count]
    }
}
