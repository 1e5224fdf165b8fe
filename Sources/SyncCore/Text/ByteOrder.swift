/// Compares bytes: `==` of strings treats canonically equivalent ones as equal.
package func sameBytes(_ left: String, _ right: String) -> Bool {
    guard left.utf8.count == right.utf8.count else { return false }
    // Comparing byte by byte through the views of strings takes several times as long.
    let isSame = left.utf8.withContiguousStorageIfAvailable { left in
        right.utf8.withContiguousStorageIfAvailable { right in left.elementsEqual(right) }
    }
    return (isSame ?? nil) ?? left.utf8.elementsEqual(right.utf8)
}

/// The same for texts that may be missing: two missing ones are the same.
package func sameBytes(_ left: String?, _ right: String?) -> Bool {
    guard let left, let right else { return left == nil && right == nil }
    return sameBytes(left, right)
}

/// Orders by bytes, as the database does: `<` of strings orders by normalised characters.
package func precedesInBytes(_ left: String, _ right: String) -> Bool {
    // Comparing byte by byte through the views of strings takes several times as long.
    let precedes = left.utf8.withContiguousStorageIfAvailable { left in
        right.utf8.withContiguousStorageIfAvailable { right in
            let common = min(left.count, right.count)
            var index = 0
            while index < common, left[index] == right[index] { index += 1 }
            return index < common ? left[index] < right[index] : left.count < right.count
        }
    }
    return (precedes ?? nil) ?? left.utf8.lexicographicallyPrecedes(right.utf8)
}
