/// The agent's word for what became of a record's form. A newer agent may have states that are not named here.
public struct FormState: RawRepresentable, Sendable, Hashable, CustomStringConvertible {
    public var rawValue: String

    public init(rawValue: String) { self.rawValue = rawValue }

    /// The form has judged the record.
    public static let judged = Self(rawValue: "judged")
    /// The form is not on this device. The hub judges the record by it.
    public static let absent = Self(rawValue: "absent")
    /// The form is here and cannot be read.
    public static let unusable = Self(rawValue: "unusable")
    /// The record names no form.
    public static let unnamed = Self(rawValue: "none")

    public var description: String { rawValue }
}

/// The progress of a record by its form; ``AgentClient/progress(_:_:deadline:)`` reads it.
public struct FormProgress: Sendable, Equatable, Identifiable {
    /// The form that a record names.
    public struct Form: Sendable, Equatable {
        public var state: FormState
        /// `nil` if the record names no form.
        public var id: String?
        /// `nil` if the record names no version, or if the entity has no versions of its forms.
        public var version: String?
        /// The reason why the form has not judged the record, as a sentence for people.
        public var reason: String?
    }

    /// Numbers of visible questions.
    public struct Counts: Sendable, Equatable {
        public var questions: Int
        public var answered: Int
        public var required: Int
        /// Required questions without an answer.
        public var missing: Int
        /// Answered ones of the required questions, rounded down: 100 exactly if nothing is missing.
        public var percent: Int

        init(_ members: Members) throws(EdgeSyncError) {
            questions = try members.number("questions")
            answered = try members.number("answered")
            required = try members.number("required")
            missing = try members.number("missing")
            percent = try members.number("percent")
        }
    }

    public struct Section: Sendable, Equatable, Identifiable {
        public var id: String
        public var title: String?
        /// The condition of the section holds. Otherwise it has no questions.
        public var applies: Bool
        public var counts: Counts
    }

    public var entity: String
    /// Id of the record.
    public var id: String
    public var form: Form
    /// Title of the form.
    public var title: String?
    /// The record says that it is complete, by the rule `complete` of its entity.
    public var saysComplete: Bool
    /// Nothing is missing; `nil` unless the form has judged the record.
    public var isComplete: Bool?
    /// Numbers of the whole form; `nil` unless the form has judged the record.
    public var counts: Counts?
    public var sections: [Section]
    /// The missing answers, with pointers into the record such as `/photos`.
    public var holes: [EdgeSyncError.FieldError]
    /// Answers of a wrong kind, with pointers into the record.
    public var faults: [EdgeSyncError.FieldError]
    /// The whole answer, with members that this library does not know.
    public var raw: JSONObject

    /// Percentage of the whole form; `nil` unless the form has judged the record.
    public var percent: Int? { counts?.percent }

    init(_ members: Members) throws(EdgeSyncError) {
        let named = try members.inside("form")
        entity = try members.text("entity")
        id = try members.text("id")
        form = Form(
            state: FormState(rawValue: try named.text("state")), id: try named.optionalText("id"),
            version: try named.optionalText("version"), reason: try named.optionalText("reason"))
        title = try members.optionalText("title")
        saysComplete = try members.flag("says_complete")
        isComplete = try members.optionalFlag("complete")
        counts = try members.optionalNumber("questions") == nil ? nil : Counts(members)
        sections = try members.list("sections") { section throws(EdgeSyncError) in
            Section(
                id: try section.text("id"), title: try section.optionalText("title"), applies: try section.flag("applies"),
                counts: try Counts(section))
        }
        holes = EdgeSyncError.FieldError.list(members.object["holes"])
        faults = EdgeSyncError.FieldError.list(members.object["faults"])
        raw = members.object
    }
}
