/// Chooses the amount of content in one request, in one direction, over a link of unknown speed.
///
/// A piece that is sent delays more urgent work, and is lost as a whole when the link breaks. So one request should take some seconds, on a
/// line of 9.6 kbit/s as on a fast one. The size begins small and grows fourfold while answers are quick, which costs a fast link three
/// more requests. A slow answer sets the size by the measured rate. A request that broke while its bytes were moving divides it by four.
///
///     9.6 kbit/s, 64 KiB at first: one answer after 55 s, from then on some 12 KB in 10 s
package struct TransferSizer: Hashable, Sendable {
    /// Smallest size, bytes. Below it, the heads of a request and its answer would be more than a tenth of the traffic.
    package static let smallest = 4 << 10
    package static let first = 64 << 10
    package static let quick: Duration = .seconds(2)
    /// Longest time that one request should take.
    package static let aim: Duration = .seconds(10)
    /// Bytes from which on a request shows the rate; with fewer, the round trip dominates.
    private static let telling = 2 << 10

    package let largest: Int
    package private(set) var bytes = Self.first
    /// Rate of the last request that was large enough, bytes of content per second; `nil` before it.
    package private(set) var rate: Int?

    package init(largest: Int) {
        self.largest = largest
    }

    /// Records an answered request.
    ///
    /// - Parameters:
    ///   - count: Bytes of content in this direction, before compression.
    ///   - time: Time from the start of the request to the end of its answer.
    package mutating func moved(_ count: Int, in time: Duration) {
        guard count >= Self.telling else { return }
        let perSecond = Double(count) * 1e9 / Double(max(1, time.nanoseconds))
        rate = Int(min(perSecond, 1e12))
        if time > Self.aim {
            bytes = min(bytes, max(Self.smallest, Int(min(perSecond * Double(Self.aim.milliseconds) / 1_000, 1e12))))
        } else if count >= bytes / 2 {
            // A request that was not nearly full says little about a larger one.
            let factor = time < Self.quick ? 4 : time < Self.aim / 2 ? 2 : 1
            bytes = min(largest, bytes * factor)
        }
    }

    /// Records a request that ended without an answer although its bytes were moving, or that did not arrive in time.
    package mutating func broke() {
        bytes = max(Self.smallest, bytes / 4)
    }
}

/// Measurements of the present link in both directions. They have no meaning for another link.
package struct LinkPace: Hashable, Sendable {
    /// Pages of records.
    package var down = TransferSizer(largest: Limits.pullBytes)
    /// Batches of mutations.
    package var up = TransferSizer(largest: Limits.batchBytesMax)

    package init() {}

    /// Size of the heads around a request and an answer, bytes. With fewer bytes, no content has moved.
    private static let heads = 1 << 10

    /// Records that a running request got no answer.
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

    /// Longest total time of a request. Silence is noticed much earlier. This limit ends a peer that sends a byte now and then; it must not
    /// end the transfer of a record of the largest size over a line of 9.6 kbit/s.
    ///
    /// - Parameters:
    ///   - bytes: Size of the content of the request and of its answer, before compression.
    ///   - rate: Measured rate in that direction, bytes per second; an eighth of it counts as slow.
    package static func timeLimit(for bytes: Int, rate: Int? = nil) -> Duration {
        .seconds(120) + .milliseconds(Int64(bytes) * 1_000 / max(slowest, Int64(rate ?? 0) / 8))
    }

    /// Slowest assumed rate, bytes per second: half of a line of 9.6 kbit/s.
    private static let slowest: Int64 = 512
}
