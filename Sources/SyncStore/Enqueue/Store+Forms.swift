import SyncCore

// The form of a record judges its changes before they are written (PROTOCOL A12).
extension Store {
    /// The verdict of a record's form about a change.
    ///
    /// - Parameters:
    ///   - after: The view with the change; `nil` when it deletes the record.
    ///   - before: The view without it; `nil` when there is no record.
    ///   - id: The record; `nil` for a new one whose id the agent makes.
    func formVerdict(_ rules: EntityRules, after: JSONObject?, before: JSONObject?, of id: RecordID?) throws(StoreError) -> FormVerdict {
        guard let form = rules.form, var after else { return FormVerdict() }
        var before = before
        let reads = reads
        // A draft is judged by its own fields alone: only a complete record asks for all answers.
        if let answers = form.answers, let id, rules.complete?.matches(after) == true {
            let found = try reads.answers(to: id, answers)
            after = answers.join(found, to: after)
            before = before.map { answers.join(found, to: $0) }
        }
        return try FormVerdict(rules, after: after, before: before) { name, settings throws(StoreError) in
            try forms.find(name, settings) { name throws(StoreError) in try reads.formSource(name) }
        }
    }

    /// A record that says that it is complete may lack nothing, also where the entity only warns of wrong values: the person who can fill
    /// the hole is in front of the device now, and the hub would refuse the change.
    ///
    /// - Throws: `.refused` with `validation` and a pointer to each hole, and to each wrong answer where the entity asks for that.
    func checkForm(_ intent: EnqueueIntent) throws(StoreError) {
        let verdict = intent.formVerdict
        intent.unjudged = verdict.unjudged
        let isRefused = !verdict.holes.isEmpty || intent.rules.validation == .reject && !verdict.faults.isEmpty
        if isRefused { throw StoreProblem.faults(verdict.all, in: intent.mutation.entity.text) }
        intent.warnings += verdict.faults.filter { !intent.warnings.contains($0) }
    }
}
