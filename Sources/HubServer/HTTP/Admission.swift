package import SyncCore

/// Limits the load that the hub accepts at one time (PROTOCOL G4).
///
/// Only requests of authenticated callers take a place; public endpoints are answered without one. One device has a limited share, so that
/// a faulty device or a stolen token delays only itself.
///
/// A fleet that returns after an outage asks all at once. Requests beyond the limit are refused at once, with a `Retry-After` that differs
/// for each: the time to serve those that wait, plus a random part, so that they do not return as a wave. Pushes store work safely and come
/// first; listings can wait longest.
///
/// A pull that may wait for news is in no hurry, and after a commit all devices of a fleet send one. Such pulls need no place: each holds a
/// connection, of which the hub has a limited number, and their bodies are limited together.
package struct Admission: Sendable {
    /// Admitted requests with a place, from head to answer, and the largest total size of their bodies, bytes.
    package private(set) var requests = 0
    private var bytes = 0
    /// Admitted pulls that may wait, and the largest total size of their bodies, bytes.
    private var patient = (requests: 0, bytes: 0)
    private var byDevice: [DeviceID: Share] = [:]
    /// Served requests per second, as a moving average.
    private(set) var rate = 200.0
    private var random: SeededRandom

    /// Beyond these limits memory and waiting times grow, and no request is served sooner.
    static let requestsMax = 256
    static let bytesMax = 128 << 20
    /// Ten thousand pulls of thirty entities.
    static let patientBytesMax = 64 << 20
    /// The limit of one device. An agent has four requests at most: a cycle, two files and a probe of the operator.
    package static let deviceRequestsMax = 16
    static let deviceBytesMax = 32 << 20
    /// The longest `Retry-After`, seconds.
    static let waitMax = 300

    package init(random: SeededRandom) {
        self.random = random
    }

    /// A request that asks to be admitted.
    package struct Request: Sendable {
        package var device: DeviceID
        /// 0 is admitted while there is room at all, 1 in the first three quarters of it, 2 in the first half.
        package var rank: Int
        /// The largest size that its body may need.
        package var bytes: Int
        /// It is a pull that may wait for news.
        package var isPatient: Bool

        package init(_ device: DeviceID, rank: Int, bytes: Int, isPatient: Bool = false) {
            (self.device, self.rank, self.bytes, self.isPatient) = (device, rank, bytes, isPatient)
        }
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

    package mutating func admit(_ request: Request) -> Verdict {
        let own = byDevice[request.device] ?? Share()
        guard own.requests < Self.deviceRequestsMax, own.requests == 0 || own.bytes + request.bytes <= Self.deviceBytesMax else {
            return .deviceRefused(seconds: waitingTime(behind: own.requests))
        }
        guard hasRoom(for: request) else {
            return .refused(seconds: waitingTime(behind: requests + (request.isPatient ? patient.requests : 0)))
        }
        count(request, 1)
        byDevice[request.device] = Share(requests: own.requests + 1, bytes: own.bytes + request.bytes)
        return .admitted
    }

    private func hasRoom(for request: Request) -> Bool {
        if request.isPatient { return patient.bytes + request.bytes <= Self.patientBytesMax }
        let share = [1.0, 0.75, 0.5][min(max(request.rank, 0), 2)]
        // A single request always fits, because the limit of a body is lower.
        let isHeavy = requests > 0 && Double(bytes + request.bytes) > share * Double(Self.bytesMax)
        return Double(requests) < share * Double(Self.requestsMax) && !isHeavy
    }

    private mutating func count(_ request: Request, _ sign: Int) {
        if request.isPatient {
            patient.requests += sign
            patient.bytes += sign * request.bytes
        } else {
            requests += sign
            bytes += sign * request.bytes
        }
    }

    private mutating func waitingTime(behind requests: Int) -> Int {
        let turn = (Double(requests) / max(rate, 0.1)).rounded(.up)
        let spread = (random.fraction() * 10).rounded(.down)
        return max(1, Int(min(turn + spread, Double(Admission.waitMax))))
    }

    /// Releases the room of a request that ``admit(_:)`` admitted.
    package mutating func release(_ request: Request) {
        count(request, -1)
        guard let own = byDevice[request.device] else { preconditionFailure("a place of \(request.device) was given back twice") }
        byDevice[request.device] = own.requests == 1 ? nil : Share(requests: own.requests - 1, bytes: own.bytes - request.bytes)
    }

    package mutating func served(_ count: Int, in time: Duration) {
        let seconds = max(Double(time.nanoseconds) / 1e9, 1e-6)
        // Weighted by the number of requests: a hundred at once are better evidence than one.
        let weight = min(Double(count) / 50, 0.5)
        rate += (Double(count) / seconds - rate) * weight
    }
}
