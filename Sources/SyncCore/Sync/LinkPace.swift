/// How much content goes into one request, in one direction, over a link whose speed nobody tells.
///
/// Whatever is sent in one piece holds up what is more urgent, and is lost whole when the link breaks: so one request should take
/// some seconds, on a line of 9.6 kbit/s as on a fast one. It begins small and grows fourfold while answers are quick, which
/// costs a fast link three more requests. A slow answer sets the size by the rate that was measured; a request that broke while
/// its bytes were moving quarters it.
///
///     9.6 kbit/s, 64 KiB at first: one answer after 55 s, from then on some 12 KB in 10 s
package struct TransferSizer: Hashable, Sendable {
    /// Below it the heads of a request and its answer would cost more than a tenth.
    package static let smallest = 4 << 10
    package static let first = 64 << 10
    package static let quick: Duration = .seconds(2)
    /// The longest that one request should take.
    package static let aim: Duration = .seconds(10)
    /// Bytes that say something about the rate; with fewer the way there and back does.
    private static let telling = 2 << 10

    package let largest: Int
    package private(set) var bytes = Self.first
    /// Bytes of content a second, of the last request that tells; `nil` before it.
    package private(set) var rate: Int?

    package init(largest: Int) {
        self.largest = largest
    }

    /// A request was answered.
    ///
    /// - Parameters:
    ///   - count: Bytes of content that went this way, before compression.
    ///   - time: From its beginning to the end of its answer.
    package mutating func moved(_ count: Int, in time: Duration) {
        guard count >= Self.telling else { return }
        let perSecond = Double(count) * 1e9 / Double(max(1, time.nanoseconds))
        rate = Int(min(perSecond, 1e12))
        if time > Self.aim {
            bytes = min(bytes, max(Self.smallest, Int(min(perSecond * Double(Self.aim.milliseconds) / 1_000, 1e12))))
        } else if count >= bytes / 2 {
            // One that was not nearly full says little about a larger one.
            let factor = time < Self.quick ? 4 : time < Self.aim / 2 ? 2 : 1
            bytes = min(largest, bytes * factor)
        }
    }

    /// A request ended without an answer although its bytes were moving, or did not arrive in time.
    package mutating func broke() {
        bytes = max(Self.smallest, bytes / 4)
    }
}

/// What was measured on the present link, both ways. Nothing of it is worth anything on another one.
package struct LinkPace: Hashable, Sendable {
    /// Pages of records.
    package var down = TransferSizer(largest: Limits.pullBytes)
    /// Batches of mutations.
    package var up = TransferSizer(largest: Limits.batchBytesMax)

    package init() {}

    /// Bytes of the heads around a request and an answer: fewer say that nothing of the content moved.
    private static let heads = 1 << 10

    /// A request that was under way got no answer.
    package mutating func broke(_ code: TransportError.Code, isReading: Bool, _ traffic: Traffic) {
        switch code {
        case .timedOut, .broken:
            if isReading {
                if traffic.down > Self.heads { down.broke() }
            } else if traffic.up > Self.heads {
                up.broke()
            }
        case .unresolved, .unreachable, .untrusted, .untrustedDate, .clientCertificate, .tooLarge, .malformed, .credentials, .cancelled:
            break
        }
    }

    /// The longest time that a request may take in all. Silence is noticed much earlier; this ends a peer that gives a byte now
    /// and then, and must not end a line of 9.6 kbit/s over a record of the largest size.
    ///
    /// - Parameters:
    ///   - bytes: Content of the request and of its answer, before compression.
    ///   - rate: Bytes a second that were measured that way; an eighth of it is slow.
    package static func timeLimit(for bytes: Int, rate: Int? = nil) -> Duration {
        .seconds(120) + .milliseconds(Int64(bytes) * 1_000 / max(slowest, Int64(rate ?? 0) / 8))
    }

    /// Bytes a second; half of a line of 9.6 kbit/s.
    private static let slowest: Int64 = 512
}
