/// One folder of `class/power_supply` as it was read, before anybody judged it.
///
/// The files and their words: Documentation/ABI/testing/sysfs-class-power. Any of them may be missing, and any may hold
/// nonsense: gauges are firmware.
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
        /// The driver could not say now (ENODEV, EAGAIN, ETIMEDOUT): ask again later.
        case failed
        /// Without the newline at its end.
        case text(String)
    }

    /// Name of the folder: `BAT0`, `AC`, `ucsi-source-psy-USBC000:001`.
    package var name: String
    package var values: [Attribute: Value]
    /// A USB supply whose Type-C port gives power instead of taking it.
    package var isTypeCSource: Bool

    package init(name: String, _ values: [Attribute: Value] = [:], isTypeCSource: Bool = false) {
        self.name = name
        self.values = values
        self.isTypeCSource = isTypeCSource
    }

    package subscript(attribute: Attribute) -> Value { values[attribute] ?? .absent }

    func text(_ attribute: Attribute) -> String? {
        if case .text(let text) = self[attribute] { text } else { nil }
    }

    /// A whole number of at least 0 and at most 10^15, a thousand kilowatt hours in microwatt hours; `nil` for anything else.
    func number(_ attribute: Attribute) -> Int64? {
        guard let value = text(attribute).flatMap({ Int64($0) }), (0...1_000_000_000_000_000).contains(value) else { return nil }
        return value
    }

    /// Counts at all: not the battery of a mouse, not an empty slot, not a port that feeds somebody else.
    var isOurs: Bool {
        guard text(.type) != nil, text(.scope) != "Device", text(.present) != "0" else { return false }
        return !isTypeCSource
    }

    var isBattery: Bool { text(.type) == "Battery" }

    /// A supply that is not a battery and delivers: `online` is 1 (fixed) or 2 (programmable).
    var isOnline: Bool { !isBattery && (number(.online) ?? 0) >= 1 }

    /// A battery that says nothing of its status is taken to discharge; one that is full, idle or unsure does not.
    var isDischarging: Bool {
        guard isBattery else { return false }
        return text(.status).map { $0 == "Discharging" } ?? true
    }

    /// What was needed could not be read.
    var hasFailed: Bool {
        guard isOurs else { return false }
        let needed: [Attribute] =
            isBattery ? [.present, .status, .capacity, .capacityLevel, .energyNow, .energyFull, .chargeNow, .chargeFull] : [.online]
        return needed.contains { self[$0] == .failed }
    }
}
