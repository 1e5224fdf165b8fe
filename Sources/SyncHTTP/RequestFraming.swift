import Glibc
import NIOCore

/// Where a message ends, found before the parser sees the bytes.
///
/// NIO's parser eats whatever it is given and turns a read full of pipelined requests into objects at once. To answer
/// one request at a time without holding hundreds of parsed ones, bytes go to the parser in pieces that never reach
/// past the end of a head or of a message. Finding these ends takes no second parser: a head and a chunked body both
/// end with an empty line, wherever else one may occur, and a body of known length is counted. A cut too many does no
/// harm.
struct RequestFraming {
    private enum Part {
        case head
        case counted(left: Int)
        case chunked
    }

    /// The longest piece, bytes: a usual read. More is at hand only when the client has closed its side.
    static let longestPiece = 64 << 10

    private var part = Part.head
    /// How many bytes of CR LF CR LF the pieces so far end with.
    private var matched = 0
    /// Bytes of the head so far or, in a chunked body, since the last piece with content: what costs but carries
    /// nothing.
    private(set) var overhead = 0

    /// Bytes of the body still to come; `nil` when only its end will tell.
    var bodyBytesLeft: Int? {
        if case .counted(let left) = part { left } else { nil }
    }

    /// How many of the readable bytes make the next piece.
    ///
    /// - Parameter limit: The most that ``overhead`` may come to. A piece never brings it above; 0 means that it is
    ///   reached.
    mutating func nextPiece(of buffer: ByteBuffer, limit: Int) -> Int {
        switch part {
        case .head:
            let length = min(lineEnd(in: buffer, atMost: max(0, limit - overhead)), buffer.readableBytes)
            overhead += length
            return length
        case .counted(let left):
            let length = min(left, buffer.readableBytes, Self.longestPiece)
            part = .counted(left: left - length)
            return length
        case .chunked:
            guard overhead < limit else { return 0 }
            let length = lineEnd(in: buffer, atMost: Self.longestPiece)
            overhead += length
            return length
        }
    }

    /// The head is over; a body follows.
    mutating func beginBody(length: Int?) {
        part = length.map { .counted(left: $0) } ?? .chunked
        matched = 0
        overhead = 0
    }

    /// The last piece brought content.
    mutating func contentCame() {
        overhead = 0
    }

    /// The message is over; a head follows.
    mutating func beginHead() {
        part = .head
        matched = 0
        overhead = 0
    }

    /// The length up to and including the first empty line, or all that may be looked at.
    private mutating func lineEnd(in buffer: ByteBuffer, atMost limit: Int) -> Int {
        buffer.withUnsafeReadableBytes { all in
            let bytes = UnsafeRawBufferPointer(rebasing: all.prefix(limit))
            var index = 0
            while index < bytes.count {
                if matched == 0 {
                    // Most bytes are far from a line's end.
                    guard let start = bytes.baseAddress,
                        let found = memchr(start + index, 0x0D, bytes.count - index)
                    else { return bytes.count }
                    index = UnsafeRawPointer(found) - start + 1
                    matched = 1
                    continue
                }
                let byte = bytes[index]
                index += 1
                switch (byte, matched) {
                case (0x0D, 2): matched = 3
                case (0x0D, _): matched = 1
                case (0x0A, 1): matched = 2
                case (0x0A, 3):
                    matched = 0
                    return index
                default: matched = 0
                }
            }
            return bytes.count
        }
    }
}
