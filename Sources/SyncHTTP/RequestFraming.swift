import Glibc
import NIOCore

/// Finds the end of a message before the parser sees the bytes.
///
/// NIO's parser consumes all given bytes, and turns a read full of pipelined requests into objects at once. Requests must be answered one
/// at a time without holding hundreds of parsed ones. Bytes therefore go to the parser in pieces that never reach past the end of a head or
/// of a message. Finding these ends takes no second parser: a head and a chunked body both end with an empty line, wherever else one may
/// occur, and a body of known length is counted. An extra cut does no harm.
struct RequestFraming {
    private enum Part {
        case head
        case counted(left: Int)
        case chunked
    }

    /// The longest piece, bytes: a usual read. More is available only when the client has closed its side.
    static let longestPiece = 64 << 10

    private var part = Part.head
    /// Number of bytes of CR LF CR LF at the end of the pieces so far.
    private var matched = 0
    /// Bytes of the head so far or, in a chunked body, since the last piece with content: they cost, but carry nothing.
    private(set) var overhead = 0

    /// Bytes of the body still to come; `nil` when only its end will tell.
    var bodyBytesLeft: Int? {
        if case .counted(let left) = part { left } else { nil }
    }

    /// The number of readable bytes in the next piece.
    ///
    /// - Parameter limit: Largest value of ``overhead``. A piece never raises it above; a result of 0 means that it is reached.
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

    /// The length up to and including the first empty line, or of all bytes within the limit.
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
