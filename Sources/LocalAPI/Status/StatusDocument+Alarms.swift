package import SyncCore

// Events of the data itself that a person should know about.
extension StatusDocument {
    /// One fact that the agent noticed about its database, its hub or its own identity.
    package struct Alarm: Hashable, Sendable {
        /// `recovered_from_corruption`, `lost_tail`, `mass_delete`, `cloned_device`, `newer_schema`, `replica_regressed`,
        /// `epoch_changed`, `identity_damaged`, `foreign_database`,
        /// `links_unwatched`, `no_files`, `stream_unreadable`, `database_removed`, `database_unreadable`, `socket_removed`, `hub_clock`,
        /// `records_unreadable`,
        /// `backend_clock`; a newer agent may know others.
        package var code: String
        /// One sentence for people.
        package var detail: String
        /// Time of the report; `nil`: not known.
        package var at: Timestamp?

        package init(code: String, detail: String, at: Timestamp? = nil) {
            self.code = code
            self.detail = detail
            self.at = at
        }

        /// Files of the database were moved or removed while it was in use; with `read_only`, they still are missing.
        package static let databaseRemoved = "database_removed"
        /// The database cannot be read: its numbers in the status are zeros.
        package static let databaseUnreadable = "database_unreadable"
        /// The file of the local socket is gone and cannot be created again: connected apps are served, and no others.
        package static let socketRemoved = "socket_removed"
        /// The hub has records that it cannot read itself; they are unchanged here, or missing.
        package static let recordsUnreadable = "records_unreadable"
        /// The hub's time is not used because it cannot be right, or too few answers agree with it.
        package static let hubClock = "hub_clock"
        /// An existing backend lists records that are stamped in the future.
        package static let backendClock = "backend_clock"
        /// Alarms that recover automatically and are only reported. All others, also unknown ones, need a person.
        package static let healing: Set<String> = ["replica_regressed", "epoch_changed", hubClock, backendClock]
        /// Alarms of the status; other alarms show in their own members.
        package static let codes: Set<String> = [
            "recovered_from_corruption", "lost_tail", "mass_delete", "cloned_device", "newer_schema", "replica_regressed",
            "epoch_changed", "identity_damaged", "foreign_database", "links_unwatched",
            "no_files", "stream_unreadable", databaseRemoved, databaseUnreadable, socketRemoved, recordsUnreadable, hubClock,
            backendClock,
        ]

        func write(to writer: inout JSONWriter) {
            writer.member("code", code)
            writer.member("detail", detail)
            if let at { writer.time("at", at) }
        }

        init?(_ reader: AnswerReader) {
            guard let code = reader.text("code") else { return nil }
            self.init(code: code, detail: reader.text("detail") ?? "", at: reader.time("at"))
        }
    }
}
