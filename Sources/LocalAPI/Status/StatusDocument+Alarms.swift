package import SyncCore

// Events of the data itself that a person should know about.
extension StatusDocument {
    /// One fact that the agent noticed about its database, its hub or its own identity.
    package struct Alarm: Hashable, Sendable {
        /// The raw value of an ``AlarmCode``; a newer agent may know others.
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

        /// The agent recovers by itself. A code that is not known here needs a person.
        package var heals: Bool { AlarmCode(rawValue: code)?.heals ?? false }

        package func has(_ code: AlarmCode) -> Bool { self.code == code.rawValue }

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
