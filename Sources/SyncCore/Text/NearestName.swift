/// The known name that was probably meant, or `nil` when none is close: at most a third of the letters may differ, and no more than three.
/// Of equally close names the first one counts.
package func nearestName(to written: String, among known: [String]) -> String? {
    let letters = Array(written.utf8)
    // No key is that long, and the cost grows quadratically.
    guard letters.count <= 64 else { return nil }
    var best: (name: String, distance: Int)?
    for name in known {
        let distance = editDistance(letters, Array(name.utf8))
        if distance <= min(3, max(1, max(letters.count, name.utf8.count) / 3)), distance < best?.distance ?? .max {
            best = (name, distance)
        }
    }
    return best?.name
}

/// Number of letters to insert, remove, replace or swap with their neighbour (optimal string alignment).
private func editDistance(_ left: [UInt8], _ right: [UInt8]) -> Int {
    if left.isEmpty || right.isEmpty { return max(left.count, right.count) }
    var beforeLast: [Int] = []
    var last = Array(0...right.count)
    for i in 1...left.count {
        var row = [i] + [Int](repeating: 0, count: right.count)
        for j in 1...right.count {
            let replaced = last[j - 1] + (left[i - 1] == right[j - 1] ? 0 : 1)
            row[j] = min(replaced, last[j] + 1, row[j - 1] + 1)
            if i > 1, j > 1, left[i - 1] == right[j - 2], left[i - 2] == right[j - 1] {
                row[j] = min(row[j], beforeLast[j - 2] + 1)
            }
        }
        beforeLast = last
        last = row
    }
    return last[right.count]
}
