package import SyncCore

/// How much the hub takes on at one time (PROTOCOL G4).
///
/// Only requests of callers that have shown who they are have a place: what anybody may ask is answered without one. One device
/// has a part of them only, so that a device that runs wild, or whose token was stolen, stands in nobody's way but its own.
///
/// A fleet that comes back after an outage asks all at once. What is beyond the limit is refused at once, with a time to come
/// back that is different for each: as long as it takes to serve those that wait, and a random part on top, so that they
/// do not return as a wave. Pushes bring work into safety and come first; listings can wait longest.
package struct Admission: Sendable {
    /// Requests from their head to their answer, and the bodies that they may have.
    package private(set) var requests = 0
    private(set) var bytes = 0
    private var byDevice: [DeviceID: Share] = [:]
    /// Requests served a second of work, as a moving average.
    private(set) var rate = 200.0
    private var random: SeededRandom

    /// Beyond this, memory and waiting times grow without anybody being served sooner.
    static let requestsMax = 256
    static let bytesMax = 128 << 20
    /// Of one device. An agent has four at most: a cycle, two files and a probe of the operator.
    package static let deviceRequestsMax = 16
    static let deviceBytesMax = 32 << 20
    /// The longest time that a device is sent away for.
    static let waitMax = 300

    package init(random: SeededRandom) {
        self.random = random
    }

    package enum Verdict: Equatable, Sendable {
        case admitted
        /// Come back after so many seconds.
        case refused(seconds: Int)
        /// The same, because of what this device alone asks.
        case deviceRefused(seconds: Int)
    }

    private struct Share {
        var requests = 0
        var bytes = 0
    }

    /// Takes a request on, or refuses it.
    ///
    /// - Parameters:
    ///   - rank: 0 comes in while there is room at all, 1 in the first three quarters of it, 2 in the first half.
    ///   - bytes: What its body may need at most.
    ///   - device: Who asks.
    package mutating func take(rank: Int, bytes: Int, of device: DeviceID) -> Verdict {
        let own = byDevice[device] ?? Share()
        guard own.requests < Self.deviceRequestsMax, own.requests == 0 || own.bytes + bytes <= Self.deviceBytesMax else {
            return .deviceRefused(seconds: waitingTime(behind: own.requests))
        }
        let share = [1.0, 0.75, 0.5][min(max(rank, 0), 2)]
        let isFull = Double(requests) >= share * Double(Admission.requestsMax)
        // A single request always fits, whatever its size: it is below the limit of a body.
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

    /// Gives back what ``take(rank:bytes:of:)`` took.
    package mutating func release(bytes: Int, of device: DeviceID) {
        requests -= 1
        self.bytes -= bytes
        guard let own = byDevice[device] else { preconditionFailure("a place of \(device) was given back twice") }
        byDevice[device] = own.requests == 1 ? nil : Share(requests: own.requests - 1, bytes: own.bytes - bytes)
    }

    package mutating func served(_ count: Int, in time: Duration) {
        let seconds = max(Double(time.nanoseconds) / 1e9, 1e-6)
        // Weighed by the number of requests: a hundred in one go say more than one.
        let weight = min(Double(count) / 50, 0.5)
        rate += (Double(count) / seconds - rate) * weight
    }
}
