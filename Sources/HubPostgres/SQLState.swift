import HubServer

extension DatabaseError {
    /// A row with the key of another one was to be inserted (SQLSTATE 23505).
    var isOfUniqueness: Bool { kind == .other && detail.hasSuffix("(23505)") }
}

/// The meaning of an SQLSTATE of five characters for the hub (PostgreSQL 15, appendix A).
enum SQLState {
    static func kind(of state: String) -> DatabaseError.Kind {
        switch state {
        // Serialization failure, deadlock: the same transaction can succeed next time. A division by zero is the failure of a comparison
        // (``PostgresBurst``).
        case "40001", "40P01", "22012": .contended
        // Lock not available, and statement timeout, which here means waiting.
        case "55P03", "57014": .busy
        case "53100": .full
        case "58030": .io
        case "XX001", "XX002": .corrupt
        // Outcome unknown; too many connections; a standby that was the primary before; idle transaction ended.
        case "40003", "53300", "25006", "25P03": .lost
        default:
            // 08: connection; 57P0x: the server shuts down, was killed, starts, or lost the database.
            state.hasPrefix("08") || state.hasPrefix("57P") ? .lost : .other
        }
    }
}
