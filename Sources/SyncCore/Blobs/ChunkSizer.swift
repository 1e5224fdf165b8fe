/// How many bytes of a file go in one request (PROTOCOL H2).
///
/// Policy and budget are decided again between two of them, and a server that loses what it has not flushed loses no more
/// than one. So one should take a few seconds: doubled after one that took less than 5 s, halved after one that took more
/// than 10 s or broke.
///
///     unmetered: begins at 1 MiB, metered at 256 KiB; 128 KiB … 8 MiB
package struct ChunkSizer: Hashable, Sendable {
    package static let smallest = 128 << 10
    package static let largest = 8 << 20
    package static let quick: Duration = .seconds(5)
    package static let slow: Duration = .seconds(10)

    package private(set) var bytes: Int
    /// Bytes a second of the last whole one; `nil` before it.
    package private(set) var rate: Int?

    package init(isMetered: Bool) {
        bytes = isMetered ? 256 << 10 : 1 << 20
    }

    /// A chunk was taken. One that was cut short by the file's end says little about a larger one.
    package mutating func sent(_ count: Int, in time: Duration) {
        let nanoseconds = max(1, time.nanoseconds)
        if count >= Self.smallest { rate = Int(min(Double(count) * 1e9 / Double(nanoseconds), 1e12)) }
        if time > Self.slow {
            bytes = max(Self.smallest, bytes / 2)
        } else if time < Self.quick, count >= bytes {
            bytes = min(Self.largest, bytes * 2)
        }
    }

    /// It broke on its way, or the server finds it too large.
    package mutating func broke() {
        bytes = max(Self.smallest, bytes / 2)
    }

    /// So slow that several uploads beside each other would only hold each other up.
    package var isSlow: Bool { rate.map { $0 < 64 << 10 } ?? false }
}
