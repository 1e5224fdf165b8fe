/// Cuts a stream of bytes into lines, however the pieces fall. Lines end with LF; a CR before it belongs to the end.
package struct LineSplitter: Sendable {
    private var pending: [UInt8] = []
    private let bytesMax: Int
    /// Set when a line passed the limit; nothing is read after that.
    package private(set) var isBroken = false

    package init(bytesMax: Int) {
        self.bytesMax = bytesMax
    }

    /// - Returns: The whole lines, without their ends; empty ones are left out.
    package mutating func read(_ bytes: [UInt8]) -> [[UInt8]] {
        var lines: [[UInt8]] = []
        var rest = bytes[...]
        while !isBroken, let end = rest.firstIndex(of: UInt8(ascii: "\n")) {
            pending.append(contentsOf: rest[..<end])
            rest = rest[(end + 1)...]
            takeLine(&lines)
        }
        pending.append(contentsOf: rest)
        if pending.count > bytesMax { isBroken = true }
        return lines
    }

    /// The last line, when it has no end.
    package mutating func finish() -> [UInt8]? {
        var lines: [[UInt8]] = []
        takeLine(&lines)
        return lines.first
    }

    private mutating func takeLine(_ lines: inout [[UInt8]]) {
        if pending.last == UInt8(ascii: "\r") { pending.removeLast() }
        if pending.count > bytesMax { isBroken = true }
        if !pending.isEmpty, !isBroken { lines.append(pending) }
        pending.removeAll(keepingCapacity: true)
    }
}
