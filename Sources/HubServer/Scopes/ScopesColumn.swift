import SyncCore

/// The column `record.scopes`: an object of lists of values by field.
enum ScopesColumn {
    static func text(_ scopes: [Scope]) -> String? {
        if scopes.isEmpty { return nil }
        var object = JSONObject()
        for scope in scopes {
            object[scope.field] = .array((object[scope.field]?.array ?? []) + [.string(scope.value)])
        }
        return object.json
    }

    /// - Throws: When the text is not what ``text(_:)`` writes.
    static func scopes(_ text: String) throws(RecordDamage) -> [Scope] {
        guard let object = try StoredColumn.json("scopes", text).object else { throw RecordDamage("scopes is no object") }
        return object.members.flatMap { member in
            (member.value.array ?? []).compactMap { $0.text.map { Scope(member.name.text, $0) } }
        }.sorted()
    }
}
