/// A hint about a link from a dispatcher script or a modem daemon, by `PUT /v1/links/{name}` (PROTOCOL B6).
package struct LinkHint: Hashable, Sendable {
    /// `true` when the link is metered; `nil`: not stated.
    package var isMetered: Bool?
    /// `true` when the link is roaming; `nil`: not stated, which counts as not roaming.
    package var isRoaming: Bool?
    /// End of the hint; `nil`: it holds until it is replaced or the agent ends.
    package var expiresAt: Instant?

    package init(isMetered: Bool? = nil, isRoaming: Bool? = nil, expiresAt: Instant? = nil) {
        self.isMetered = isMetered
        self.isRoaming = isRoaming
        self.expiresAt = expiresAt
    }
}

/// The hints in force, by the name of the interface. A script may send one before the interface exists, and a hint stays when a device is
/// unplugged and plugged in again.
package struct LinkHints: Hashable, Sendable {
    /// Largest number of hints, more than the interfaces of any gateway. A script that counts upwards must not fill the memory.
    package static let limit = 64
    /// Longest life of a hint. If it is not renewed for this long, its subject has probably changed.
    package static let longestLife: Duration = .seconds(7 * 86_400)

    private var hints: [String: LinkHint] = [:]

    package init() {}

    /// - Returns: The hint in force at `now`.
    package func hint(for name: String, now: Instant) -> LinkHint? {
        hints[name].flatMap { hint in hint.expiresAt.map { $0 > now } ?? true ? hint : nil }
    }

    /// Replaces the hint about `name`. A hint without any statement removes the old one.
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

    /// The hints as JSON: `[{"link":"wwan0","metered":true,"roaming":false,"expires":123456789}]`. The time is in nanoseconds since the
    /// machine was started, so the text can be used until the next start of the machine.
    package var text: String {
        JSON.array(
            hints.sorted { $0.key < $1.key }.map { name, hint in
                var object: JSONObject = ["link": .string(name)]
                object["metered"] = hint.isMetered.map { .bool($0) }
                object["roaming"] = hint.isRoaming.map { .bool($0) }
                object["expires"] = hint.expiresAt.map { .int($0.nanoseconds) }
                return .object(object)
            }
        ).json
    }

    /// - Returns: The hints that are still in force; `nil` when the text is not in the format of ``text``.
    package init?(text: String, now: Instant) {
        // `try?`: the caller reports the damage.
        guard let items = (try? JSONReader.read(text))?.array else { return nil }
        for item in items {
            guard let object = item.object, let name = object["link"]?.text, let end = object["expires"]?.int, end > now.nanoseconds else {
                continue
            }
            let hint = LinkHint(
                isMetered: object["metered"]?.bool, isRoaming: object["roaming"]?.bool, expiresAt: Instant(nanoseconds: end))
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

    /// Returns whether the text can be the name of an interface. The rules are those of the kernel's `dev_valid_name`: 1 to 15 bytes,
    /// neither `.` nor `..`, no `/`, `:` or space. Characters other than visible ASCII are refused as well, although the kernel would
    /// accept them.
    package static func canBeName(_ name: String) -> Bool {
        let bytes = name.utf8
        return !bytes.isEmpty && bytes.count <= 15 && name != "." && name != ".."
            && bytes.allSatisfy { $0 > 32 && $0 < 127 && $0 != UInt8(ascii: "/") && $0 != UInt8(ascii: ":") }
    }
}
