import SyncCore

/// The column `record.scopes`: an object of lists of values by field.
///
/// A deleted record has no document that tells its scopes. So it also keeps those whose fields are no scope fields of its entity any more,
/// as an object under an empty name: settings may name the fields again. Until then they count for nothing.
struct ScopesColumn {
    private(set) var present: [Scope]
    private(set) var former: [Scope] = []

    private static let formerName = ""

    init(_ present: [Scope]) {
        self.present = present
    }

    /// - Throws: When the text is not what ``text`` writes.
    init(reading text: String) throws(RecordDamage) {
        guard let object = try StoredColumn.json("scopes", text).object else { throw RecordDamage("scopes is no object") }
        present = Self.scopes(object)
        former = object[Self.formerName]?.object.map { Self.scopes($0) } ?? []
    }

    /// The same of a deleted record under other rules of its entity.
    func under(_ rules: EntityRules) -> ScopesColumn {
        func isPresent(_ scope: Scope) -> Bool { rules.scope.contains { sameBytes($0, scope.field) } }
        let all = (present + former).sorted()
        var found = ScopesColumn(all.filter(isPresent))
        found.former = all.filter { !isPresent($0) }
        return found
    }

    /// The same without the scopes of some fields.
    func without(_ fields: Set<String>) -> ScopesColumn {
        var left = self
        left.present.removeAll { fields.contains($0.field) }
        left.former.removeAll { fields.contains($0.field) }
        return left
    }

    var text: String? {
        var object = Self.object(present)
        if !former.isEmpty { object[Self.formerName] = .object(Self.object(former)) }
        return object.isEmpty ? nil : object.json
    }

    private static func object(_ scopes: [Scope]) -> JSONObject {
        var object = JSONObject()
        for scope in scopes {
            object[scope.field] = .array((object[scope.field]?.array ?? []) + [.string(scope.value)])
        }
        return object
    }

    private static func scopes(_ object: JSONObject) -> [Scope] {
        object.members.flatMap { member in
            (member.value.array ?? []).compactMap { $0.text.map { Scope(member.name.text, $0) } }
        }.sorted()
    }
}
