import HubServer

/// What the five characters of an SQLSTATE mean for us (PostgreSQL 15, appendix A).
enum SQLState {
    static func kind(of state: String) -> DatabaseError.Kind {
        switch state {
        // Serialization failure, deadlock: the same transaction can go through next time. CockroachDB and YugabyteDB say so
        // more often than PostgreSQL.
        case "40001", "40P01": .contended
        // Lock not available, and a statement that took too long, which here is one that waited.
        case "55P03", "57014": .busy
        case "53100": .full
        case "58030": .io
        case "XX001", "XX002": .corrupt
        // Whether it was done is unknown; too many connections; a standby that was the primary until now.
        case "40003", "53300", "25006", "25P03": .lost
        default:
            // 08: connection, 57P0x: the server shuts down, was killed, starts, or lost the database.
            state.hasPrefix("08") || state.hasPrefix("57P") ? .lost : .other
        }
    }
}
