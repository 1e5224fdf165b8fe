/// The codes of alarms, as they are in the status, in events, in the doctor's check `alarms` and in the database. This is the only list.
///
/// To add an alarm: a case here, where it shows below, and its row in `deploy/docs/troubleshooting.md`.
package enum AlarmCode: String, Sendable, CaseIterable {
    // Events of the data or of this device's identity. They stay as past alarms until a person acknowledges them.
    case recoveredFromCorruption = "recovered_from_corruption"
    case lostTail = "lost_tail"
    case relaxedLost = "relaxed_lost"
    case identityDamaged = "identity_damaged"
    case replicaRegressed = "replica_regressed"
    case epochChanged = "epoch_changed"
    /// Also a state: two machines with one name are reported as long as there are two.
    case clonedDevice = "cloned_device"

    // Conditions, which end with their cause.
    case massDelete = "mass_delete"
    case newerSchema = "newer_schema"
    case foreignDatabase = "foreign_database"
    case linksUnwatched = "links_unwatched"
    case noFiles = "no_files"
    case streamUnreadable = "stream_unreadable"
    /// Files of the database were moved or removed while it was in use; with `read_only`, they still are missing.
    case databaseRemoved = "database_removed"
    /// The database cannot be read: its numbers in the status are zeros.
    case databaseUnreadable = "database_unreadable"
    /// The file of the local socket is gone and cannot be created again: connected apps are served, and no others.
    case socketRemoved = "socket_removed"
    /// The hub has records that it cannot read itself; they are unchanged here, or missing.
    case recordsUnreadable = "records_unreadable"
    /// The hub's time is not used because it cannot be right, or too few answers agree with it.
    case hubClock = "hub_clock"
    /// An existing backend lists records that are stamped in the future.
    case backendClock = "backend_clock"

    // Conditions that have a place of their own in the status, or that the doctor alone shows.
    case safeMode = "safe_mode"
    case stalled
    case integrity
    case blobMissing = "blob_missing"
    case schemaPending = "schema_pending"
    case configLastGood = "config_last_good"
    case configReverted = "config_reverted"
    case configRejected = "config_rejected"
    case clockSuspect = "clock_suspect"
    case tokenEnds = "token_ends"
    case tokenRefused = "token_refused"

    /// The alarm is one of the status's `alarms`. The others show in a member of their own, such as `config` or `clock`, in events and
    /// in the doctor's checks.
    package var isInStatus: Bool {
        switch self {
        case .recoveredFromCorruption, .lostTail, .massDelete, .clonedDevice, .newerSchema, .replicaRegressed, .epochChanged,
            .identityDamaged, .foreignDatabase, .linksUnwatched, .noFiles, .streamUnreadable, .databaseRemoved, .databaseUnreadable,
            .socketRemoved, .recordsUnreadable, .hubClock, .backendClock:
            true
        case .relaxedLost, .safeMode, .stalled, .integrity, .blobMissing, .schemaPending, .configLastGood, .configReverted,
            .configRejected, .clockSuspect, .tokenEnds, .tokenRefused:
            false
        }
    }

    /// The alarm is an event, which is over once it is reported and is kept until a person acknowledges it. Other alarms are conditions.
    package var isEvent: Bool {
        switch self {
        case .recoveredFromCorruption, .lostTail, .relaxedLost, .identityDamaged, .replicaRegressed, .epochChanged, .clonedDevice: true
        case .massDelete, .newerSchema, .foreignDatabase, .linksUnwatched, .noFiles, .streamUnreadable, .databaseRemoved,
            .databaseUnreadable, .socketRemoved, .recordsUnreadable, .hubClock, .backendClock, .safeMode, .stalled, .integrity,
            .blobMissing, .schemaPending, .configLastGood, .configReverted, .configRejected, .clockSuspect, .tokenEnds, .tokenRefused:
            false
        }
    }

    /// The agent recovers by itself, and the alarm is only reported. All others need a person, and so does a code that is not known here.
    package var heals: Bool {
        switch self {
        case .replicaRegressed, .epochChanged, .hubClock, .backendClock: true
        case .recoveredFromCorruption, .lostTail, .relaxedLost, .identityDamaged, .clonedDevice, .massDelete, .newerSchema,
            .foreignDatabase, .linksUnwatched, .noFiles, .streamUnreadable, .databaseRemoved, .databaseUnreadable, .socketRemoved,
            .recordsUnreadable, .safeMode, .stalled, .integrity, .blobMissing, .schemaPending, .configLastGood, .configReverted,
            .configRejected, .clockSuspect, .tokenEnds, .tokenRefused:
            false
        }
    }
}
