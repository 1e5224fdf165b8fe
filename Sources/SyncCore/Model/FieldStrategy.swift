/// The rule for a field that two sides have changed: the field rule of the glossary. ``FieldContest`` decides by it.
package enum FieldStrategy: String, Sendable, CaseIterable {
    /// The higher stamp wins.
    case lww
    /// The hub's value stays.
    case server
    /// The device's value overwrites.
    case client
    case merge, append, counter, set, max, min, manual

    /// `true` when the rule works in one direction only: a value that does not beat the present one changes nothing.
    package var isExtreme: Bool { self == .max || self == .min }

    /// `true` when parts of both sides are kept, so that the order of arrival does not matter.
    package var addsUp: Bool {
        switch self {
        case .append, .counter, .set, .max, .min: true
        case .lww, .server, .client, .merge, .manual: false
        }
    }
}
