import Logging
import SyncCore

extension HubNotice {
    /// Writes one line for the hub's operator.
    func write(to log: Logger) {
        switch self {
        case .newHistory(let cause, let from, let to, let head, let device):
            var metadata: Logger.Metadata = [
                "cause": "\(cause.rawValue)", "before": "\(from)", "epoch": "\(to)", "head": "\(head)",
            ]
            if let device { metadata["device"] = "\(device)" }
            log.warning("a new history begins: \(cause.sentence); devices send again what is missing", metadata: metadata)
        case .unproved(let device, let version, let head):
            log.warning(
                "a device names a version that this history has not reached, and gives no proof; other devices are not affected",
                metadata: ["device": "\(device)", "version": "\(version)", "head": "\(head)"])
        case .returned(let device, let replica):
            log.warning(
                "a database of a device came back after a newer one: it was restored from an old copy, and gets a new id",
                metadata: ["device": "\(device)", "replica": "\(replica)"])
        case .keeping(let device, let entity):
            log.warning(
                "a device gets no records of an entity until its agentd is updated, because it would keep records that left its share",
                metadata: ["device": "\(device)", "entity": "\(entity)"])
        case .overGranted(let device):
            log.warning(
                "records grant a device more values than count; it receives nothing by the last ones in the order of field and value",
                metadata: ["device": "\(device)", "limit": "\(DeviceAccess.grantsMax)"])
        case .clockJumped(let from, let to, let until):
            log.warning(
                "the clock has jumped since the last housekeeping: no events are removed until it is corrected, or has run on for 7 days",
                metadata: ["before": "\(from)", "now": "\(to)", "until": "\(until)"])
        }
    }
}

extension HubLineage.Cause {
    /// The reason for people.
    package var sentence: String {
        switch self {
        case .created: "the database was made"
        case .opened: "the database was opened"
        case .elsewhere: "a device has synced with a history that this database does not know"
        case .requested: "an operator asked for it"
        case .mark: "the database is older than the mark beside it"
        case .cursor, .receipt: "a device proved that the database was replaced by an older copy"
        case .witnessed: "the database was replaced by an older copy while the hub ran"
        case .repaired: "the hub's own row was missing, or behind its records"
        }
    }
}
