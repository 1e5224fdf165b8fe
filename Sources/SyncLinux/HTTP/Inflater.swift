import CSyncLinux

/// Opens gzip piece by piece, and stops before a limit is passed.
///
/// It is strict: the header, the checksum and the length of each member must be right, the last member must be whole, and no other bytes
/// may follow it. Several members in a row are one content (RFC 1952, section 2.2).
final class Inflater {
    private let maxBytes: Int
    private let maxRatio: Int
    /// State of zlib. zlib keeps a pointer to it, so it must not move.
    private let stream: UnsafeMutablePointer<z_stream>
    private let room: UnsafeMutableRawBufferPointer
    private var received = 0
    private var produced = 0
    private var isMemberOpen = false

    /// - Parameters:
    ///   - maxBytes: Limit of the decoded bytes.
    ///   - maxRatio: Limit of the decoded bytes for one received byte. Deflate itself reaches at most 1032.
    init(maxBytes: Int, maxRatio: Int) {
        self.maxBytes = maxBytes
        self.maxRatio = maxRatio
        stream = .allocate(capacity: 1)
        stream.initialize(to: z_stream())
        room = .allocate(byteCount: 32 << 10, alignment: 16)
        // 15 bits of window, the largest; 16 more mean "gzip only, and check it".
        let result = inflateInit2_(stream, 15 + 16, ZLIB_VERSION, Int32(MemoryLayout<z_stream>.size))
        // Another result means that the header does not fit the library, or that there is no memory, which stops a Swift program anyway.
        precondition(result == Z_OK, "inflateInit2: \(result)")
    }

    deinit {
        inflateEnd(stream)
        stream.deallocate()
        room.deallocate()
    }

    /// Decodes as much as these bytes allow. `take` gets pieces of at most 32 KiB, each within the limits.
    func feed(
        _ input: UnsafeRawBufferPointer, _ take: (UnsafeRawBufferPointer) -> Void
    ) throws(Refusal) {
        guard let start = input.baseAddress, !input.isEmpty else { return }
        received += input.count
        // zlib does not write through the pointer; its old interface only lacks the `const`.
        stream.pointee.next_in = UnsafeMutablePointer(mutating: start.assumingMemoryBound(to: UInt8.self))
        // Callers feed pieces of a network read or whole bodies of at most some MiB, so the count fits.
        stream.pointee.avail_in = UInt32(input.count)
        defer { stream.pointee.next_in = nil }

        while true {
            if !isMemberOpen {
                guard stream.pointee.avail_in > 0 else { return }
                // The state is fresh before the first member, and resetting it changes nothing.
                inflateReset(stream)
                isMemberOpen = true
            }
            stream.pointee.next_out = room.baseAddress?.assumingMemoryBound(to: UInt8.self)
            stream.pointee.avail_out = UInt32(room.count)
            let result = inflate(stream, Z_NO_FLUSH)
            let count = room.count - Int(stream.pointee.avail_out)
            if count > 0 {
                try account(for: count)
                take(UnsafeRawBufferPointer(rebasing: room[..<count]))
            }
            switch result {
            case Z_STREAM_END:
                isMemberOpen = false
            case Z_OK:
                // A full buffer may hide further output of input that zlib has already consumed.
                if stream.pointee.avail_in == 0, stream.pointee.avail_out > 0 { return }
            case Z_BUF_ERROR:
                // No progress is possible: the input is used up.
                return
            default:
                let words = stream.pointee.msg.map { String(cString: $0) } ?? "error \(result)"
                throw .malformed(
                    produced > 0 && stream.pointee.total_out == 0 ? "bytes after the end of gzip: \(words)" : "gzip: \(words)")
            }
        }
    }

    /// Checks that the content is whole. Call it after the last byte.
    func finish() throws(Refusal) {
        if received == 0 { throw .malformed("gzip: no byte of it") }
        if isMemberOpen { throw .malformed("gzip: cut off after \(received) bytes") }
    }

    private func account(for count: Int) throws(Refusal) {
        produced += count
        if produced > maxBytes { throw .tooLarge("more than \(maxBytes) bytes once decoded") }
        let (allowed, overflow) = received.multipliedReportingOverflow(by: maxRatio)
        if !overflow, produced > allowed {
            throw .tooLarge("\(received) bytes decode to more than \(maxRatio) times as many")
        }
    }
}

/// The reason why received bytes are not accepted.
enum Refusal: Error, Equatable {
    case tooLarge(String)
    case malformed(String)
}
