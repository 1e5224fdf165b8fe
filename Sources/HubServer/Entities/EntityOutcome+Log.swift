package import Logging
import SyncCore

extension EntityOutcome {
    /// The number of the generation that counts.
    package var generation: Int64 {
        switch self {
        case .applied(let generation), .unchanged(let generation): generation
        case .outranked(let row): row.number
        }
    }

    /// The answer to a command; a command's settings are never outranked.
    var json: JSONObject {
        let isNew =
            switch self {
            case .applied: true
            case .unchanged, .outranked: false
            }
        return ["generation": .int(generation), "applied": .bool(isNew)]
    }

    /// Writes one line about settings of a command, or of a file, for the hub's operator.
    package func write(to log: Logger) {
        switch self {
        case .applied(let generation):
            log.notice("entity settings count from now on", metadata: ["generation": "\(generation)"])
        case .unchanged(let generation):
            log.info("entity settings count already", metadata: ["generation": "\(generation)"])
        case .outranked(let row):
            log.warning(
                "the entities file has not changed since it was read last, and settings that were applied after it count",
                metadata: [
                    "generation": "\(row.number)", "applied_at": "\(row.appliedAt)", "applied_by": "\(row.appliedBy)",
                    "hint": "agenthub entities apply FILE makes the file count",
                ])
        }
    }
}
