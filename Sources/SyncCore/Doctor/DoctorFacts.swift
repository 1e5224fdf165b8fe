/// All facts that the doctor's checks use, collected at one moment. A fact is `nil` when it is not known, because the agent does not run or
/// the system does not report it; a check of it says so and judges nothing.
package struct DoctorFacts: Hashable, Sendable {
    package var now: Timestamp
    package var agent: Agent?
    package var configuration: Configuration?
    package var system: System?
    package var hub: Hub?
    package var links: Links?
    package var power: Power?
    package var store: Store?
    package var work: Work?

    package init(now: Timestamp) {
        self.now = now
    }

    /// The running agent itself.
    package struct Agent: Hashable, Sendable {
        /// The agent answered. `false`: the facts were collected from outside, because no agent answered.
        package var isRunning: Bool
        /// Process that holds the state folder although no agent answered.
        package var holder: String?
        /// Deaths in a row before this start; `nil` when they are not counted.
        package var deaths: Int?
        package var isSafeMode = false
        /// Present alarms of the agent, sentences by code.
        package var alarms: [String: String] = [:]
        /// Codes of past alarms that were not acknowledged.
        package var pastAlarms: [String] = []
        /// Refusals of the local API since the start, by code.
        package var refusals: [String: Int64] = [:]

        package init(isRunning: Bool) {
            self.isRunning = isRunning
        }
    }

    package struct Configuration: Hashable, Sendable {
        /// Path of the main file.
        package var file: String
        /// The reason why the present files are not in force.
        package var error: String?
        /// The error is in what the hub sent, not in the files.
        package var isErrorOfHub = false
        package var isLastGood = false
        /// Keys whose new value takes effect after a restart.
        package var restartNeeded: [String] = []
        /// Settings on trial, or restored ones: one sentence.
        package var trial: String?
        package var hubURL = ""
        package var isHubPlain = false
        /// Entities whose conflicts are decided by an undocumented rule.
        package var undocumented: [String] = []
        /// Entities that were met but are not configured.
        package var unknownEntities: [String] = []
        /// A machine name was configured or derived.
        package var hasDevice = true
        /// For an existing backend: guarantees that are weaker than with a hub.
        package var weaknesses: [RestWeakness]?

        package init(file: String) {
            self.file = file
        }
    }

    /// Facts from the kernel and from files.
    package struct System: Hashable, Sendable {
        package var stateFolder: String
        package var space: Space?
        /// The fault of the state folder, a sentence; `nil`: there is none.
        package var stateFault: String?
        /// Faults of the configuration files, as sentences: writable by others, not readable.
        package var configurationFaults: [String] = []
        package var token = Secret()
        package var clientKey: Secret?
        package var proxyCredentials: Secret?
        package var clientCertificate: Certificate?
        package var authorities: Certificate?
        /// Type of a file system that does not keep written data: `tmpfs`, `NFS`.
        package var unfitFileSystem: String?
        package var flash = Flash()
        /// `rp_filter` in force by interface: 0 off, 1 strict, 2 loose (ip-sysctl.rst: the higher of `all` and the interface's own).
        package var reversePathFilters: [String: Int] = [:]
        package var openFilesMax: Int64?
        /// A service manager restarts it when it dies; `hasWatchdog`: and when it hangs.
        package var isSupervised: Bool?
        package var hasWatchdog: Bool?
        package var isClockSynchronised: Bool?
        /// Number of databases that were moved aside as damaged.
        package var quarantined = 0
        package var socketFault: String?

        package init(stateFolder: String) {
            self.stateFolder = stateFolder
        }
    }

    package struct Space: Hashable, Sendable {
        package var freeBytes: Int64
        package var totalBytes: Int64
        /// Free inodes; 0 of 0 where the file system creates them on demand.
        package var freeInodes: Int64
        package var totalInodes: Int64
        package var isReadOnly: Bool

        package init(freeBytes: Int64, totalBytes: Int64, freeInodes: Int64, totalInodes: Int64, isReadOnly: Bool) {
            self.freeBytes = freeBytes
            self.totalBytes = totalBytes
            self.freeInodes = freeInodes
            self.totalInodes = totalInodes
            self.isReadOnly = isReadOnly
        }
    }

    package struct Secret: Hashable, Sendable {
        /// Path of the secret; `nil`: none is configured.
        package var path: String?
        /// The reason why it cannot be used; it never contains a byte of the secret.
        package var fault: String?

        package init(path: String? = nil, fault: String? = nil) {
            self.path = path
            self.fault = fault
        }
    }

    package struct Certificate: Hashable, Sendable {
        package var path: String
        /// End of validity of the certificate in the chain that ends first.
        package var endsAt: Timestamp?
        package var fault: String?

        package init(path: String, endsAt: Timestamp? = nil, fault: String? = nil) {
            self.path = path
            self.endsAt = endsAt
            self.fault = fault
        }
    }

    package struct Flash: Hashable, Sendable {
        /// The block device below the state folder, such as `mmcblk0`; `nil` where there is none.
        package var device: String?
        /// Used share of the rated life in steps of 10 %, 1 (up to 10 %) to 11 (more than all), the worse of the two kinds of cells (eMMC
        /// 5.0 and later); `nil` where the device does not report it.
        package var lifeUsed: Int?
        /// Spare blocks: 1 normal, 2 four fifths are used, 3 nine tenths are used.
        package var preEndOfLife: Int?
        /// Bytes written by all programs since the machine was started.
        package var writtenBytes: Int64?
        package var machineUptime: Duration?

        package init() {}
    }

    /// Facts about the hub from its answers, or from their absence.
    package struct Hub: Hashable, Sendable {
        package var reachability: Reachability
        package var place = HubPlace()
        /// The fault that the last attempt found; `nil` when it succeeded.
        package var fault: HubFault?
        /// The cause of the present reachability, in words.
        package var cause: String?
        /// `true` when the hub's name has an address; `nil`: it was not resolved yet.
        package var isResolved: Bool?
        /// The hub is configured as an address, so there is no name to resolve. Both are about the proxy's host where there is one.
        package var isAddress = false
        /// End of validity of the certificate in its chain that ends first; `nil`: no handshake since the start, or no TLS.
        package var certificateEndsAt: Timestamp?
        package var usesTLS = true
        /// The protocol version in use; `nil`: the hub has not answered since the start.
        package var syncVersion: Int?
        /// Versions that the hub supports when ours is not among them.
        package var foreignVersions: [Int] = []
        package var tokenEndsAt: Timestamp?
        /// Time at which the next token is requested; `nil`: not known.
        package var tokenRefreshAt: Timestamp?
        package var clockOffset: Duration?
        /// The scopes and roles of this device; `nil`: the hub knows no scopes.
        package var share: DeviceShare?

        package init(reachability: Reachability) {
            self.reachability = reachability
        }
    }

    package struct Links: Hashable, Sendable {
        package struct Link: Hashable, Sendable {
            package var name: String
            package var kind: LinkKind
            package var cost: LinkCost
            package var isUsable: Bool

            package init(name: String, kind: LinkKind, cost: LinkCost, isUsable: Bool) {
                self.name = name
                self.kind = kind
                self.cost = cost
                self.isUsable = isUsable
            }
        }

        package var all: [Link]
        package var uplink: String?
        /// Budgets of the uplink.
        package var budgets: [Budget] = []

        package init(all: [Link], uplink: String?) {
            self.all = all
            self.uplink = uplink
        }
    }

    package struct Power: Hashable, Sendable {
        package var state: PowerState
        package var level: PowerLevel
        /// Number of power supplies; `nil` when they are not watched.
        package var supplies: Int?

        package init(state: PowerState, level: PowerLevel, supplies: Int?) {
            self.state = state
            self.level = level
            self.supplies = supplies
        }
    }

    package struct Store: Hashable, Sendable {
        /// `ok`, or the complaint of a check of the file.
        package var integrity: String
        /// The file that could not be opened or read, and the reason.
        package var fault: String?
        package var bytes: Int64
        package var maxBytes: Int64
        package var walBytes: Int64
        package var minFreeBytes: Int64
        package var sqlite: String
        /// The present mode, such as `full`; `nil`: no program writes now.
        package var synchronous: String?
        package var isReadOnly = false
        /// Repairs or losses at the last start.
        package var recovery: String?

        package init(
            integrity: String = "ok", bytes: Int64, maxBytes: Int64, walBytes: Int64, minFreeBytes: Int64, sqlite: String
        ) {
            self.integrity = integrity
            self.bytes = bytes
            self.maxBytes = maxBytes
            self.walBytes = walBytes
            self.minFreeBytes = minFreeBytes
            self.sqlite = sqlite
        }
    }

    package struct Work: Hashable, Sendable {
        package var open: Int64
        package var limit: Int64
        /// The number of accepted mutations equals open plus final ones.
        package var isBalanced = true
        /// Age of the oldest mutation that the hub does not have.
        package var oldest: Duration?
        package var rejected: Int64 = 0
        package var parked: Int64 = 0
        package var conflicted: Int64 = 0
        package var lastSuccess: Timestamp?
        /// Time at which this database was created; it counts before the first success.
        package var since: Timestamp
        package var pullInterval: Duration
        package var failures: Int = 0
        package var lastError: String?
        package var lastErrorAt: Timestamp?
        package var pause: EngineMemory.Pause?

        package init(open: Int64, limit: Int64, since: Timestamp, pullInterval: Duration) {
            self.open = open
            self.limit = limit
            self.since = since
            self.pullInterval = pullInterval
        }
    }
}
