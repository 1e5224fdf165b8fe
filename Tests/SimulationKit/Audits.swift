import SyncCore

/// The entity whose records are filled in by a form, and the forms.
///
/// A record names its form and the version of it. Each version has the question `q1` (pass or fail), and `q2`, which is asked where `q1`
/// is fail; every second one also asks `q3`. A record whose `status` is completed may lack none of them.
enum Audits {
    static let entity = EntityName(trusted: "audits")
    static let forms = EntityName(trusted: "forms")
    static let form = "doors"

    static var rules: [EntityName: EntityRules] {
        var audits = EntityRules()
        audits.fields = ["n": .counter, "a": .append]
        audits.form = FormSettings(entity: forms, ref: "form_id", version: "form_version")
        audits.complete = CompleteRule(when: ["status": ["completed"]])
        var forms = EntityRules()
        forms.kind = .reference
        return [entity: audits, self.forms: forms]
    }

    /// The form as its owner writes it.
    static func document(_ version: Int) -> JSONObject {
        var fields: [JSON] = [
            ["id": "q1", "type": "choice", "choices": ["pass", "fail"], "required": true],
            ["id": "q2", "type": "text", "required": true, "visible_when": ["q1": "fail"]],
        ]
        if asksMore(version) { fields.append(["id": "q3", "type": "text", "required": true]) }
        return ["version": .int(Int64(version)), "schema": ["sections": [["id": "all", "fields": .array(fields)]]]]
    }

    /// A version is a record of its own, and the newest one is also the record of the form.
    static func record(_ version: Int?) -> RecordName {
        RecordName(forms, RecordID(trusted: version.map { "\(form):\($0)" } ?? form))
    }

    static func asksMore(_ version: Int) -> Bool { version.isMultiple(of: 2) }

    // MARK: What must be refused

    /// The parts of a record that the form judges.
    private struct Said: Hashable {
        var version: Int?
        var isComplete: Bool
        var holes: Set<String>

        init(_ record: JSONObject) {
            version = record["form_id"]?.text == Audits.form ? record["form_version"]?.int.map { Int($0) } : nil
            isComplete = record["status"]?.text == "completed"
            holes = []
            guard let version else { return }
            if record["q1"]?.text == nil { holes.insert("q1") }
            if record["q1"]?.text == "fail", record["q2"]?.text == nil { holes.insert("q2") }
            if Audits.asksMore(version), record["q3"]?.text == nil { holes.insert("q3") }
        }
    }

    /// Tells if a change completes a record that lacks something.
    ///
    /// - Parameter known: The versions of the form that the judging side has.
    static func leavesHoles(_ after: JSONObject, before: JSONObject?, known: Set<Int>) -> Bool {
        let said = Said(after), earlier = before.map { Said($0) }
        guard said.isComplete else { return false }
        guard let version = said.version else { return earlier?.isComplete != true || earlier?.version != nil }
        guard known.contains(version) else { return false }
        guard let earlier, earlier.isComplete, earlier.version == version else { return !said.holes.isEmpty }
        // A change that leaves a missing answer untouched did not cause the gap.
        return said.holes.contains { !earlier.holes.contains($0) || after[$0] != before?[$0] }
    }
}
