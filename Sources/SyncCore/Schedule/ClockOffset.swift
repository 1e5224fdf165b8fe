/// How far the hub's clock is from ours, from the `Sync-Time` of its answers (PROTOCOL A11).
///
/// Each answer gives one sample with an error of half its round trip; the one with the shortest round trip of the last
/// eight counts (the clock filter of NTP). Samples relate the hub's time to `CLOCK_BOOTTIME`, so that neither a step of
/// the wall clock nor a suspend spoils them.
package struct ClockOffset: Hashable, Sendable {
    package struct Sample: Hashable, Sendable {
        /// The hub's time minus boot time, milliseconds.
        package var difference: Int64
        package var error: Duration
    }

    private var samples: [Sample] = []

    package init() {}

    package mutating func add(hubTime: Timestamp, sent: Instant, received: Instant) {
        let trip = sent.duration(to: received)
        guard trip >= .zero else { return }
        let middle = sent.advanced(by: trip / 2)
        let difference = hubTime.milliseconds.saturatingSubtract(middle.nanoseconds / 1_000_000)
        samples.append(Sample(difference: difference, error: trip / 2))
        if samples.count > 8 { samples.removeFirst() }
    }

    package var best: Sample? { samples.min { $0.error < $1.error } }

    /// The hub's time now minus the wall clock, and the error of that.
    package func offset(at moment: Moment) -> (offset: Duration, error: Duration)? {
        best.map { sample in
            let hub = sample.difference.saturatingAdd(moment.instant.nanoseconds / 1_000_000)
            return (.milliseconds(hub.saturatingSubtract(moment.wall.milliseconds)), sample.error)
        }
    }
}
