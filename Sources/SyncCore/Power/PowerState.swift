/// The source and the charge of the power supply (PROTOCOL E3; the rules follow systemd's battery-util and the kernel's ABI text).
package struct PowerState: Hashable, Sendable {
    package enum Source: String, Hashable, Sendable, CaseIterable {
        case mains, battery
        /// The gauges have failed for minutes: treated as mains, with a warning.
        case unknown
    }

    package var source: Source
    /// Charge of all batteries together, percent, 0 to 100; `nil` without batteries, or when they report only that all is well.
    package var percent: Int?
    /// A warning for people; `nil` if there is none.
    package var warning: String?

    package init(source: Source, percent: Int? = nil, warning: String? = nil) {
        self.source = source
        self.percent = percent
        self.warning = warning
    }

    /// `true` when it runs on discharging batteries.
    package var isDischarging: Bool { source == .battery }
}

extension PowerState {
    /// - Returns: `nil` when a relevant supply could not be read.
    package init?(_ readings: [PowerSupplyReading]) {
        guard !readings.contains(where: \.hasFailed) else { return nil }
        let ours = readings.filter(\.isOurs)
        let isDischarging = !ours.contains(where: \.isOnline) && ours.contains(where: \.isDischarging)
        self.init(source: isDischarging ? .battery : .mains, percent: PowerState.percent(ours.filter(\.isBattery)))
    }

    /// The charge: total energy divided by total full energy. If not every battery reports energy, the same with charge; otherwise the mean
    /// of the reported percentages.
    private static func percent(_ batteries: [PowerSupplyReading]) -> Int? {
        guard !batteries.isEmpty else { return nil }
        if let share = share(batteries, .energyNow, .energyFull) { return share }
        if let share = share(batteries, .chargeNow, .chargeFull) { return share }
        let capacities = batteries.compactMap { $0.number(.capacity) }.filter { $0 <= 100 }
        if !capacities.isEmpty { return Int(capacities.reduce(0, +)) / capacities.count }
        // Only words are available. The lowest one counts, because it is the one that warns.
        return batteries.compactMap { battery in
            switch battery.text(.capacityLevel) {
            case "Critical": 5
            case "Low": 10
            default: nil
            }
        }.min()
    }

    private static func share(
        _ batteries: [PowerSupplyReading], _ now: PowerSupplyReading.Attribute, _ full: PowerSupplyReading.Attribute
    ) -> Int? {
        var sumNow: Int64 = 0, sumFull: Int64 = 0
        for battery in batteries {
            guard let now = battery.number(now), let full = battery.number(full), full > 0 else { return nil }
            // A gauge that has not learned its full charge yet may report more than that.
            sumNow = sumNow.saturatingAdd(min(now, full))
            sumFull = sumFull.saturatingAdd(full)
        }
        return Int(sumNow.saturatingMultiply(100) / sumFull)
    }
}

/// Charge at which each level begins, percent. A threshold of 0 switches the level off.
package struct PowerThresholds: Hashable, Sendable {
    package var low = 15
    package var saver = 30
    /// Distance above its threshold at which a level ends, percent.
    package var margin = 3
    /// Charge below which not even critical work is sent, percent.
    package static let exhausted = 5

    package init() {}
}

extension PowerLevel {
    /// The next level after a reading of `state`, with hysteresis.
    ///
    ///     low 15, margin 3:  16 % -> saver   14 % -> low   17 % -> low   18 % -> saver   any, charging -> ample
    package func next(_ state: PowerState, _ thresholds: PowerThresholds) -> PowerLevel {
        guard state.isDischarging, let percent = state.percent else { return .ample }
        func holds(_ level: PowerLevel, below threshold: Int) -> Bool {
            guard threshold > 0 else { return false }
            return percent < threshold || (self >= level && percent < threshold.saturatingAdd(max(0, thresholds.margin)))
        }
        if thresholds.low > 0, holds(.exhausted, below: min(PowerThresholds.exhausted, thresholds.low)) { return .exhausted }
        if holds(.low, below: thresholds.low) { return .low }
        return holds(.saver, below: thresholds.saver) ? .saver : .ample
    }
}

/// Follows the power supply from one reading to the next.
package struct PowerMeter: Hashable, Sendable {
    /// Time for which the last value of a failing gauge is still used.
    package static let patience: Duration = .seconds(300)

    package private(set) var state = PowerState(source: .mains)
    package private(set) var level = PowerLevel.ample
    private var readAt: Instant?

    package init() {}

    /// - Parameter readings: The readings; `nil`: not even the folder could be read.
    /// - Returns: `true` when source, charge or level changed.
    @discardableResult
    package mutating func update(_ readings: [PowerSupplyReading]?, _ thresholds: PowerThresholds, now: Instant) -> Bool {
        let before = (state, level)
        if let read = readings.flatMap({ PowerState($0) }) {
            state = read
            readAt = now
        } else if readAt.map({ $0.duration(to: now) > Self.patience }) ?? true {
            state = PowerState(
                source: .unknown, warning: "the battery cannot be read; the device is taken to be on mains power")
        }
        level = level.next(state, thresholds)
        return before != (state, level)
    }
}
