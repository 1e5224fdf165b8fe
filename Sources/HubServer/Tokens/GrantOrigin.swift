package import SyncCore

/// The place that a grant comes from, in the words of `agenthub grants` and `agenthub why`.
package enum GrantOrigin: Hashable, Sendable {
    /// The entity settings in force.
    case settings(generation: Int64)
    /// An entities file that is not in force.
    case file(String)
    case command(TokenBook.Grant)
    case record(RecordName)
}

extension GrantOrigin: CustomStringConvertible {
    package var description: String {
        switch self {
        case .settings(let generation): "in generation \(generation) of the settings"
        case .file(let path): "in \(path)"
        case .command(let grant): grant.history
        case .record(let record): "by the record \(record)"
        }
    }

    /// The members for programs, the same for all sources.
    package var json: JSONObject {
        let word: String
        var (grant, generation, record): (TokenBook.Grant?, Int64?, RecordName?)
        switch self {
        case .settings(let number): (word, generation) = ("file", number)
        case .file: word = "file"
        case .command(let given): (word, grant) = ("command", given)
        case .record(let name): (word, record) = ("record", name)
        }
        return [
            "source": .string(word), "granted_at": .optional(grant?.at.description), "granted_by": .optional(grant?.by),
            "revoked_at": .optional(grant?.revokedAt?.description), "revoked_by": .optional(grant?.revokedBy),
            "generation": .optional(generation), "entity": .optional(record?.entity.text), "id": .optional(record?.id.text),
        ]
    }
}

extension TokenBook.Grant {
    /// The times of a grant and of its end, with the users.
    package var history: String {
        func named(_ user: String?) -> String { user.map { " by " + $0 } ?? "" }
        return "granted \(at)\(named(by))" + (revokedAt.map { "  taken back \($0)\(named(revokedBy))" } ?? "")
    }
}
