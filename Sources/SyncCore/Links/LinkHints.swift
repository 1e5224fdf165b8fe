/// What a dispatcher script or a modem daemon says about a link by `PUT /v1/links/{name}` (PROTOCOL B6).
package struct LinkHint: Hashable, Sendable {
    /// `nil`: nothing said.
    package var isMetered: Bool?
    /// `nil`: taken for home.
    package var isRoaming: Bool?
    /// `nil`: until it is replaced or the agent ends.
    package var expiresAt: Instant?

    package init(isMetered: Bool? = nil, isRoaming: Bool? = nil, expiresAt: Instant? = nil) {
        self.isMetered = isMetered
        self.isRoaming = isRoaming
        self.expiresAt = expiresAt
    }
}

/// The hints in force, by the name of the interface: a script speaks before the interface exists, and its word outlives a
/// replug.
package struct LinkHints: Hashable, Sendable {
    /// More interfaces than any gateway has; a script that counts upwards must not fill the memory.
    package static let limit = 64
    /// A hint that nobody renews for this long is older than what it was about.
    package static let longestLife: Duration = .seconds(7 * 86_400)

    private var hints: [String: LinkHint] = [:]

    package init() {}

    /// - Returns: The hint in force at `now`.
    package func hint(for name: String, now: Instant) -> LinkHint? {
        hints[name].flatMap { hint in hint.expiresAt.map { $0 > now } ?? true ? hint : nil }
    }

    /// Replaces what was said about `name`. A hint that says nothing takes the old one away.
    ///
    /// - Returns: `false` when the name cannot be an interface's or there is no room for one more.
    package mutating func set(_ hint: LinkHint, for name: String, now: Instant) -> Bool {
        guard LinkHints.canBeName(name) else { return false }
        expire(now: now)
        if hint.isMetered == nil, hint.isRoaming == nil {
            hints[name] = nil
            return true
        }
        guard hints[name] != nil || hints.count < Self.limit else { return false }
        var hint = hint
        let latest = now.advanced(by: Self.longestLife)
        hint.expiresAt = min(hint.expiresAt ?? latest, latest)
        hints[name] = hint
        return true
    }

    package mutating func expire(now: Instant) {
        hints = hints.filter { $0.value.expiresAt.map { $0 > now } ?? true }
    }

    package var nextExpiry: Instant? { hints.values.compactMap(\.expiresAt).min() }

    /// As the kernel's `dev_valid_name`: 1 to 15 bytes, neither `.` nor `..`, no `/`, `:` or space. What is not visible
    /// ASCII is refused besides, although the kernel would take it.
    package static func canBeName(_ name: String) -> Bool {
        let bytes = name.utf8
        return !bytes.isEmpty && bytes.count <= 15 && name != "." && name != ".."
            && bytes.allSatisfy { $0 > 32 && $0 < 127 && $0 != UInt8(ascii: "/") && $0 != UInt8(ascii: ":") }
    }
}
