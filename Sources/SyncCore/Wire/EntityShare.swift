/// The scopes of a device in one entity, as the last page of a listing tells them (PROTOCOL A8).
///
/// The device compares with them what it holds and the listing does not show. A document that names none of them is of others. Any other
/// document may be one that the hub has lost.
package struct EntityShare: Hashable, Sendable {
    /// Largest number of values. A larger share is not told, and a part of one would make records of the device look like those of others.
    package static let valuesMax = 2_000

    /// The scope fields of the entity, in the order in which their values count; at least one.
    private let fields: [String]
    private let scopes: Set<Scope>

    /// - Returns: `nil` if the entity has no scope fields, or the device has too many scopes in it.
    package init?(of device: DeviceAccess, under rules: EntityRules) {
        self.init(rules.scope, Set(device.scopes(under: rules)))
    }

    private init?(_ fields: [String], _ scopes: Set<Scope>) {
        guard !fields.isEmpty, scopes.count <= Self.valuesMax else { return nil }
        (self.fields, self.scopes) = (fields, scopes)
    }

    /// Returns whether one of the document's scopes is one of the device's.
    package func includes(_ document: JSONObject) -> Bool {
        var rules = EntityRules()
        rules.declaredScope = fields
        return !scopes.isDisjoint(with: rules.scopes(of: document))
    }

    // MARK: - JSON

    /// Reads an object with a list of values for each scope field.
    ///
    /// - Returns: `nil` for any other form: nothing is known of the scopes then.
    package init?(_ json: JSON?) {
        guard let members = json?.object?.members else { return nil }
        var scopes: Set<Scope> = []
        for member in members {
            guard let values = member.value.array, values.count <= Self.valuesMax else { return nil }
            for value in values {
                guard let text = value.text, !text.isEmpty, text.utf8.count <= Scope.valueBytesMax else { return nil }
                scopes.insert(Scope(member.name.text, text))
            }
        }
        self.init(members.map(\.name.text), scopes)
    }

    package var json: JSON {
        var values: [String: [String]] = [:]
        for scope in scopes.sorted() { values[scope.field, default: []].append(scope.value) }
        return .object(fields.reduce(into: JSONObject()) { $0[$1] = JSON.list(values[$1] ?? []) })
    }
}
