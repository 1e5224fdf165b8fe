import CSyncLinux
import SyncCore

/// Compressor for gzip with the system's zlib.
package struct ZlibCompressor: Compressor {
    package init() {}

    package func gzip(_ bytes: [UInt8]) -> [UInt8]? {
        // The buffer is smaller than the input, so that deflate itself reports when the result does not shrink.
        guard bytes.count > 1, bytes.count <= Int(UInt32.max) else { return nil }
        let stream = UnsafeMutablePointer<z_stream>.allocate(capacity: 1)
        stream.initialize(to: z_stream())
        defer { stream.deallocate() }
        // 15 bits of window and a gzip frame; 8 is zlib's usual memory (268 KB, given back here).
        guard
            deflateInit2_(
                stream, Self.level, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY, ZLIB_VERSION,
                Int32(MemoryLayout<z_stream>.size)) == Z_OK
        else { return nil }
        defer { deflateEnd(stream) }

        let output = [UInt8](unsafeUninitializedCapacity: bytes.count - 1) { room, filled in
            bytes.withUnsafeBufferPointer { input in
                stream.pointee.next_in = UnsafeMutablePointer(mutating: input.baseAddress)
                stream.pointee.avail_in = UInt32(input.count)
                stream.pointee.next_out = room.baseAddress
                stream.pointee.avail_out = UInt32(room.count)
                let result = deflate(stream, Z_FINISH)
                filled = result == Z_STREAM_END ? room.count - Int(stream.pointee.avail_out) : 0
            }
        }
        return output.isEmpty ? nil : output
    }

    package func gunzip(_ bytes: [UInt8], maxBytes: Int, maxRatio: Int) -> [UInt8]? {
        guard bytes.count <= Int(UInt32.max) else { return nil }
        let inflater = Inflater(maxBytes: maxBytes, maxRatio: maxRatio)
        var output: [UInt8] = []
        do throws(Refusal) {
            let fed: Result<Void, Refusal> = bytes.withUnsafeBytes { input in
                do throws(Refusal) {
                    return .success(try inflater.feed(input) { output.append(contentsOf: $0) })
                } catch {
                    return .failure(error)
                }
            }
            try fed.get()
            try inflater.finish()
            return output
        } catch {
            return nil
        }
    }

    /// Level 9 shrinks batches of mutations by 1 % more for three times the work.
    private static let level: Int32 = 6
}
