/// Reads an event stream in pieces of any size, even if they split a character or a line end.
///
/// The WHATWG algorithm ("Interpreting an event stream"): lines end with LF, CR or CRLF; a blank line dispatches; a
/// line that starts with a colon is a comment; an unfinished event at the end of the stream is dropped.
package struct EventParser: Sendable {
    /// Longest line and event, bytes; the agent's own are far smaller. A longer one ends the stream, to limit memory.
    package static let bytesMax = 4 << 20

    /// A limit was exceeded; no more input is read.
    package private(set) var isBroken = false
    /// Delay before a reconnect that the server asked for, milliseconds.
    package private(set) var retry: Int64?
    /// Value of `Last-Event-ID` for a reconnect: the id of the last complete block, even if it carried no event.
    package private(set) var lastID: String?

    private var line: [UInt8] = []
    private var lastWasCR = false
    private var isAtStart = true
    private var id: String?
    private var type: [UInt8] = []
    private var data: [UInt8] = []
    private var hasData = false

    package init() {}

    /// - Returns: The events that are complete now, in order.
    package mutating func read(_ bytes: some Sequence<UInt8>) -> [LocalEvent] {
        var events: [LocalEvent] = []
        for byte in bytes where !isBroken {
            switch byte {
            case UInt8(ascii: "\n"):
                if lastWasCR { lastWasCR = false } else { endLine(&events) }
            case UInt8(ascii: "\r"):
                endLine(&events)
                lastWasCR = true
            default:
                lastWasCR = false
                line.append(byte)
                if line.count + data.count > EventParser.bytesMax { isBroken = true }
            }
        }
        return events
    }

    private mutating func endLine(_ events: inout [LocalEvent]) {
        defer { line.removeAll(keepingCapacity: true) }
        if isAtStart {
            isAtStart = false
            if line.starts(with: [0xEF, 0xBB, 0xBF]) { line.removeFirst(3) }
        }
        if line.isEmpty { return dispatch(&events) }
        let colon = line.firstIndex(of: UInt8(ascii: ":"))
        if colon == 0 { return }
        let name = String(decoding: line[..<(colon ?? line.count)], as: UTF8.self)
        var value = colon.map { line[($0 + 1)...] } ?? []
        if value.first == UInt8(ascii: " ") { value.removeFirst() }
        switch name {
        case "event": type = Array(value)
        case "data":
            if hasData { data.append(UInt8(ascii: "\n")) }
            data.append(contentsOf: value)
            hasData = true
        case "id":
            if !value.contains(0) { id = String(decoding: value, as: UTF8.self) }
        case "retry":
            if !value.isEmpty, value.allSatisfy({ $0 >= 48 && $0 <= 57 }) {
                retry = Int64(String(decoding: value, as: UTF8.self)) ?? retry
            }
        default: break
        }
    }

    private mutating func dispatch(_ events: inout [LocalEvent]) {
        lastID = id
        if hasData {
            let name = type.isEmpty ? "message" : String(decoding: type, as: UTF8.self)
            events.append(LocalEvent(id: id, type: name, data: data))
        }
        type = []
        data = []
        hasData = false
    }
}
