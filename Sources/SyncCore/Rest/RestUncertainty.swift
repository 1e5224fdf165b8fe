/// Decides what to do about a request with an unknown outcome (PROTOCOL A13): repeat it where that is harmless, otherwise ask the backend,
/// otherwise ask a person.
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
    /// Time that the backend remembers keys; `nil`: the configuration no longer says that it does.
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

    /// The result of a read for a change with an unknown outcome.
    package enum Evidence: Hashable, Sendable {
        case applied
        /// The change can be made and sent again.
        case notApplied
        /// Others have changed the record since: its present state decides, as in any pull.
        case moved
        /// The outcome cannot be determined.
        case unclear
    }

    /// Compares a record with an attempt. Values that were set are visible, and setting them again does no harm. A count that equals the
    /// sent sum may have got it from another writer.
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
