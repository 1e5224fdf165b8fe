/// Keeps a new way to the hub from cutting a box off for good.
///
/// What leads to the hub (its address, what is trusted and shown, rules of links, the probe) is *proven* once the hub has
/// answered over it. A new one is on trial: it is in force at once, and becomes the proven one with the first answer. When
/// none comes within the window, the proven one is put back, and the new one is *refused* until somebody asks for it again or
/// changes it. The record is kept on disk, so a restart neither ends a trial nor begins it anew, and a refused one does not
/// come back with the files it stands in.
///
/// Time counts only while an attempt makes sense: a box without any link, or one that an operator has paused, proves nothing
/// about its configuration.
package struct ConfigurationTrial: Hashable, Sendable {
    package static let window: Duration = .seconds(600)

    /// Names a way to the hub: a digest of its settings.
    package typealias Name = String

    package enum Choice: Hashable, Sendable {
        /// In force, and nothing more to be done.
        case settled
        /// In force, and on trial.
        case onTrial
        /// The proven one is to be in force instead.
        case useProven
    }

    package enum Step: Hashable, Sendable {
        case wait
        /// The window is over: put the proven one back.
        case revert
    }

    package private(set) var proven: Name?
    package private(set) var trying: Name?
    package private(set) var refused: Name?
    /// How long the present trial has lasted, as far as it counts.
    package private(set) var spent: Duration = .zero
    private var countedAt: Instant?

    package init() {}

    package var isOnTrial: Bool { trying != nil && proven != nil }

    /// A configuration was read.
    ///
    /// - Parameter isAsked: Somebody wants it now (a reload): then one that was refused is tried again.
    package mutating func consider(_ name: Name, isAsked: Bool) -> Choice {
        countedAt = nil
        if name == proven {
            (trying, refused, spent) = (nil, nil, .zero)
            return .settled
        }
        if name == refused, !isAsked { return .useProven }
        if name != trying { spent = .zero }
        (trying, refused) = (name, nil)
        // Without a proven one there is nothing to go back to: the first configuration of a box.
        return proven == nil ? .settled : .onTrial
    }

    /// The hub has answered over what is in force.
    ///
    /// - Returns: Whether that is news, to be kept.
    package mutating func reached() -> Bool {
        guard let name = trying else { return false }
        (proven, trying, refused, spent, countedAt) = (name, nil, nil, .zero, nil)
        return true
    }

    /// Time goes on.
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

    /// What cannot be read is no record: then nothing is proven, and nothing is put back.
    package init(record: JSON?) {
        func name(_ member: String) -> Name? { record?.object?[member]?.text.flatMap { $0.isEmpty ? nil : $0 } }
        (proven, trying, refused) = (name("proven"), name("trying"), name("refused"))
        spent = .milliseconds(min(max(0, record?.object?["spent_ms"]?.int ?? 0), Self.window.milliseconds))
    }
}
