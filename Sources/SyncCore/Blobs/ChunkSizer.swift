/// How many bytes of a file go in one request (PROTOCOL H2).
///
/// Policy and budget are decided again between two of them, and a server that loses what it has not flushed loses no more
/// than one. So one should take a few seconds: four times as large after one that took less than 2 s, twice after one below
/// 5 s. After one that took more than 10 s it is what went in 10 s, and half at most; half after one that broke.
///
///     begins at 256 KiB; 16 KiB … 8 MiB
///
/// A proxy before the server may take no request above a size of its own and says so with 413: that is a ceiling, and pieces do
/// not grow into it again.
package struct ChunkSizer: Hashable, Sendable {
    package static let smallest = 16 << 10
    package static let first = 256 << 10
    package static let largest = 8 << 20
    package static let quick: Duration = .seconds(5)
    package static let slow: Duration = .seconds(10)
    private static let atOnce: Duration = .seconds(2)

    package private(set) var bytes = Self.first
    /// Bytes a second of the last whole one; `nil` before it.
    package private(set) var rate: Int?
    /// No piece is larger than this.
    package private(set) var ceiling: Int

    /// - Parameter ceiling: What is known of the way to the server, whatever link leads there.
    package init(ceiling: Int = Self.largest) {
        self.ceiling = ceiling
        bytes = min(bytes, ceiling)
    }

    /// A chunk was taken. One that was cut short by the file's end says little about a larger one.
    package mutating func sent(_ count: Int, in time: Duration) {
        let perSecond = min(Double(count) * 1e9 / Double(max(1, time.nanoseconds)), 1e12)
        if count >= Self.smallest { rate = Int(perSecond) }
        if time > Self.slow {
            let fitting = Int(perSecond * Double(Self.slow.milliseconds) / 1_000)
            bytes = max(Self.smallest, min(bytes / 2, fitting))
        } else if time < Self.quick, count >= bytes {
            bytes = min(ceiling, bytes * (time < Self.atOnce ? 4 : 2))
        }
    }

    /// It broke on its way, or the server took only a part of it.
    package mutating func broke() {
        bytes = max(Self.smallest, bytes / 2)
    }

    /// A request with so many bytes of the file is larger than what is let through (413).
    package mutating func wasTooLarge(_ count: Int) {
        ceiling = max(Self.smallest, min(ceiling, count / 2))
        bytes = min(bytes, ceiling)
    }

    /// On a link that is known to be slow the first piece is smaller.
    package mutating func limitFirst(to count: Int) {
        if rate == nil { bytes = max(Self.smallest, min(bytes, count)) }
    }

    /// So slow that several uploads beside each other would only hold each other up.
    package var isSlow: Bool { rate.map { $0 < 64 << 10 } ?? false }
}
