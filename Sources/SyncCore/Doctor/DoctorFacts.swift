/// Everything that the doctor's checks look at, collected beforehand at one moment. What is `nil` is not known: the agent does
/// not run, or the system does not tell; a check of it says so and judges nothing.
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
        /// It answered. `false`: looked at from outside, because none did.
        package var isRunning: Bool
        /// Process that holds the state folder all the same.
        package var holder: String?
        /// Deaths in a row before this start; `nil` when nobody counts.
        package var deaths: Int?
        package var isSafeMode = false
        /// What it raised and nobody has settled, sentences by code.
        package var alarms: [String: String] = [:]
        /// Codes of what is over and was not acknowledged.
        package var pastAlarms: [String] = []
        /// Refusals of the local API since the start, by code.
        package var refusals: [String: Int64] = [:]

        package init(isRunning: Bool) {
            self.isRunning = isRunning
        }
    }

    package struct Configuration: Hashable, Sendable {
        /// The main file.
        package var file: String
        /// Why the files, as they are now, are not in force.
        package var error: String?
        package var isLastGood = false
        /// Keys whose new value waits for a restart.
        package var restartNeeded: [String] = []
        /// What is being tried, or was taken back: one sentence.
        package var trial: String?
        package var hubURL = ""
        package var isHubPlain = false
        /// Entities whose conflicts are decided by a rule that nobody wrote down.
        package var undocumented: [String] = []
        /// Entities that were met and are not configured.
        package var unknownEntities: [String] = []
        /// Whether a machine name was given, or derived.
        package var hasDevice = true
        /// Where the server is an existing backend: what is weaker there than with a hub.
        package var weaknesses: [RestWeakness]?

        package init(file: String) {
            self.file = file
        }
    }

    /// What the kernel and the files say.
    package struct System: Hashable, Sendable {
        package var stateFolder: String
        package var space: Space?
        /// `nil`: it is there and as it should be. A sentence otherwise.
        package var stateFault: String?
        /// Sentences about the configuration files: writable by others, not readable.
        package var configurationFaults: [String] = []
        package var token = Secret()
        package var clientKey: Secret?
        package var proxyCredentials: Secret?
        package var clientCertificate: Certificate?
        package var authorities: Certificate?
        /// A word that says what it is, where it does not keep what is written: `tmpfs`, `NFS`.
        package var unfitFileSystem: String?
        package var flash = Flash()
        /// `rp_filter` in force by interface: 0 off, 1 strict, 2 loose (ip-sysctl.rst: the higher of `all` and its own).
        package var reversePathFilters: [String: Int] = [:]
        package var openFilesMax: Int64?
        /// Somebody restarts it when it dies; and bites when it hangs.
        package var isSupervised: Bool?
        package var hasWatchdog: Bool?
        package var isClockSynchronised: Bool?
        /// Databases that were set aside as damaged.
        package var quarantined = 0
        package var socketFault: String?

        package init(stateFolder: String) {
            self.stateFolder = stateFolder
        }
    }

    package struct Space: Hashable, Sendable {
        package var freeBytes: Int64
        package var totalBytes: Int64
        /// 0 of 0 where the file system makes them as it needs them.
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
        /// `nil`: none is named.
        package var path: String?
        /// Why it cannot be used; never a byte of it.
        package var fault: String?

        package init(path: String? = nil, fault: String? = nil) {
            self.path = path
            self.fault = fault
        }
    }

    package struct Certificate: Hashable, Sendable {
        package var path: String
        /// The first of the chain to end.
        package var endsAt: Timestamp?
        package var fault: String?

        package init(path: String, endsAt: Timestamp? = nil, fault: String? = nil) {
            self.path = path
            self.endsAt = endsAt
            self.fault = fault
        }
    }

    package struct Flash: Hashable, Sendable {
        /// The block device below the state folder, `mmcblk0`; `nil` where it is not one.
        package var device: String?
        /// eMMC 5.0 and later: used share of the rated life in steps of 10 %, 1 (up to 10 %) to 11 (more than all), the worse
        /// of its two kinds of cells; `nil` where the device does not tell.
        package var lifeUsed: Int?
        /// Spare blocks: 1 normal, 2 four fifths are used, 3 nine tenths are used.
        package var preEndOfLife: Int?
        /// By anybody, since the machine was started.
        package var writtenBytes: Int64?
        package var machineUptime: Duration?

        package init() {}
    }

    /// What is known of the hub by its answers, or by their absence.
    package struct Hub: Hashable, Sendable {
        package var reachability: Reachability
        package var place = HubPlace()
        /// What the last attempt found; `nil` when it went well.
        package var fault: HubFault?
        /// Of the present reachability, in words.
        package var cause: String?
        /// `nil`: nobody asked for it yet.
        package var isResolved: Bool?
        /// Numeric in the configuration: there is no name to resolve. Both are about the proxy's host where there is one.
        package var isAddress = false
        /// Of the first certificate of its chain to end; `nil`: no handshake since the start, or no TLS.
        package var certificateEndsAt: Timestamp?
        package var usesTLS = true
        /// The version both speak; `nil`: it has not answered since the start.
        package var syncVersion: Int?
        /// Versions that it speaks when ours is not among them.
        package var foreignVersions: [Int] = []
        package var tokenEndsAt: Timestamp?
        /// When the next one is asked for; `nil`: not known.
        package var tokenRefreshAt: Timestamp?
        package var clockOffset: Duration?

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
        /// Of the uplink.
        package var budgets: [Budget] = []

        package init(all: [Link], uplink: String?) {
            self.all = all
            self.uplink = uplink
        }
    }

    package struct Power: Hashable, Sendable {
        package var state: PowerState
        package var level: PowerLevel
        /// Supplies that were found; `nil` when nobody watches.
        package var supplies: Int?

        package init(state: PowerState, level: PowerLevel, supplies: Int?) {
            self.state = state
            self.level = level
            self.supplies = supplies
        }
    }

    package struct Store: Hashable, Sendable {
        /// `ok`, or what a check of the file complained about.
        package var integrity: String
        /// What could not be opened or read, and why.
        package var fault: String?
        package var bytes: Int64
        package var maxBytes: Int64
        package var walBytes: Int64
        package var minFreeBytes: Int64
        package var sqlite: String
        /// `full`; `nil`: nobody writes now.
        package var synchronous: String?
        package var isReadOnly = false
        /// What was repaired or lost at the last start.
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
        /// Accepted = open + final.
        package var isBalanced = true
        /// Age of the oldest mutation that the hub does not have.
        package var oldest: Duration?
        package var rejected: Int64 = 0
        package var parked: Int64 = 0
        package var conflicted: Int64 = 0
        package var lastSuccess: Timestamp?
        /// When this database was made: before the first success that is what counts.
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
