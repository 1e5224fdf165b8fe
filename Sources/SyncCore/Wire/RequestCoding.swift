/// The decision whether a request body is compressed with gzip (PROTOCOL A9).
///
/// A server that cannot read it answers 415; some answer 400 instead. In both cases the same request is sent once more uncompressed, and
/// when that succeeds, gzip stays off for a day.
package struct RequestCoding: Hashable, Sendable {
    /// Size above which bodies are worth compressing, bytes.
    package var compressOver: Int
    private var isOffUntil: Instant?

    package init(compressOver: Int) {
        self.compressOver = compressOver
    }

    package func compresses(_ byteCount: Int, now: Instant) -> Bool {
        byteCount > compressOver && isOffUntil.map { $0 <= now } ?? true
    }

    /// Returns whether an answer to a gzipped request calls for the same request uncompressed.
    package func shouldRepeatPlain(status: Int) -> Bool {
        status == 415 || status == 400
    }

    /// Records the answer to the plain repeat.
    package mutating func repeatedPlain(status: Int, now: Instant) {
        if status != 415, status != 400 { isOffUntil = now.advanced(by: .seconds(24 * 3600)) }
    }
}
