package import SyncCore

/// Everything that an operator can tell the agent, with its defaults. One property for each key of `agentd.yaml`.
///
/// The value is complete and consistent: whoever holds one never asks whether a key was given, and no range needs to
/// be checked again. Ranges, spelling and what contradicts what are in `AgentConfiguration+Format.swift`; each key is
/// explained for the operator in `etc/agentd.yaml`.
package struct AgentConfiguration: Hashable, Sendable {
    package var hub: Hub
    package var adapter: Adapter = .hub
    /// How the requests of an existing backend look. Invariant: set if ``adapter`` is `rest`; its address is ``Hub/url`` then.
    package var rest: RestMapping?
    package var socket: Socket
    package var access: AccessRules
    package var store = Store()
    /// Keys `entities` and `strict_entities`.
    package var rules = RuleBook()
    package var sync = Sync()
    package var probe = Probe()
    /// The first rule that matches an interface counts; see ``linkRule(for:)``.
    package var links: [LinkRule] = []
    package var power = Power()
    package var metered = Metered()
    package var blobs = Blobs()
    package var log = Log()
    /// Dotted keys that a hub may not change.
    package var locked: [String] = []

    /// The defaults. Only the hub's address has none.
    package init(hub url: ServiceURL, accounts: Accounts) {
        hub = Hub(url: url)
        socket = Socket(group: accounts.named(group: Socket.defaultGroup))
        access = .standard(accounts)
    }

    /// The first rule whose pattern matches that interface name.
    package func linkRule(for interface: String) -> LinkRule? {
        links.first { $0.match.matches(interface) }
    }

    package struct Hub: Hashable, Sendable {
        package var url: ServiceURL
        /// `nil`: derived from the machine id, see ``DeviceID/derived(fromMachineID:)``.
        package var device: DeviceID?
        /// `nil`: the systemd credential `hub-token`.
        package var tokenFile: String?
        /// PEM; `nil`: the system's certificate authorities.
        package var caFile: String?
        /// PEM. Invariant: set if and only if `clientKeyFile` is.
        package var clientCertificateFile: String?
        package var clientKeyFile: String?
        /// `http`, without a path; `nil`: the servers are asked directly.
        package var proxy: ServiceURL?
        /// `USER:PASSWORD`; `nil`: the systemd credential `hub-proxy`, where there is one.
        package var proxyCredentialsFile: String?
        package var noProxy: [HTTPProxy.Exception] = []
        /// One or more `sha256//BASE64` of accepted public keys, with `;` between them, as libcurl takes them.
        package var pin: String?
    }

    /// Which protocol the server speaks.
    package enum Adapter: String, Hashable, Sendable, CaseIterable {
        case hub, rest
    }

    package struct Socket: Hashable, Sendable {
        package static let defaultGroup = "agentd"

        /// At most 107 bytes: `sun_path` with its final NUL.
        package var path = "/run/agentd/agent.sock"
        /// Owner group of the socket file; `nil` leaves the agent's own group (the default group does not exist here).
        package var group: Account?
        /// Permission bits of the socket file.
        package var mode: UInt16 = 0o660
    }

    package struct Store: Hashable, Sendable {
        /// The state folder.
        package var path = "/var/lib/agentd"
        /// Database and its log; above it new mutations are refused.
        package var maxSizeBytes = 512_000_000
        /// Free space of the file system that is left alone.
        package var minFreeBytes = 64_000_000
        /// Kept occupied while all is well, and given back to SQLite when the disk is full. 0: none.
        package var ballastBytes = 2_000_000
        /// Open mutations.
        package var maxMutations = 100_000
    }

    package struct Sync: Hashable, Sendable {
        package var pullInterval: Duration = .seconds(60)
        package var meteredPullInterval: Duration = .seconds(1_800)
        /// Quiet time after an enqueue of normal priority before a cycle starts.
        package var debounce: Duration = .seconds(2)
        /// Ceiling of the wait between failed cycles.
        package var maxBackoff: Duration = .seconds(60)
        /// Longest time between two complete listings.
        package var fullSync: Duration = .seconds(604_800)
        /// Request bodies larger than this are gzipped.
        package var compressOverBytes = Limits.compressOver
        /// When what ``windowsHold`` says may go; empty: always.
        package var windows: [TimeWindow] = []
        package var windowsHold = WindowsHold.bulk

        /// What waits outside the windows.
        package enum WindowsHold: String, Hashable, Sendable, CaseIterable {
            /// Bulk mutations, files and diagnostics.
            case bulk
            /// Everything, pulls included.
            case all
        }
    }

    package struct Probe: Hashable, Sendable {
        /// `nil`: the hub's own probe.
        package var url: ServiceURL?
        package var interval: Duration = .seconds(300)
        package var timeout: Duration = .seconds(5)
    }

    /// Battery thresholds in percent. Invariant: `low + margin <= saver`, unless a threshold is 0, which switches it
    /// off.
    package struct Power: Hashable, Sendable {
        package var lowPercent = 15
        package var saverPercent = 30
        /// A threshold is left only this far above it.
        package var marginPercent = 3
        package var allowsCritical = false
        package var sysfsRoot = "/sys"
    }

    package struct Metered: Hashable, Sendable {
        /// A normal mutation that has waited this long goes over a metered link too, within the budget.
        package var maxAge: Duration = .seconds(86_400)
        /// The same for a file.
        package var filesMaxAge: Duration = .seconds(7 * 86_400)
    }

    package struct Blobs: Hashable, Sendable {
        /// A file larger than this is a large one for the policy.
        package var largeBytes = 1 << 20
        package var concurrent = 3
        /// Attempts without progress before an upload is parked.
        package var attempts = 5
        package var maxSizeBytes = 2_000_000_000
        /// Any tus 1.0.0 server; `nil`: the hub.
        package var uploadURL: ServiceURL?
        /// How it is found out that such a server has what was sent. The hub always says it.
        package var verify: Verify = .digest
        /// Whether a mutation waits for the files that it shows.
        package var gate: Gate = .none
        /// All files together, bytes.
        package var quotaBytes = 4_000_000_000
        /// What is uploaded stays for this long.
        package var keptFor: Duration = .seconds(7 * 86_400)
        /// Folders below which a client may name a file.
        package var importDirectories: [String] = []

        package enum Verify: String, Hashable, Sendable, CaseIterable { case digest, download, none }
        package enum Gate: String, Hashable, Sendable, CaseIterable { case none, before }
    }

    package struct Log: Hashable, Sendable {
        package enum Level: String, Hashable, Sendable, CaseIterable {
            case trace, debug, info, notice, warning, error, critical
        }

        package enum Style: String, Hashable, Sendable, CaseIterable {
            case text, json
        }

        package var level: Level = .info
        package var format: Style = .text
    }
}
