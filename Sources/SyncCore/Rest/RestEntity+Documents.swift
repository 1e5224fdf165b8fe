// Converts between a document of the backend and ours of the same record.
extension RestEntity {
    package func serverName(_ field: String) -> String { fields[field] ?? field }

    /// - Returns: `nil` for a field of the backend whose name means another field here.
    func localName(_ name: String) -> String? {
        if let found = fields.first(where: { $0.value == name }) { return found.key }
        return fields[name] == nil ? name : nil
    }

    /// Returns whether a field is sent as content; the backend's own fields are not.
    func isSent(_ field: String) -> Bool {
        if readOnly.contains(field) { return false }
        let name = serverName(field)
        return name == clientID || name != id.topMember
    }

    package func local(_ document: JSONObject) -> JSONObject {
        guard !fields.isEmpty else { return document }
        return document.members.reduce(into: JSONObject()) { result, member in
            if let name = localName(member.name.text) { result[name] = member.value }
        }
    }

    func server(_ document: JSONObject) -> JSONObject {
        guard !fields.isEmpty else { return document }
        return document.members.reduce(into: JSONObject()) { $0[serverName($1.name.text)] = $1.value }
    }

    /// The backend's id in one of its documents: a text, or a whole number.
    package func serverID(of document: JSON) -> JSON? {
        id.value(in: document).flatMap { Self.plainID($0) }
    }

    static func plainID(_ value: JSON) -> JSON? {
        switch value {
        case .string(let text): text.text.isEmpty || text.text.utf8.count > 256 ? nil : value
        case .number(let number): number.int == nil ? nil : value
        case .null, .bool, .array, .object: nil
        }
    }

    /// The record that an answer shows.
    func remote(_ document: JSON?, etag: JSON?) -> RestRemote {
        RestRemote(
            id: document.flatMap { serverID(of: $0) }, etag: etag.flatMap { $0.idText },
            document: document?.object.map { local($0) })
    }
}
