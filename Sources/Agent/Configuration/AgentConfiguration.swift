package import SyncCore

/// All settings of the agent, with their defaults. There is one property for each key of `agentd.yaml`.
///
/// The value is complete and consistent: code that holds one never asks whether a key was given, and no range needs to be checked again.
/// Ranges, spelling and contradictions are in `AgentConfiguration+Format.swift`; `etc/agentd.yaml` explains each key for the operator.
package struct AgentConfiguration: Hashable, Sendable {
    package var hub: Hub
    package var adapter: Adapter = .hub
    /// Description of the requests of an existing backend. Invariant: set if ``adapter`` is `rest`; its address is ``Hub/url`` then.
    package var rest: RestMapping?
    package var socket: Socket
    package var access: AccessRules
    package var store = Store()
    /// Keys `entities` and `strict_entities`.
    package var rules = RuleBook()
    package var sync = Sync()
    package var probe = Probe()
    /// Rules for links. The first rule that matches an interface counts; see ``linkRule(for:)``.
    package var links: [LinkRule] = []
    package var power = Power()
    package var metered = Metered()
    package var blobs = Blobs()
    package var log = Log()
    /// Dotted keys that a hub may not change.
    package var locked: [String] = []

    /// Makes the default configuration. Only the hub's address has no default.
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
        /// Id of the device; `nil`: derived from the machine id, see ``DeviceID/derived(fromMachineID:)``.
        package var device: DeviceID?
        /// Path of the token file; `nil`: the systemd credential `hub-token`.
        package var tokenFile: String?
        /// Path of the certificate authorities, PEM; `nil`: those of the system.
        package var caFile: String?
        /// Path of the client certificate, PEM. Invariant: set if and only if `clientKeyFile` is.
        package var clientCertificateFile: String?
        package var clientKeyFile: String?
        /// Proxy, `http` without a path; `nil`: servers are contacted directly.
        package var proxy: ServiceURL?
        /// Path of a file with `USER:PASSWORD`; `nil`: the systemd credential `hub-proxy`, where there is one.
        package var proxyCredentialsFile: String?
        package var noProxy: [HTTPProxy.Exception] = []
        /// Accepted public keys: one or more `sha256//BASE64`, separated by `;`, as libcurl accepts them.
        package var pin: String?
    }

    /// The protocol of the server.
    package enum Adapter: String, Hashable, Sendable, CaseIterable {
        case hub, rest
    }

    package struct Socket: Hashable, Sendable {
        package static let defaultGroup = "agentd"

        /// Path of the socket, at most 107 bytes: `sun_path` with its final NUL.
        package var path = "/run/agentd/agent.sock"
        /// Owner group of the socket file; `nil` leaves the agent's own group (the default group does not exist here).
        package var group: Account?
        /// Permission bits of the socket file.
        package var mode: UInt16 = 0o660
    }

    package struct Store: Hashable, Sendable {
        /// The state folder.
        package var path = "/var/lib/agentd"
        /// Largest size of the database and its log, bytes; above it new mutations are refused.
        package var maxSizeBytes = 512_000_000
        /// Free space of the file system that must be left, bytes.
        package var minFreeBytes = 64_000_000
        /// Reserved space, bytes, which is released for SQLite when the disk is full. 0: none.
        package var ballastBytes = 2_000_000
        /// Largest number of open mutations.
        package var maxMutations = 100_000
    }

    package struct Sync: Hashable, Sendable {
        package var pullInterval: Duration = .seconds(60)
        package var meteredPullInterval: Duration = .seconds(1_800)
        /// Quiet time after an enqueue of normal priority before a cycle starts.
        package var debounce: Duration = .seconds(2)
        /// Longest delay between failed cycles.
        package var maxBackoff: Duration = .seconds(60)
        /// Longest time between two complete listings.
        package var fullSync: Duration = .seconds(604_800)
        /// Size above which request bodies are compressed, bytes.
        package var compressOverBytes = Limits.compressOver
        /// Time windows for the traffic that ``windowsHold`` selects; empty: always open.
        package var windows: [TimeWindow] = []
        package var windowsHold = WindowsHold.bulk
        package var waitForNews = WaitForNews.auto

        /// The situations in which a pull waits at the hub for news.
        package enum WaitForNews: String, Hashable, Sendable, CaseIterable {
            /// On a link that is not metered, with mains power or an ample battery.
            case auto
            case never
        }

        /// The traffic that waits outside the windows.
        package enum WindowsHold: String, Hashable, Sendable, CaseIterable {
            /// Bulk mutations, files and diagnostics.
            case bulk
            /// Everything, pulls included.
            case all
        }
    }

    package struct Probe: Hashable, Sendable {
        /// URL of the probe; `nil`: the hub's own.
        package var url: ServiceURL?
        package var interval: Duration = .seconds(300)
        package var timeout: Duration = .seconds(5)
    }

    /// Battery thresholds, percent. Invariant: `low + margin <= saver`, unless a threshold is 0, which switches it off.
    package struct Power: Hashable, Sendable {
        package var lowPercent = 15
        package var saverPercent = 30
        /// Distance above a threshold at which its level ends, percent.
        package var marginPercent = 3
        package var allowsCritical = false
        package var sysfsRoot = "/sys"
    }

    package struct Metered: Hashable, Sendable {
        /// Age from which on a normal mutation may use a metered link, within the budget.
        package var maxAge: Duration = .seconds(86_400)
        /// Age from which on a file may use a metered link.
        package var filesMaxAge: Duration = .seconds(7 * 86_400)
    }

    package struct Blobs: Hashable, Sendable {
        /// Size above which a file counts as large for the policy, bytes.
        package var largeBytes = 1 << 20
        package var concurrent = 3
        /// Number of attempts without progress before an upload is parked.
        package var attempts = 5
        package var maxSizeBytes = 2_000_000_000
        /// Largest file that is fetched from the hub, bytes.
        package var fetchMaxSizeBytes = 2_000_000_000
        /// URL of a tus 1.0.0 server; `nil`: the hub.
        package var uploadURL: ServiceURL?
        /// The way to verify that such a server has the sent bytes. The hub always reports the digest.
        package var verify: Verify = .digest
        /// The rule by which a mutation waits for the files that it shows.
        package var gate: Gate = .none
        /// Total size of all files, bytes.
        package var quotaBytes = 4_000_000_000
        /// Retention of uploaded files.
        package var keptFor: Duration = .seconds(7 * 86_400)
        /// Folders from which a client may add files by path.
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
