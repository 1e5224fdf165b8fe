package import Logging
import SyncCore

extension EntityOutcome {
    /// The number of the generation that counts.
    package var generation: Int64 {
        switch self {
        case .applied(let generation), .unchanged(let generation): generation
        case .outranked(let row): row.number
        case .refused(_, let generation): generation
        }
    }

    /// The answer to a command; a command's settings are never outranked, and their refusal is no outcome.
    var json: JSONObject {
        let isNew =
            switch self {
            case .applied: true
            case .unchanged, .outranked, .refused: false
            }
        return ["generation": .int(generation), "applied": .bool(isNew)]
    }

    /// Writes one line about settings of a command, or of a file, for the hub's operator.
    package func write(to log: Logger) {
        switch self {
        case .applied(let generation):
            log.notice("new entity settings are in force", metadata: ["generation": "\(generation)"])
        case .unchanged(let generation):
            log.info("the entity settings are in force already", metadata: ["generation": "\(generation)"])
        case .outranked(let row):
            log.warning(
                "the entities file is not in force: it has not changed since it was last read, and newer settings were applied",
                metadata: [
                    "generation": "\(row.number)", "applied_at": "\(row.appliedAt)", "applied_by": "\(row.appliedBy)",
                    "hint": "to put the file in force: agenthub entities apply FILE",
                ])
        case .refused(let fault, let generation):
            log.error(
                "the entities file is invalid; the present settings stay in force",
                metadata: ["error": "\(fault.detail)", "generation": "\(generation)"])
        }
    }
}
