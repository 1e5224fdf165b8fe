/// Reads one HTTP/1.1 answer (RFC 9112) however it is cut into pieces.
///
/// Bytes go in by ``feed(_:)``, and the body comes out by ``takeBody()``. The reader holds at most one head, one chunk line and
/// one piece of the body, so an answer of any length costs the same memory. It reads bodies with a length, chunked bodies, and
/// bodies that end with the connection.
package struct ResponseReader {
    private enum Part {
        case head
        case counted(left: Int)
        case chunkSize
        case chunkData(left: Int)
        case chunkEnd
        case trailer
        case untilClose
        case complete
    }

    /// Status of the answer; `nil` until its head is there.
    package private(set) var status: Int?
    /// Fields of the head, with names in lower case.
    package private(set) var fields: [String: String] = [:]
    /// At least one byte came.
    package private(set) var hasBegun = false

    private var part = Part.head
    private var buffer: [UInt8] = []
    /// Bytes of the buffer that were read already. They are removed once for each ``feed(_:)``.
    private var position = 0
    private var body: [UInt8] = []
    private var interimAnswers = 0
    private var trailerBytes = 0

    package init() {}

    /// The answer has come to its end.
    package var isComplete: Bool {
        if case .complete = part { true } else { false }
    }

    /// Reads the next bytes of the connection.
    ///
    /// - Throws: `badAnswer` if they are not HTTP as the agent speaks it, or pass a limit.
    package mutating func feed(_ bytes: some Collection<UInt8>) throws(EdgeSyncError) {
        guard !bytes.isEmpty else { return }
        hasBegun = true
        buffer += bytes
        while try step() {}
        buffer.removeFirst(position)
        position = 0
    }

    /// The connection has ended.
    ///
    /// - Throws: `brokenAnswer` if the answer was not complete.
    package mutating func end() throws(EdgeSyncError) {
        switch part {
        case .complete: break
        case .untilClose: part = .complete
        case .head, .counted, .chunkSize, .chunkData, .chunkEnd, .trailer:
            let place = hasBegun ? "within its answer" : "before it answered"
            throw .brokenAnswer("the agent closed the connection \(place)")
        }
    }

    /// The bytes of the body that came since the last call.
    package mutating func takeBody() -> [UInt8] {
        defer { body = [] }
        return body
    }

    // MARK: Steps

    /// Reads one part.
    ///
    /// - Returns: `true` if there may be another part to read.
    private mutating func step() throws(EdgeSyncError) -> Bool {
        switch part {
        case .head: return try readHead()
        case .counted(let left):
            let rest = move(left)
            part = rest == 0 ? .complete : .counted(left: rest)
            return rest == 0
        case .chunkSize: return try readChunkSize()
        case .chunkData(let left):
            let rest = move(left)
            part = rest == 0 ? .chunkEnd : .chunkData(left: rest)
            return rest == 0
        case .chunkEnd:
            guard buffer.count - position >= 2 else { return false }
            guard buffer[position] == 0x0D, buffer[position + 1] == 0x0A else {
                throw .badAnswer("a piece of the answer is longer than it says")
            }
            position += 2
            part = .chunkSize
            return true
        case .trailer:
            guard let line = try line(max: Limits.headBytes) else { return false }
            trailerBytes += line.count
            guard trailerBytes <= Limits.headBytes else { throw .badAnswer("the trailer of the answer is too long") }
            if line.isEmpty { part = .complete }
            return true
        case .untilClose:
            _ = move(buffer.count - position)
            return false
        case .complete:
            guard position == buffer.count else { throw .badAnswer("bytes came after the end of the answer") }
            return false
        }
    }

    private mutating func readHead() throws(EdgeSyncError) -> Bool {
        let begun = buffer[position...]
        guard begun.starts(with: "HTTP/1.".utf8.prefix(begun.count)) else { throw .badAnswer("the answer is not HTTP/1.1") }
        guard let end = Self.endOfHead(begun), end - position <= Limits.headBytes else {
            guard begun.count <= Limits.headBytes + 4 else {
                throw .badAnswer("the head of the answer has more than \(Limits.headBytes) bytes")
            }
            return false
        }
        let lines = Self.lines(buffer[position..<end])
        position = end + 4
        let status = try Self.status(lines[0])
        let fields = try Self.fields(lines.dropFirst())
        if status < 200 {
            interimAnswers += 1
            guard status != 101, interimAnswers <= Limits.interimAnswers else {
                throw .badAnswer("the agent answered with the interim status \(status)")
            }
            return true
        }
        self.status = status
        self.fields = fields
        part = try Self.framing(status, fields)
        return true
    }

    private static func framing(_ status: Int, _ fields: [String: String]) throws(EdgeSyncError) -> Part {
        if status == 204 || status == 304 { return .complete }
        if let coding = fields["transfer-encoding"] {
            guard coding.lowercased() == "chunked", fields["content-length"] == nil else {
                throw .badAnswer("the length of the answer is not given in one way")
            }
            return .chunkSize
        }
        guard let length = fields["content-length"] else { return .untilClose }
        guard length.utf8.count <= 18, length.utf8.allSatisfy({ (0x30...0x39).contains($0) }), let left = Int(length) else {
            throw .badAnswer("the length of the answer is not a number")
        }
        return left == 0 ? .complete : .counted(left: left)
    }

    private mutating func readChunkSize() throws(EdgeSyncError) -> Bool {
        guard let line = try line(max: Limits.chunkLineBytes) else { return false }
        var digits = line.prefix { $0 != UInt8(ascii: ";") }
        while let last = digits.last, last == 0x20 || last == 0x09 { digits.removeLast() }
        let text = String(decoding: digits, as: UTF8.self)
        guard (1...15).contains(digits.count), digits.allSatisfy({ Character(Unicode.Scalar($0)).isHexDigit }),
            let size = Int(text, radix: 16)
        else { throw .badAnswer("the size of a piece of the answer is not a number") }
        part = size == 0 ? .trailer : .chunkData(left: size)
        return true
    }

    /// Moves at most this number of bytes to the body.
    ///
    /// - Returns: The number of bytes that did not come yet.
    private mutating func move(_ left: Int) -> Int {
        let count = min(left, buffer.count - position)
        body += buffer[position..<position + count]
        position += count
        return left - count
    }

    /// The next line without its end; `nil` if it is not complete.
    private mutating func line(max: Int) throws(EdgeSyncError) -> ArraySlice<UInt8>? {
        let rest = buffer[position...].prefix(max + 2)
        guard let end = rest.indices.first(where: { rest[$0] == 0x0D && $0 + 1 < rest.endIndex && rest[$0 + 1] == 0x0A }) else {
            guard rest.count < max + 2 else { throw .badAnswer("a line of the answer has more than \(max) bytes") }
            return nil
        }
        position = end + 2
        return rest[..<end]
    }

    // MARK: The head

    /// The index of the empty line that ends the head.
    private static func endOfHead(_ bytes: ArraySlice<UInt8>) -> Int? {
        var index = bytes.startIndex
        while index + 3 < bytes.endIndex {
            if bytes[index] == 0x0D, bytes[index + 1] == 0x0A, bytes[index + 2] == 0x0D, bytes[index + 3] == 0x0A { return index }
            index += 1
        }
        return nil
    }

    private static func lines(_ head: ArraySlice<UInt8>) -> [ArraySlice<UInt8>] {
        var lines: [ArraySlice<UInt8>] = []
        var begin = head.startIndex
        for index in head.indices where head[index] == 0x0A && index > begin && head[index - 1] == 0x0D {
            lines.append(head[begin..<index - 1])
            begin = index + 1
        }
        return lines + [head[begin...]]
    }

    /// `HTTP/1.1 200 OK`; the reason may be absent.
    private static func status(_ line: ArraySlice<UInt8>) throws(EdgeSyncError) -> Int {
        let parts = line.split(separator: 0x20, maxSplits: 2, omittingEmptySubsequences: false)
        guard parts.count >= 2, parts[0].elementsEqual("HTTP/1.1".utf8) || parts[0].elementsEqual("HTTP/1.0".utf8),
            parts[1].count == 3, parts[1].allSatisfy({ (0x30...0x39).contains($0) }),
            let status = Int(String(decoding: parts[1], as: UTF8.self)), status >= 100, line.allSatisfy(isText)
        else { throw .badAnswer("the answer is not HTTP/1.1") }
        return status
    }

    /// Fields by which an answer is framed or read: two of one name contradict each other.
    private static let single: Set<String> = [
        "content-length", "content-type", "transfer-encoding", "content-range", "etag", "repr-digest",
    ]

    private static func fields(_ lines: ArraySlice<ArraySlice<UInt8>>) throws(EdgeSyncError) -> [String: String] {
        var fields: [String: String] = [:]
        for line in lines where !(line.isEmpty && lines.count == 1) {
            guard let colon = line.firstIndex(of: UInt8(ascii: ":")), colon > line.startIndex,
                line[..<colon].allSatisfy(isTokenByte), line[colon...].allSatisfy({ isText($0) || $0 == 0x09 })
            else { throw .badAnswer("the head of the answer has a line that is not a field") }
            var value = line[(colon + 1)...]
            while let first = value.first, first == 0x20 || first == 0x09 { value.removeFirst() }
            while let last = value.last, last == 0x20 || last == 0x09 { value.removeLast() }
            let name = String(decoding: line[..<colon], as: UTF8.self).lowercased()
            let text = String(decoding: value, as: UTF8.self)
            guard let before = fields[name] else {
                fields[name] = text
                continue
            }
            guard !single.contains(name) else { throw .badAnswer("the head of the answer has the field \(name) twice") }
            fields[name] = "\(before), \(text)"
        }
        return fields
    }

    private static func isText(_ byte: UInt8) -> Bool { byte >= 0x20 && byte != 0x7F }

    private static func isTokenByte(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "A")...UInt8(ascii: "Z"), UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "0")...UInt8(ascii: "9"):
            true
        default: "!#$%&'*+-.^_`|~".utf8.contains(byte)
        }
    }
}
