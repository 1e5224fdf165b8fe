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

    /// `[{"link":"wwan0","metered":true,"roaming":false,"expires":123456789}]`, with nanoseconds since the machine was started: of use until
    /// it is started again.
    package var text: String {
        JSON.array(hints.sorted { $0.key < $1.key }.map { name, hint in
            var object: JSONObject = ["link": .string(name)]
            object["metered"] = hint.isMetered.map { .bool($0) }
            object["roaming"] = hint.isRoaming.map { .bool($0) }
            object["expires"] = hint.expiresAt.map { .int($0.nanoseconds) }
            return .object(object)
        }).json
    }

    /// - Returns: Those that are still in force; `nil` when the text is not what ``text`` writes.
    package init?(text: String, now: Instant) {
        // `try?`: the caller tells that it is damaged.
        guard let items = (try? JSONReader.read(text))?.array else { return nil }
        for item in items {
            guard let object = item.object, let name = object["link"]?.text, let end = object["expires"]?.int, end > now.nanoseconds else { continue }
            let hint = LinkHint(isMetered: object["metered"]?.bool, isRoaming: object["roaming"]?.bool, expiresAt: Instant(nanoseconds: end))
            _ = set(hint, for: name, now: now)
        }
    }

    package mutating func expire(now: Instant) {
        hints = hints.filter { $0.value.expiresAt.map { $0 > now } ?? true }
    }

    package mutating func replace(with newer: LinkHints, now: Instant) {
        for (name, hint) in newer.hints { _ = set(hint, for: name, now: now) }
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
