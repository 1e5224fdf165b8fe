import LocalAPI
import SyncCore
import SyncStore

// Progress of a record by its form, read from the mirror alone.
extension Agent {
    func showProgress(_ call: LocalCall, _ name: RecordName) throws(Problem) {
        try call.checkEntity(name.entity)
        let unknown = unknownEntity(name.entity)
        let rules = loaded.configuration.rules[name.entity] ?? EntityRules()
        read(call) { reads, _ throws(StoreError) in
            let progress = try reads.progress(name, rules)
            guard progress == nil, let unknown else { return (progress, nil) }
            return (progress, try reads.knows(name.entity) ? nil : unknown)
        } answer: { (progress: RecordProgress?, unknown: String?) in
            guard let progress else { return LocalProblem.notFound.problem(unknown ?? "there is no record \(name)").localAnswer }
            guard progress.isKept else { return RecordSnapshot.notKept(name).localAnswer }
            return ProgressAnswer.answer(progress)
        }
    }
}
