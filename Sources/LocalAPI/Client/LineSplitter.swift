/// Splits a stream of bytes into lines, whatever the pieces are. Lines end with LF; a CR before it belongs to the end.
package struct LineSplitter: Sendable {
    package struct Line: Hashable, Sendable {
        /// Number of the line, from 1, empty lines counted.
        package var number: Int64
        /// The line without its end; `nil` when it is longer than the limit.
        package var bytes: [UInt8]?
    }

    private let bytesMax: Int
    private var pending: [UInt8] = []
    private var isTooLong = false
    private var number: Int64 = 1

    package init(bytesMax: Int) {
        self.bytesMax = bytesMax
    }

    /// - Returns: The complete lines, without empty ones.
    package mutating func read(_ bytes: [UInt8]) -> [Line] {
        var lines: [Line] = []
        var rest = bytes[...]
        while let end = rest.firstIndex(of: UInt8(ascii: "\n")) {
            append(rest[..<end])
            rest = rest[(end + 1)...]
            endLine(&lines)
        }
        append(rest)
        return lines
    }

    /// The last line, when it has no end.
    package mutating func finish() -> [Line] {
        var lines: [Line] = []
        endLine(&lines)
        return lines
    }

    private mutating func append(_ bytes: ArraySlice<UInt8>) {
        // The buffer may hold one byte more than the limit, for the CR that may belong to the end.
        guard !isTooLong, pending.count + bytes.count <= bytesMax + 1 else {
            isTooLong = true
            pending.removeAll()
            return
        }
        pending.append(contentsOf: bytes)
    }

    private mutating func endLine(_ lines: inout [Line]) {
        if pending.last == UInt8(ascii: "\r") { pending.removeLast() }
        if isTooLong || pending.count > bytesMax {
            lines.append(Line(number: number, bytes: nil))
        } else if !pending.isEmpty {
            lines.append(Line(number: number, bytes: pending))
        }
        pending.removeAll(keepingCapacity: true)
        isTooLong = false
        number += 1
    }
}
