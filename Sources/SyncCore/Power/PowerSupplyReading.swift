/// One folder of `class/power_supply` as it was read, without judgement.
///
/// Its files and their values are documented in Documentation/ABI/testing/sysfs-class-power. Any of them may be missing, and any may
/// contain nonsense, because gauges are firmware.
package struct PowerSupplyReading: Hashable, Sendable {
    package enum Attribute: String, Hashable, Sendable, CaseIterable {
        case type, scope, present, online, status, capacity
        case capacityLevel = "capacity_level"
        case energyNow = "energy_now"
        case energyFull = "energy_full"
        case chargeNow = "charge_now"
        case chargeFull = "charge_full"
    }

    package enum Value: Hashable, Sendable {
        case absent
        /// The driver could not answer now (ENODEV, EAGAIN, ETIMEDOUT): read it again later.
        case failed
        /// The text without the newline at its end.
        case text(String)
    }

    /// Name of the folder: `BAT0`, `AC`, `ucsi-source-psy-USBC000:001`.
    package var name: String
    package var values: [Attribute: Value]
    /// It is a USB supply whose Type-C port delivers power instead of receiving it.
    package var isTypeCSource: Bool

    package init(name: String, _ values: [Attribute: Value] = [:], isTypeCSource: Bool = false) {
        self.name = name
        self.values = values
        self.isTypeCSource = isTypeCSource
    }

    package subscript(attribute: Attribute) -> Value { values[attribute] ?? .absent }

    package func text(_ attribute: Attribute) -> String? {
        if case .text(let text) = self[attribute] { text } else { nil }
    }

    /// A whole number from 0 to 10^15 (a thousand kilowatt hours in microwatt hours); `nil` for any other value.
    package func number(_ attribute: Attribute) -> Int64? {
        guard let value = text(attribute).flatMap({ Int64($0) }), (0...1_000_000_000_000_000).contains(value) else { return nil }
        return value
    }

    /// `true` when it counts: it is not the battery of a mouse, an empty slot, or a port that feeds another device.
    package var isOurs: Bool {
        guard text(.type) != nil, text(.scope) != "Device", text(.present) != "0" else { return false }
        return !isTypeCSource
    }

    package var isBattery: Bool { text(.type) == "Battery" }

    /// `true` when it is no battery and delivers power: `online` is 1 (fixed) or 2 (programmable).
    var isOnline: Bool { !isBattery && (number(.online) ?? 0) >= 1 }

    /// `true` when a battery is discharging. One without a status counts as discharging; a full, idle or unsure one does not.
    var isDischarging: Bool {
        guard isBattery else { return false }
        return text(.status).map { $0 == "Discharging" } ?? true
    }

    /// `true` when a needed value could not be read.
    var hasFailed: Bool {
        guard isOurs else { return false }
        let needed: [Attribute] =
            isBattery ? [.present, .status, .capacity, .capacityLevel, .energyNow, .energyFull, .chargeNow, .chargeFull] : [.online]
        return needed.contains { self[$0] == .failed }
    }
}
