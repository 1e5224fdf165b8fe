import SyncCore

extension FuzzTarget {
    /// The strict reader. An accepted text is written back to the same value, numbers and strings as they were sent. A refusal names a
    /// place within the text.
    static let json = FuzzTarget("json") { bytes in
        let value: JSON
        do throws(JSONError) {
            value = try JSONReader.read(bytes)
        } catch {
            try claim((0...bytes.count).contains(error.offset), "refused at byte \(error.offset) of \(bytes.count)")
            return
        }
        let written = value.bytes
        let again = try JSONReader.read(written)
        try claim(again.bytes == written, "written twice, two texts")
        try claim(again == value, "read back, another value")
        try claim(again.hashValue == value.hashValue, "equal values, two hashes")
        // Without its white space a text is never longer than what was sent.
        try claim(written.count <= bytes.count, "\(bytes.count) bytes became \(written.count)")
        try sameSources(value, again)
        try numbers(value)
    }

    /// Digits and escapes as they were sent, not only the same meaning.
    private static func sameSources(_ left: JSON, _ right: JSON) throws {
        switch (left, right) {
        case (.number(let a), .number(let b)): try claim(a.source == b.source, "\(a.source) became \(b.source)")
        case (.string(let a), .string(let b)):
            try claim(a.source.utf8.elementsEqual(b.source.utf8), "\(a.source) became \(b.source)")
        case (.array(let a), .array(let b)): for (one, other) in zip(a, b) { try sameSources(one, other) }
        case (.object(let a), .object(let b)):
            for (one, other) in zip(a.members, b.members) {
                try claim(
                    one.name.source.utf8.elementsEqual(other.name.source.utf8), "\(one.name.source) became \(other.name.source)")
                try sameSources(one.value, other.value)
            }
        default: break
        }
    }

    /// The arithmetic of counters: what is added can be taken off again, and the order is one.
    private static func numbers(_ value: JSON) throws {
        guard let list = value.array, list.count == 2, case .number(let a) = list[0], case .number(let b) = list[1] else {
            return
        }
        try claim(a.negated.negated == a, "minus minus \(a.source)")
        try claim([a < b, a == b, b < a].count { $0 } == 1, "\(a.source) and \(b.source) have no order")
        if a == b { try claim(a.hashValue == b.hashValue, "\(a.source) equals \(b.source) with another hash") }
        if let sum = a.adding(b) {
            try claim(b.adding(a) == sum, "\(a.source) + \(b.source) depends on the order")
            if let back = sum.adding(b.negated) {
                try claim(back == a, "\(a.source) + \(b.source) - \(b.source) is \(back.source)")
            }
        }
        if let whole = a.int { try claim(JSONNumber(whole) == a, "\(a.source) as a whole number is \(whole)") }
    }
}
