/// The scopes and roles of a device, as the hub tells them in its hello (PROTOCOL A2). They are shown to people and decide nothing here.
package struct DeviceShare: Hashable, Sendable {
    package struct Scope: Hashable, Sendable {
        package var name: String
        package var values: [String]

        package init(_ name: String, _ values: [String]) {
            self.name = name
            self.values = values
        }
    }

    package var scopes: [Scope]
    package var roles: [String]

    package init(scopes: [Scope] = [], roles: [String] = []) {
        self.scopes = scopes
        self.roles = roles
    }

    /// `true` when no scope has a value, so the device gets only records that belong to all devices.
    package var isEmpty: Bool { scopes.allSatisfy(\.values.isEmpty) }

    /// The scopes and roles for people: `site s-3, s-4; role inspector`.
    package var words: String {
        var parts = scopes.filter { !$0.values.isEmpty }.map { "\($0.name) \($0.values.joined(separator: ", "))" }
        if !roles.isEmpty { parts.append("role\(roles.count == 1 ? "" : "s") \(roles.joined(separator: ", "))") }
        return parts.isEmpty ? "none" : parts.joined(separator: "; ")
    }

    // MARK: - JSON

    /// Reads the members `scopes` and `roles` of an object. They are bounded (``Limits/shareTexts``), and what has another form is skipped:
    /// no hub may stop a device by a word about its scopes.
    ///
    /// - Returns: `nil` without `scopes`: the hub knows no scopes.
    package init?(_ object: JSONObject) {
        guard let scopes = object["scopes"]?.object else { return nil }
        var room = Limits.shareTexts
        func texts(_ json: JSON?) -> [String] {
            var seen: Set<String> = []
            let texts = (json?.array ?? []).prefix(room).compactMap(\.text).filter { Self.isFit($0) && seen.insert($0).inserted }
            room -= texts.count
            return texts
        }
        self.init()
        for member in scopes.members.prefix(Limits.shareScopes) where Self.isFit(member.name.text) && member.value.array != nil {
            self.scopes.append(Scope(member.name.text, texts(member.value)))
        }
        roles = texts(object["roles"])
    }

    private static func isFit(_ text: String) -> Bool { !text.isEmpty && text.utf8.count <= Limits.shareTextBytes }

    package var json: JSONObject {
        ["scopes": .object(scopesJSON), "roles": JSON.list(roles)]
    }

    package func write(to writer: inout JSONWriter) {
        writer.member("scopes", JSON.object(scopesJSON))
        writer.member("roles", JSON.list(roles))
    }

    private var scopesJSON: JSONObject {
        scopes.reduce(into: JSONObject()) { $0[$1.name] = JSON.list($1.values) }
    }
}
