/// The reason why the hub cannot start or carry out an operator's command. Devices get an answer instead of a thrown error.
package struct HubError: Error, Sendable, CustomStringConvertible {
    package enum Code: String, Sendable {
        /// The database cannot be opened, read or written.
        case database
        /// The database belongs to another program or a newer version; it was not touched.
        case foreignDatabase
        /// The file of tokens is damaged.
        case badTokens
        /// The address cannot be listened on.
        case cannotListen
        /// Certificate or key cannot be used.
        case badCertificate
        /// The settings of entities cannot be used.
        case badEntities
        /// The place for files, or the credentials for it, cannot be used.
        case badStorage
    }

    package var code: Code
    /// The step, for the operator: `open /var/lib/agenthub/hub.db`.
    package var doing: String
    package var detail: String
    /// The data on disk contradicts itself: only another database helps.
    package var isDamage = false

    package init(_ code: Code, doing: String, detail: String) {
        self.code = code
        self.doing = doing
        self.detail = detail
    }

    init(_ error: DatabaseError) {
        self.init(error.kind == .foreign ? .foreignDatabase : .database, doing: error.doing, detail: error.detail)
        isDamage = error.kind == .corrupt
    }

    package var description: String { "\(doing): \(detail)" }
}
