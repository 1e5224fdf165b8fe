/// Whether a request body goes out gzipped (PROTOCOL A9).
///
/// A server that cannot read it says 415; some answer 400 instead. Either way the same request goes once more as it is,
/// and when that helped, gzip stays off for a day.
package struct RequestCoding: Hashable, Sendable {
    /// Bodies larger than this are worth compressing.
    package var compressOver: Int
    private var isOffUntil: Instant?

    package init(compressOver: Int) {
        self.compressOver = compressOver
    }

    package func compresses(_ byteCount: Int, now: Instant) -> Bool {
        byteCount > compressOver && isOffUntil.map { $0 <= now } ?? true
    }

    /// Whether an answer to a gzipped request calls for the same request uncompressed.
    package func shouldRepeatPlain(status: Int) -> Bool {
        status == 415 || status == 400
    }

    /// The answer to the plain repeat.
    package mutating func repeatedPlain(status: Int, now: Instant) {
        if status != 415, status != 400 { isOffUntil = now.advanced(by: .seconds(24 * 3600)) }
    }
}
