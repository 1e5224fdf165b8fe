import LocalAPI
import SyncCore
import SyncStore

extension StoreError {
    /// The problem that an app gets. Details of the medium stay in the log.
    var localProblem: Problem {
        if let problem { return problem }
        switch code {
        case .diskFull: return LocalProblem.diskFull.problem("the disk of the agent is full", retryAfter: 60)
        case .unknownOutcome:
            return LocalProblem.outcomeUnknown.problem(
                "the disk failed during the write, so it is unknown if the change was stored", members: ["outcome": "unknown"])
        case .corrupt, .notADatabase:
            return LocalProblem.starting.problem(
                "the database is damaged; the agent restarts and repairs it", retryAfter: 5)
        case .ioError where isFailedRead:
            return LocalProblem.readOnly.problem("the agent cannot read its disk", retryAfter: 1)
        case .removed:
            return LocalProblem.readOnly.problem("the database of the agent was moved or removed while it was in use", retryAfter: 30)
        case .tooSlow: return LocalProblem.tooSlow.problem("the query looks at more records than a read of 2 s can")
        case .locked: return LocalProblem.starting.problem("the database is busy", retryAfter: 1)
        case .constraint:
            // A fault in this program. The operation was rolled back, and the same request may succeed later.
            return LocalProblem.readOnly.problem(
                "the agent refused to store this because its own check failed; the agent's log says which", retryAfter: 30)
        case .refused, .ioError, .readOnly, .cannotOpen, .newerSchema, .foreignFile, .notDurable, .lostDatabase, .outOfMemory, .closed,
            .stopped, .other:
            return LocalProblem.readOnly.problem("the agent cannot write to its disk", retryAfter: 30)
        }
    }
}
