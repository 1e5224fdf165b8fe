/// Chooses the number of bytes of a file in one request (PROTOCOL H2).
///
/// Policy and budget are asked again between two pieces, and a server that loses unflushed bytes loses no more than one piece. So a piece
/// should take a few seconds: it becomes four times as large after one that took less than 2 s, twice as large after one below 5 s. After
/// one that took more than 10 s, it is the amount of 10 s, and half at most; it is half after one that broke.
///
///     begins at 256 KiB; 16 KiB … 8 MiB
///
/// A proxy before the server may refuse requests above a size of its own with 413: that is a ceiling, and pieces do not grow beyond it
/// again.
package struct ChunkSizer: Hashable, Sendable {
    package static let smallest = 16 << 10
    package static let first = 256 << 10
    package static let largest = 8 << 20
    package static let quick: Duration = .seconds(5)
    package static let slow: Duration = .seconds(10)
    private static let atOnce: Duration = .seconds(2)

    package private(set) var bytes = Self.first
    /// Rate of the last complete piece, bytes per second; `nil` before it.
    package private(set) var rate: Int?
    /// Largest size of a piece, bytes.
    package private(set) var ceiling: Int

    /// - Parameter ceiling: The known ceiling of the way to the server, whatever link leads there.
    package init(ceiling: Int = Self.largest) {
        self.ceiling = ceiling
        bytes = min(bytes, ceiling)
    }

    /// Records an accepted piece. A piece that was cut short by the end of the file says little about a larger one.
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

    /// Records a piece that broke on its way, or that the server accepted only in part.
    package mutating func broke() {
        bytes = max(Self.smallest, bytes / 2)
    }

    /// Records that a request with this many bytes of the file is larger than allowed (413).
    package mutating func wasTooLarge(_ count: Int) {
        ceiling = max(Self.smallest, min(ceiling, count / 2))
        bytes = min(bytes, ceiling)
    }

    /// Makes the first piece smaller on a link that is known to be slow.
    package mutating func limitFirst(to count: Int) {
        if rate == nil { bytes = max(Self.smallest, min(bytes, count)) }
    }

    /// `true` when the link is so slow that parallel uploads would only delay each other.
    package var isSlow: Bool { rate.map { $0 < 64 << 10 } ?? false }
}
