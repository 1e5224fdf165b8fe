/// One block of an event stream. The type is empty for a block that carries a position and no event.
package struct EventBlock: Equatable, Sendable {
    package var position: Int?
    package var type: String
    package var data: [UInt8]

    package init(position: Int?, type: String, data: [UInt8]) {
        self.position = position
        self.type = type
        self.data = data
    }

    /// Type of the block that this library makes for the first position of a feed. The agent has no such event.
    package static let start = "start"
}

/// Reads an event stream of the WHATWG however it is cut into pieces, even inside a character or a line end.
///
/// Lines end with LF, CR or CRLF. An empty line ends an event, and a line that begins with a colon is a comment. An event that is
/// not complete when the stream ends does not count.
package struct EventParser {
    private var line: [UInt8] = []
    private var endedWithCR = false
    private var isFirstLine = true
    private var position: Int?
    private var type = ""
    private var data: [UInt8]?

    package init() {}

    /// Reads the next bytes.
    ///
    /// - Returns: The blocks that are complete by now, in their order.
    /// - Throws: `badAnswer` if an event passes its limit, or a position is not a number.
    package mutating func feed(_ bytes: some Sequence<UInt8>) throws(EdgeSyncError) -> [EventBlock] {
        var blocks: [EventBlock] = []
        for byte in bytes {
            let followsCR = endedWithCR
            endedWithCR = byte == 0x0D
            switch byte {
            case 0x0A where followsCR: break
            case 0x0A, 0x0D: try endLine(&blocks)
            default:
                line.append(byte)
                guard line.count + (data?.count ?? 0) <= Limits.eventBytes else {
                    throw .badAnswer("an event of the feed has more than \(Limits.eventBytes) bytes")
                }
            }
        }
        return blocks
    }

    private mutating func endLine(_ blocks: inout [EventBlock]) throws(EdgeSyncError) {
        defer { line.removeAll(keepingCapacity: true) }
        if isFirstLine {
            isFirstLine = false
            if line.starts(with: [0xEF, 0xBB, 0xBF]) { line.removeFirst(3) }
        }
        guard !line.isEmpty else {
            if data != nil || position != nil {
                let type = data == nil ? "" : type.isEmpty ? "message" : type
                blocks.append(EventBlock(position: position, type: type, data: data ?? []))
            }
            (position, type, data) = (nil, "", nil)
            return
        }
        let colon = line.firstIndex(of: UInt8(ascii: ":")) ?? line.endIndex
        var value = line[colon...].dropFirst()
        if value.first == 0x20 { value.removeFirst() }
        switch String(decoding: line[..<colon], as: UTF8.self) {
        case "event": type = String(decoding: value, as: UTF8.self)
        case "id":
            let text = String(decoding: value, as: UTF8.self)
            guard value.allSatisfy({ (0x30...0x39).contains($0) }), let number = Int(text) else {
                throw .badAnswer("the position of an event is not a number")
            }
            position = number
        case "data": data = data.map { $0 + [0x0A] + value } ?? Array(value)
        default: break
        }
    }
}

/// The position of a feed over all its connections, and the meaning of each of its blocks.
package struct FeedPosition {
    /// The last position that was passed on; `nil` until the first connection told one.
    package private(set) var position: Int?
    /// The present connection brought news.
    package private(set) var hasNews = false

    package init(_ position: Int?) {
        self.position = position
    }

    /// A new connection is read.
    package mutating func begin() { hasNews = false }

    /// Decides about one block.
    ///
    /// - The first position of a feed that began without one becomes a `start`: nothing behind it is missed.
    /// - `reset` says that what lies before its position is not kept any more.
    /// - An event at or before the position was passed on already, and is dropped.
    /// - `overflow` says that the reader was too slow. The agent ends the feed, which resumes after what it got.
    ///
    /// - Returns: The block with its position as the reader of the feed must see it; `nil` if it must see nothing.
    package mutating func accept(_ block: EventBlock) throws(EdgeSyncError) -> (block: EventBlock, position: Int)? {
        if block.type.isEmpty {
            guard position == nil, let first = block.position else { return nil }
            position = first
            return (EventBlock(position: first, type: EventBlock.start, data: Array("{}".utf8)), first)
        }
        if block.type == "overflow" { return nil }
        guard let place = block.position else { throw .badAnswer("an event of the type \(block.type) has no position") }
        if block.type != "reset" {
            if let position, place <= position { return nil }
            hasNews = true
        }
        position = place
        return (block, place)
    }
}
