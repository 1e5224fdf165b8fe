/// The way in which the records of an entity name their form, as the product owner writes it in the settings of the entity:
/// `{ entity: forms, ref: form_id, version: form_version, path: schema }`.
///
/// A form of some version is a record of its own, whose id is that of the form, `:` and the version, such as `doors:3`. It never changes,
/// so that a record that was begun under version 2 is judged by version 2 for good, on every device and at the hub, and no older
/// copies have to be kept. A form whose record has the plain id `doors` counts for the version that its member `version` names.
package struct FormSettings: Hashable, Sendable {
    /// The entity of the forms.
    package var entity: EntityName
    /// The field of a record that holds the id of its form.
    package var ref: String
    /// The field of a record that holds the version of its form; `nil`: forms have no versions.
    package var version: String?
    /// The member of the form's record that holds the form (``Form``).
    package var path: String
    /// The place of the answers, if they are records of their own; `nil` when they are fields of the record.
    package var answers: Answers?

    package static let standardPath = "schema"

    package init(
        entity: EntityName, ref: String, version: String? = nil, path: String = FormSettings.standardPath, answers: Answers? = nil
    ) {
        (self.entity, self.ref, self.version, self.path, self.answers) = (entity, ref, version, path, answers)
    }

    /// Answers in records of their own: `{ entity: answers, ref: audit_id, question: question_id, value: value }`.
    package struct Answers: Hashable, Sendable {
        package var entity: EntityName
        /// The field of an answer that holds the id of the record that it belongs to.
        package var ref: String
        /// The field that holds the id of the question.
        package var question: String
        /// The field that holds the answer.
        package var value: String

        package static let standardValue = "value"

        package init(entity: EntityName, ref: String, question: String, value: String = Answers.standardValue) {
            (self.entity, self.ref, self.question, self.value) = (entity, ref, question, value)
        }

        /// The record with its answers in it, as if they were fields. A field of the record itself goes before, and of several answers to
        /// one question the last one counts.
        package func join(_ answers: [JSONObject], to record: JSONObject) -> JSONObject {
            var joined = record
            for answer in answers {
                guard let question = answer[question]?.idText, record[question] == nil else { continue }
                joined[question] = answer[value]
            }
            return joined
        }
    }

    /// The form that a record names.
    package struct Name: Hashable, Sendable {
        package var id: String
        package var version: String?

        package init(id: String, version: String? = nil) {
            (self.id, self.version) = (id, version)
        }

        /// The name that people see: `doors, version 3`.
        package var text: String { id + (version.map { ", version \($0)" } ?? "") }
    }

    /// - Returns: `nil` when the record names no form.
    package func name(in record: JSONObject) -> Name? {
        guard let id = record[ref]?.idText, !id.isEmpty else { return nil }
        return Name(id: id, version: version.flatMap { record[$0]?.idText })
    }
}

/// Selects the records that are complete, so that nothing may be missing: `{ when: { status: [completed] } }`.
package struct CompleteRule: Hashable, Sendable {
    /// The accepted values by field, as in ``KeepRule/when``.
    package var when: [String: [String]]

    package init(when: [String: [String]] = [:]) {
        self.when = when
    }

    /// Returns whether every field has one of its values: as text, as the digits of a number, as `true` or `false`, or as an element of a
    /// list.
    package func matches(_ record: JSONObject) -> Bool {
        when.allSatisfy { field, values in
            guard let held = record[field] else { return false }
            return values.contains { held.shows($0) }
        }
    }
}
