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
            guard let progress = try reads.progress(name, rules) else { return .failure(try reads.absence(of: name, unknown)) }
            return .success(progress)
        } answer: { (progress: Result<RecordProgress, Problem>) in
            switch progress {
            case .success(let progress) where progress.isKept: ProgressAnswer.answer(progress)
            case .success: RecordSnapshot.notKept(name).localAnswer
            case .failure(let problem): problem.localAnswer
            }
        }
    }
}
