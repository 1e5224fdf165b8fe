/// What to do about a request whose outcome is not known (PROTOCOL A13): the same again where that is harmless, else a
/// question to the backend, else a person.
///
/// | | then |
/// |---|---|
/// | the method is idempotent: PUT, DELETE | the same again |
/// | it carries a key, and the backend still remembers it | the same again |
/// | a creation, and `lookup` is mapped | is it there? |
/// | a change, and `read` is mapped | how is the record? |
/// | otherwise | held: outcome-unknown |
package struct RestUncertainty: Hashable, Sendable {
    package enum Decision: Hashable, Sendable { case resend, lookUp, read, hold }

    package var action: MutationAction
    package var isIdempotent: Bool
    package var hasKey: Bool
    /// How long the backend remembers keys; `nil`: it is not said any more that it does.
    package var window: Duration?
    package var sinceFirst: Duration
    package var canLookUp: Bool
    package var canRead: Bool

    package init(
        action: MutationAction, isIdempotent: Bool, hasKey: Bool, window: Duration?, sinceFirst: Duration, canLookUp: Bool,
        canRead: Bool
    ) {
        self.action = action
        self.isIdempotent = isIdempotent
        self.hasKey = hasKey
        self.window = window
        self.sinceFirst = sinceFirst
        self.canLookUp = canLookUp
        self.canRead = canRead
    }

    package var decision: Decision {
        if isIdempotent { return .resend }
        if hasKey, let window, sinceFirst < window { return .resend }
        if action == .create { return canLookUp ? .lookUp : .hold }
        return canRead ? .read : .hold
    }

    /// What a record that was read says about a change whose outcome is not known.
    package enum Evidence: Hashable, Sendable {
        case applied
        /// It can be made and sent anew.
        case notApplied
        /// Others have changed the record since: what is there now decides, as in any pull.
        case moved
        /// Nobody can tell.
        case unclear
    }

    /// Values that were set show themselves, and setting them again does no harm. A count that has the sum that was sent may
    /// have got it from somebody else.
    package static func evidence(for attempt: RestAttempt, in current: RestRemote) -> Evidence {
        guard let document = current.document else { return .unclear }
        if let version = attempt.ifMatch, version == current.etag { return .notApplied }
        let hasAll = attempt.sent.members.allSatisfy { isSame(document[$0.name.text], $0.value) }
        if attempt.before.isEmpty { return hasAll ? .applied : .moved }
        let isAsBefore = attempt.before.members.allSatisfy { isSame(document[$0.name.text], $0.value) }
        let didNothing = attempt.before.members.allSatisfy { isSame(attempt.sent[$0.name.text], $0.value) }
        if hasAll, !attempt.counts || didNothing { return .applied }
        if isAsBefore { return .notApplied }
        return .unclear
    }

    private static func isSame(_ value: JSON?, _ other: JSON) -> Bool {
        value.map { $0 == other } ?? other.isNull
    }
}
