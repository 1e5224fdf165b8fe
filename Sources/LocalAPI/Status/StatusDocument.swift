package import SyncCore

/// `GET /v1/status`: the agent's knowledge about itself, from facts only. Events that never happened are shown as such.
///
/// Members are only ever added, never renamed or removed, because monitoring reads them. Parts that an agent does not have yet are absent,
/// not empty.
package struct StatusDocument: Hashable, Sendable {
    package static let schema = "status/1"

    package var agent: Agent
    package var database: Database
    package var configuration: Configuration
    package var connectivity: Connectivity
    /// The reason why waiting work is not sent, or, without waiting work, would not be sent; `nil`: it goes.
    package var cause: PresentCause?
    package var verdicts: [ClassVerdict]
    package var sync: Sync
    package var outbox: Outbox
    /// Mutations that wait for a person, newest first, at most ``attentionMax``; the counts are in ``outbox``.
    package var attention: [Attention]
    /// Conflicts awaiting a decision; `nil` if not reported.
    package var conflicts: Int64?
    package var entities: [Entity]
    package var apps: [App]
    /// Bytes of today over all links; `nil` when they are not counted.
    package var usage: Usage?
    /// The power supply; `nil` when it is not watched.
    package var power: PowerState?
    /// The files; `nil` where they are not accepted.
    package var blobs: Blobs?
    /// Present alarms about the data itself, by code.
    package var alarms: [Alarm] = []
    /// Past alarms that were not acknowledged.
    package var pastAlarms: [Alarm] = []
    /// Summary of the doctor's checks; `nil` when there were none.
    package var checklist: Checklist?

    package static let attentionMax = 5

    package struct Agent: Hashable, Sendable {
        package var version: String
        package var device: String
        package var replica: String
        package var hub: String
        package var uptime: Duration

        package init(version: String, device: String, replica: String, hub: String, uptime: Duration) {
            self.version = version
            self.device = device
            self.replica = replica
            self.hub = hub
            self.uptime = uptime
        }
    }

    package struct Database: Hashable, Sendable {
        /// Ability of the agent to accept new work, and the reason when it does not.
        package enum State: String, Sendable, CaseIterable {
            case ok
            case queueFull = "queue_full"
            case diskFull = "disk_full"
            case readOnly = "read_only"
        }

        package var state: State
        package var bytes: Int64
        package var walBytes: Int64
        package var freeBytes: Int64?
        package var schema: Int64
        package var sqlite: String
        /// Mode such as `full`, as read back from the writing connection.
        package var durability: String
        /// `ok`, or the finding of the last check.
        package var integrity: String
        /// Repairs or losses at the last opening of the store, in words; `nil` after an ordinary start.
        package var recovery: String?

        package init(
            state: State = .ok, bytes: Int64, walBytes: Int64, freeBytes: Int64? = nil, schema: Int64, sqlite: String,
            durability: String = "full", integrity: String = "ok", recovery: String? = nil
        ) {
            self.state = state
            self.bytes = bytes
            self.walBytes = walBytes
            self.freeBytes = freeBytes
            self.schema = schema
            self.sqlite = sqlite
            self.durability = durability
            self.integrity = integrity
            self.recovery = recovery
        }
    }

    package struct Configuration: Hashable, Sendable {
        package var version: Int64
        /// Origin: `file`; `last_good` when the files were not accepted at the start; `reverted` when its way to the hub was restored.
        package var source: String
        /// The reason why the last reload was refused, one line with file, line and column.
        package var error: String?
        /// Settings on trial, or restored ones; `nil`: none.
        package var trial: String?

        package init(version: Int64, source: String = "file", error: String? = nil, trial: String? = nil) {
            self.trial = trial
            self.version = version
            self.source = source
            self.error = error
        }
    }

    package struct Connectivity: Hashable, Sendable {
        /// `offline`, `connecting`, `captive`, `degraded`, `auth`, `online`; further words of a newer agent are shown unchanged.
        package var state: String
        package var since: Timestamp?
        /// The last transition in words or as a code (`link up`, `probe_ok`); while the hub is not reached, the sentence of the fault.
        package var cause: String?
        /// One sentence for people.
        package var detail: String?
        package var portalURL: String?
        package var uplink: String?
        package var links: [LinkItem]

        package init(
            state: String, since: Timestamp? = nil, cause: String? = nil, detail: String? = nil,
            portalURL: String? = nil,
            uplink: String? = nil, links: [LinkItem] = []
        ) {
            self.state = state
            self.since = since
            self.cause = cause
            self.detail = detail
            self.portalURL = portalURL
            self.uplink = uplink
            self.links = links
        }
    }

    package init(
        agent: Agent, database: Database, configuration: Configuration, connectivity: Connectivity,
        verdicts: [ClassVerdict] = [], sync: Sync = Sync(), outbox: Outbox = Outbox(), attention: [Attention] = [],
        entities: [Entity] = [], apps: [App] = [], usage: Usage? = nil, power: PowerState? = nil
    ) {
        self.agent = agent
        self.database = database
        self.configuration = configuration
        self.connectivity = connectivity
        self.verdicts = verdicts
        self.sync = sync
        self.outbox = outbox
        self.attention = attention
        self.entities = entities
        self.apps = apps
        self.usage = usage
        self.power = power
    }
}
