import Glibc
package import SyncCore

/// Holds the transfers of one link together to so many bytes a second, in each direction.
///
/// libcurl's own limit counts per transfer, and per transfer it lets through at once what its socket has: an answer that fits into the
/// kernel's buffers comes as fast as the link goes, and the next one after it. Here the bytes that TCP has counted are taken from a level
/// that fills with the rate. What came too early is a debt: nothing goes on, and no further transfer begins, until it is paid. So the
/// average holds over any number of transfers, and what can come too early is one buffer (``bufferBytes(at:)``).
///
///     1,000 bytes a second: 250 may go at once; after 1,250 nothing goes for a second
package struct RateLimiter {
    private struct Level {
        /// Bytes times 10^9 that may move now, so that no fraction gets lost. Below zero: so many have moved too early.
        var value: Int64 = 0

        mutating func fill(_ rate: Int64, for nanoseconds: Int64, upTo full: Int64) {
            value = min(full, value.saturatingAdd(nanoseconds.saturatingMultiply(rate)))
        }

        mutating func take(_ bytes: Int) {
            value = max(-.max, value.saturatingAdd(-(Int64(clamping: max(0, bytes)).saturatingMultiply(1_000_000_000))))
        }

        /// Nanoseconds until it is open; 0 when it is.
        func wait(_ rate: Int64) -> Int64 { value >= 0 ? 0 : (0 - value) / rate + 1 }
    }

    /// Bytes per second; `nil` until a request with a rate has come.
    package private(set) var rate: Int?
    private var up = Level()
    private var down = Level()
    private var filledAt = Instant(nanoseconds: 0)

    package init() {}

    /// From now on it is this rate. A debt stays.
    package mutating func use(_ rate: Int, now: Instant) {
        let rate = max(1, rate)
        guard rate != self.rate else { return }
        if self.rate == nil { filledAt = now } else { fill(now: now) }
        self.rate = rate
    }

    /// What moved since the last call, headers of TCP and IP with it.
    package mutating func moved(up: Int, down: Int, now: Instant) {
        fill(now: now)
        self.up.take(up)
        self.down.take(down)
    }

    package mutating func fill(now: Instant) {
        guard let rate else { return }
        let rate64 = Int64(rate)
        let passed = max(0, filledAt.duration(to: now).nanoseconds)
        filledAt = max(filledAt, now)
        // A quarter of a second's worth.
        let full = rate64.saturatingMultiply(250_000_000)
        up.fill(rate64, for: passed, upTo: full)
        down.fill(rate64, for: passed, upTo: full)
    }

    package var isOpenUp: Bool { up.value >= 0 }
    package var isOpenDown: Bool { down.value >= 0 }
    package var isOpen: Bool { isOpenUp && isOpenDown }

    /// When the first direction that is closed opens again, as of the last ``fill(now:)``; `nil`: none is.
    package var opensAt: Instant? {
        guard let rate, !isOpen else { return nil }
        let waits = [up.wait(Int64(rate)), down.wait(Int64(rate))].filter { $0 > 0 }
        return waits.min().map { filledAt.advanced(by: .nanoseconds($0)) }
    }

    /// Of the kernel, for what may be on its way: enough for round trips of half a second.
    package static func bufferBytes(at rate: Int) -> Int { min(max(rate / 5 * 3, 4 << 10), 4 << 20) }
}

/// The rate of the link, as the transfers of one ``CurlLoop`` share it. Only used on the loop's thread.
final class RateGate {
    var limiter = RateLimiter()

    private var rate: Int { limiter.rate ?? .max }

    /// So much is read or sent before the counters are looked at again: a twentieth of a second, where curl allows that.
    var chunk: Int { min(max(rate / 20, 1 << 10), 16 << 10) }

    /// What was limited by ``limit(_:)`` leaves as fast as it goes again, through the same buffers.
    static func release(_ socket: Int32) { pace(socket, at: .max) }

    private static func pace(_ socket: Int32, at rate: Int) {
        var rate = UInt32(clamping: rate)
        _ = setsockopt(socket, SOL_SOCKET, SO_MAX_PACING_RATE, &rate, socklen_t(MemoryLayout<UInt32>.size))
    }

    /// Before it is connected, so that the peer learns of the buffer. Where the kernel refuses, more comes too early.
    func limit(_ socket: Int32) {
        // What the kernel has to send leaves evenly.
        Self.pace(socket, at: rate)
        for option in [SO_RCVBUF, SO_SNDBUF] {
            var bytes = Int32(clamping: RateLimiter.bufferBytes(at: rate))
            _ = setsockopt(socket, SOL_SOCKET, option, &bytes, socklen_t(MemoryLayout<Int32>.size))
        }
    }
}
