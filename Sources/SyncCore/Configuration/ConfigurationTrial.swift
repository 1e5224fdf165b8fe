/// Prevents a new connection configuration from cutting a device off permanently.
///
/// The settings of the way to the hub (its address, trust and credentials, rules of links, the probe) are *proven* once the hub has
/// answered over them. New settings are on trial: they are in force at once, and become proven with the first answer. If none comes within
/// the window, the proven settings are restored, and the new ones are *refused* until they are requested again or changed. The record is
/// kept on disk. So a restart neither ends a trial nor begins it again, and refused settings do not come back from the files.
///
/// Time counts only while an attempt makes sense: a device without any link, or one that an operator has paused, proves nothing about its
/// configuration.
package struct ConfigurationTrial: Hashable, Sendable {
    package static let window: Duration = .seconds(600)

    /// Name of a set of connection settings: a digest of them.
    package typealias Name = String

    package enum Choice: Hashable, Sendable {
        /// In force; nothing more is to be done.
        case settled
        /// In force, and on trial.
        case onTrial
        /// The proven settings must be in force instead.
        case useProven
    }

    package enum Step: Hashable, Sendable {
        case wait
        /// The window is over: restore the proven settings.
        case revert
    }

    package private(set) var proven: Name?
    package private(set) var trying: Name?
    package private(set) var refused: Name?
    /// Counted duration of the present trial.
    package private(set) var spent: Duration = .zero
    private var countedAt: Instant?

    package init() {}

    package var isOnTrial: Bool { trying != nil && proven != nil }

    /// Records that a configuration was read.
    ///
    /// - Parameter isAsked: It was requested explicitly (a reload): then refused settings are tried again.
    package mutating func consider(_ name: Name, isAsked: Bool) -> Choice {
        countedAt = nil
        if name == proven {
            (trying, refused, spent) = (nil, nil, .zero)
            return .settled
        }
        if name == refused, !isAsked { return .useProven }
        if name != trying { spent = .zero }
        (trying, refused) = (name, nil)
        // Without proven settings there are none to restore: this is the first configuration of a device.
        return proven == nil ? .settled : .onTrial
    }

    /// Records that the hub has answered over the settings in force.
    ///
    /// - Returns: `true` when the record has changed and must be stored.
    package mutating func reached() -> Bool {
        guard let name = trying else { return false }
        (proven, trying, refused, spent, countedAt) = (name, nil, nil, .zero, nil)
        return true
    }

    /// Applies the passage of time.
    ///
    /// - Parameter counts: An attempt would make sense now.
    package mutating func tick(counts: Bool, now: Instant, window: Duration = ConfigurationTrial.window) -> Step {
        guard isOnTrial else { return .wait }
        if counts, let countedAt, countedAt <= now { spent += countedAt.duration(to: now) }
        countedAt = counts ? now : nil
        guard spent >= window else { return .wait }
        (refused, trying, spent, countedAt) = (trying, nil, .zero, nil)
        return .revert
    }

    // MARK: Record

    package var record: JSON {
        var object: JSONObject = ["spent_ms": .int(spent.milliseconds)]
        object["proven"] = proven.map { .string($0) }
        object["trying"] = trying.map { .string($0) }
        object["refused"] = refused.map { .string($0) }
        return .object(object)
    }

    /// An unreadable record counts as none: then no settings are proven, and none are restored.
    package init(record: JSON?) {
        func name(_ member: String) -> Name? { record?.object?[member]?.text.flatMap { $0.isEmpty ? nil : $0 } }
        (proven, trying, refused) = (name("proven"), name("trying"), name("refused"))
        spent = .milliseconds(min(max(0, record?.object?["spent_ms"]?.int ?? 0), Self.window.milliseconds))
    }
}
