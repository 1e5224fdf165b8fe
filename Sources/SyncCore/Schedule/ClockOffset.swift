/// Estimates the offset of the hub's clock from ours by the `Sync-Time` of its answers (PROTOCOL A11).
///
/// Each answer gives one sample with an error of half its round trip; the one with the shortest round trip of the last eight counts (the
/// clock filter of NTP). Samples relate the hub's time to `CLOCK_BOOTTIME`, so that neither a step of the wall clock nor a suspend
/// invalidates them.
///
/// An answer may be wrong (`ClockRule.swift`). A time that is not plausible is dropped. A time that is more than ``HybridClock/aheadMax``
/// away from the known time is doubted. It counts when more answers in a row agree with it than agreed with the known time, which are at
/// most ``agreeingMax``, and one more. Against that many they must also span ``doubtMin``, so that one cycle with a faulty hub is not
/// enough. The known time comes, in this order, from the answers before, from the wall clock while the kernel reports it as synchronised,
/// or from the anchor of an earlier process. Where no time is known, the first answer counts, and a second and third that agree with each
/// other correct it.
package struct ClockOffset: Hashable, Sendable {
    package struct Sample: Hashable, Sendable {
        /// The hub's time minus boot time, milliseconds.
        package var difference: Int64
        package var error: Duration
    }

    /// The verdict about the time in one answer.
    package enum Verdict: Hashable, Sendable {
        case accepted
        /// Outside ``Timestamp/plausible``.
        case implausible(Timestamp)
        /// Too far from the known time; `ahead` is negative when the hub is behind.
        case doubted(Timestamp, ahead: Duration)
    }

    /// Invariant: consecutive samples agree with each other within ``HybridClock/aheadMax``.
    private var samples: [Sample] = []
    /// Number of answers that agreed with ``samples``, up to ``agreeingMax``.
    private var agreeing = 0
    /// The latest answers in a row that agree with each other but not with ``samples``.
    private var doubted: [Sample] = []
    private var doubtedSince = Instant(nanoseconds: 0)
    /// The ``ClockAnchor/difference`` that an earlier process of this boot stored.
    private let prior: Int64?

    package static let samplesMax = 8
    package static let agreeingMax = 4
    /// The answers of one cycle come within seconds.
    package static let doubtMin: Duration = .seconds(60)
    /// Number of agreeing answers that a stored anchor counts as.
    private static let priorAgreeing = 2

    package init(prior: ClockAnchor? = nil) {
        self.prior = prior?.difference
    }

    /// - Parameters:
    ///   - hubTime: `Sync-Time` of an answer.
    ///   - systemTime: The wall clock at `received`, if the kernel reports it as synchronised.
    @discardableResult
    package mutating func add(
        hubTime: Timestamp, sent: Instant, received: Instant, systemTime: Timestamp? = nil
    ) -> Verdict {
        guard hubTime.isPlausible else { return .implausible(hubTime) }
        let trip = sent.duration(to: received)
        guard trip >= .zero else { return .accepted }
        let middle = sent.advanced(by: trip / 2)
        let sample = Sample(difference: hubTime.milliseconds.saturatingSubtract(middle.nanoseconds / 1_000_000), error: trip / 2)
        let system = systemTime.flatMap { time -> Int64? in
            guard time.isPlausible else { return nil }
            return time.milliseconds.saturatingSubtract(received.nanoseconds / 1_000_000)
        }
        // A clock that NTP keeps right counts more than a few answers.
        if let system, let best, agreeing < Self.agreeingMax, Self.areApart(best.difference, system) { forget() }
        guard let reference = best?.difference ?? system ?? prior, Self.areApart(sample.difference, reference) else {
            accept([sample])
            return .accepted
        }
        if let latest = doubted.last, Self.areApart(latest.difference, sample.difference) { doubted = [] }
        if doubted.isEmpty { doubtedSince = received }
        doubted.append(sample)
        if doubted.count > Self.samplesMax { doubted.removeFirst() }
        let needed = best != nil ? agreeing : system != nil ? Self.agreeingMax : Self.priorAgreeing
        let hasLasted = needed < Self.agreeingMax || doubtedSince.duration(to: received) >= Self.doubtMin
        guard doubted.count > needed, hasLasted else {
            return .doubted(hubTime, ahead: .milliseconds(sample.difference.saturatingSubtract(reference)))
        }
        let confirmed = doubted
        forget()
        accept(confirmed)
        return .accepted
    }

    package var best: Sample? { samples.min { $0.error < $1.error } }

    /// `true` when the latest answers disagree with the known time.
    package var isDoubted: Bool { !doubted.isEmpty }

    /// The hub's present time minus the wall clock, and the error of that.
    package func offset(at moment: Moment) -> (offset: Duration, error: Duration)? {
        (best ?? doubted.last).map { sample in
            let hub = sample.difference.saturatingAdd(moment.instant.nanoseconds / 1_000_000)
            return (.milliseconds(hub.saturatingSubtract(moment.wall.milliseconds)), sample.error)
        }
    }

    private mutating func accept(_ more: [Sample]) {
        samples = (samples + more).suffix(Self.samplesMax)
        agreeing = min(agreeing + more.count, Self.agreeingMax)
        doubted = []
    }

    private mutating func forget() {
        (samples, agreeing) = ([], 0)
    }

    private static func areApart(_ left: Int64, _ right: Int64) -> Bool {
        left.saturatingSubtract(right).magnitude > UInt64(HybridClock.aheadMax.milliseconds)
    }
}
