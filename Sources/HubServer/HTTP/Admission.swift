package import SyncCore

/// Limits the load that the hub accepts at one time (PROTOCOL G4).
///
/// Only requests of authenticated callers take a place; public endpoints are answered without one. One device has a limited share, so that
/// a faulty device or a stolen token delays only itself.
///
/// A fleet that returns after an outage asks all at once. Requests beyond the limit are refused at once, with a `Retry-After` that differs
/// for each: the time to serve those that wait, plus a random part, so that they do not return as a wave. Pushes store work safely and come
/// first; listings can wait longest.
package struct Admission: Sendable {
    /// Admitted requests, from head to answer, and the largest total size of their bodies, bytes.
    package private(set) var requests = 0
    private(set) var bytes = 0
    private var byDevice: [DeviceID: Share] = [:]
    /// Served requests per second, as a moving average.
    private(set) var rate = 200.0
    private var random: SeededRandom

    /// Beyond these limits memory and waiting times grow, and no request is served sooner.
    static let requestsMax = 256
    static let bytesMax = 128 << 20
    /// The limit of one device. An agent has four requests at most: a cycle, two files and a probe of the operator.
    package static let deviceRequestsMax = 16
    static let deviceBytesMax = 32 << 20
    /// The longest `Retry-After`, seconds.
    static let waitMax = 300

    package init(random: SeededRandom) {
        self.random = random
    }

    package enum Verdict: Equatable, Sendable {
        case admitted
        /// Refused because of the total load; the client comes back after this time.
        case refused(seconds: Int)
        /// Refused because of the load of this device alone.
        case deviceRefused(seconds: Int)
    }

    private struct Share {
        var requests = 0
        var bytes = 0
    }

    /// Admits a request or refuses it.
    ///
    /// - Parameters:
    ///   - rank: 0 is admitted while there is room at all, 1 in the first three quarters of it, 2 in the first half.
    ///   - bytes: Largest size that its body may need.
    ///   - device: The calling device.
    package mutating func admit(rank: Int, bytes: Int, of device: DeviceID) -> Verdict {
        let own = byDevice[device] ?? Share()
        guard own.requests < Self.deviceRequestsMax, own.requests == 0 || own.bytes + bytes <= Self.deviceBytesMax else {
            return .deviceRefused(seconds: waitingTime(behind: own.requests))
        }
        let share = [1.0, 0.75, 0.5][min(max(rank, 0), 2)]
        let isFull = Double(requests) >= share * Double(Admission.requestsMax)
        // A single request always fits, because the limit of a body is lower.
        let isHeavy = requests > 0 && Double(self.bytes + bytes) > share * Double(Admission.bytesMax)
        guard !isFull, !isHeavy else {
            return .refused(seconds: waitingTime(behind: requests))
        }
        requests += 1
        self.bytes += bytes
        byDevice[device] = Share(requests: own.requests + 1, bytes: own.bytes + bytes)
        return .admitted
    }

    private mutating func waitingTime(behind requests: Int) -> Int {
        let turn = (Double(requests) / max(rate, 0.1)).rounded(.up)
        let spread = (random.fraction() * 10).rounded(.down)
        return max(1, Int(min(turn + spread, Double(Admission.waitMax))))
    }

    /// Releases a place that ``admit(rank:bytes:of:)`` admitted.
    package mutating func release(bytes: Int, of device: DeviceID) {
        requests -= 1
        self.bytes -= bytes
        guard let own = byDevice[device] else { preconditionFailure("a place of \(device) was given back twice") }
        byDevice[device] = own.requests == 1 ? nil : Share(requests: own.requests - 1, bytes: own.bytes - bytes)
    }

    package mutating func served(_ count: Int, in time: Duration) {
        let seconds = max(Double(time.nanoseconds) / 1e9, 1e-6)
        // Weighted by the number of requests: a hundred at once are better evidence than one.
        let weight = min(Double(count) / 50, 0.5)
        rate += (Double(count) / seconds - rate) * weight
    }
}
