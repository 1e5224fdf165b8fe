import Glibc
package import SyncCore

/// Limits the transfers of one link together to a number of bytes per second, in each direction.
///
/// libcurl's own limit counts per transfer, and lets through at once what the socket of a transfer holds. An answer that fits into the
/// kernel's buffers then comes as fast as the link goes, and the next one follows at once. Here the bytes that TCP has counted are
/// subtracted from a level that fills with the rate. Bytes that came too early are a debt: transfers pause, and no further transfer begins,
/// until it is paid. Therefore the average holds over any number of transfers, and at most one buffer can come too early
/// (``bufferBytes(at:)``).
///
///     1,000 bytes a second: 250 may go at once; after 1,250 nothing goes for a second
package struct RateLimiter {
    private struct Level {
        /// Bytes times 10^9 that may move now, so that no fraction gets lost. A value below zero is the number that has moved too early.
        var value: Int64 = 0

        mutating func fill(_ rate: Int64, for nanoseconds: Int64, upTo full: Int64) {
            value = min(full, value.saturatingAdd(nanoseconds.saturatingMultiply(rate)))
        }

        mutating func consume(_ bytes: Int) {
            value = max(-.max, value.saturatingAdd(-(Int64(clamping: max(0, bytes)).saturatingMultiply(1_000_000_000))))
        }

        /// Nanoseconds until it is open; 0 when it is open.
        func wait(_ rate: Int64) -> Int64 { value >= 0 ? 0 : (0 - value) / rate + 1 }
    }

    /// Rate in bytes per second; `nil` until a request with a rate has come.
    package private(set) var rate: Int?
    private var up = Level()
    private var down = Level()
    private var filledAt = Instant(nanoseconds: 0)

    package init() {}

    /// Sets the rate from now on. A debt stays.
    package mutating func use(_ rate: Int, now: Instant) {
        let rate = max(1, rate)
        guard rate != self.rate else { return }
        if self.rate == nil { filledAt = now } else { fill(now: now) }
        self.rate = rate
    }

    /// Charges the bytes that moved since the last call, headers of TCP and IP included.
    package mutating func moved(up: Int, down: Int, now: Instant) {
        fill(now: now)
        self.up.consume(up)
        self.down.consume(down)
    }

    package mutating func fill(now: Instant) {
        guard let rate else { return }
        let rate64 = Int64(rate)
        let passed = max(0, filledAt.duration(to: now).nanoseconds)
        filledAt = max(filledAt, now)
        // The level holds at most the bytes of a quarter of a second.
        let full = rate64.saturatingMultiply(250_000_000)
        up.fill(rate64, for: passed, upTo: full)
        down.fill(rate64, for: passed, upTo: full)
    }

    package var isOpenUp: Bool { up.value >= 0 }
    package var isOpenDown: Bool { down.value >= 0 }
    package var isOpen: Bool { isOpenUp && isOpenDown }

    /// Time at which the first closed direction opens again, as of the last ``fill(now:)``; `nil` when none is closed.
    package var opensAt: Instant? {
        guard let rate, !isOpen else { return nil }
        let waits = [up.wait(Int64(rate)), down.wait(Int64(rate))].filter { $0 > 0 }
        return waits.min().map { filledAt.advanced(by: .nanoseconds($0)) }
    }

    /// Size of the kernel's buffers, bytes: enough for round trips of half a second.
    package static func bufferBytes(at rate: Int) -> Int { min(max(rate / 5 * 3, 4 << 10), 4 << 20) }
}

/// The rate of the link, shared by the transfers of one ``CurlLoop``. Used only on the loop's thread.
final class RateGate {
    var limiter = RateLimiter()

    private var rate: Int { limiter.rate ?? .max }

    /// Bytes to read or send before the counters are checked again: the bytes of a twentieth of a second, where curl allows that.
    var chunk: Int { min(max(rate / 20, 1 << 10), 16 << 10) }

    /// Removes the limit of ``limit(_:)``: data leaves as fast as the link allows again, through the same buffers.
    static func release(_ socket: Int32) { pace(socket, at: .max) }

    private static func pace(_ socket: Int32, at rate: Int) {
        var rate = UInt32(clamping: rate)
        _ = setsockopt(socket, SOL_SOCKET, SO_MAX_PACING_RATE, &rate, socklen_t(MemoryLayout<UInt32>.size))
    }

    /// Limits a socket before it is connected, so that the peer learns of the buffer size. Where the kernel refuses, more bytes come too
    /// early.
    func limit(_ socket: Int32) {
        // The kernel spreads its sending evenly.
        Self.pace(socket, at: rate)
        for option in [SO_RCVBUF, SO_SNDBUF] {
            var bytes = Int32(clamping: RateLimiter.bufferBytes(at: rate))
            _ = setsockopt(socket, SOL_SOCKET, option, &bytes, socklen_t(MemoryLayout<Int32>.size))
        }
    }
}
