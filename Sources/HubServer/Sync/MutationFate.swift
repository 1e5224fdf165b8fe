import SyncCore

/// The outcome of a mutation, found by its key.
struct MutationFate {
    enum Ending: Hashable {
        case accepted, conflict, rejected, retry

        init(_ verdict: PushResult.Verdict) {
            switch verdict {
            case .accepted: self = .accepted
            case .conflict: self = .conflict
            case .rejected: self = .rejected
            case .retry: self = .retry
            case .duplicate(let original, _): self = Ending(original)
            }
        }

        init(_ original: PushResult.Original) {
            switch original {
            case .accepted: self = .accepted
            case .conflict: self = .conflict
            case .rejected: self = .rejected
            }
        }
    }

    var fingerprint: [UInt8]
    var ending: Ending
    var version: Int64
    var payload: JSON?

    init(fingerprint: [UInt8], ending: Ending, version: Int64, payload: JSON?) {
        self.fingerprint = fingerprint
        self.ending = ending
        self.version = version
        self.payload = payload
    }

    init(row: HubStore.KeyRow) {
        self.init(
            fingerprint: row.fingerprint, ending: Ending(row.status), version: row.version,
            // An unreadable payload is treated as a forgotten one (``HubStore/prunePayloads(before:)``): the answer still has the
            // ending of the mutation, and the device finds out the rest.
            payload: row.payload.flatMap { try? JSONReader.read($0, limits: .stored) })
    }

    var original: PushResult.Original {
        switch ending {
        case .accepted, .retry: .accepted
        case .conflict: .conflict
        case .rejected: .rejected
        }
    }
}
