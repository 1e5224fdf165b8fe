package import Logging
package import SyncCore
import SyncStore
package import SyncYAML

/// The environment of the agent. `agentd` passes the system's parts, and a test its own.
package struct AgentEnvironment: Sendable {
    package var transport: any HTTPTransport
    package var compressor: any Compressor
    package var time: any TimeSource
    /// Storage of files; `nil`: files are not accepted.
    package var blobs: (any BlobFolder)?
    /// Creates a hash.
    package var hash: @Sendable () -> any RunningDigest = { SlowDigest() }
    /// Id that changes with every boot of the machine.
    package var bootID: String
    package var seed: UInt64
    package var token: HubClient.TokenReader
    /// Reads a secret for the headers of an existing backend: from that path, or the systemd credential of that name.
    package var secret: RestClient.SecretReader = { file in throw TransportError(.credentials, doing: "read \(file)", detail: "no reader")
    }
    /// Free space on the file system of the state folder, bytes; `nil` when it is not known.
    package var freeBytes: @Sendable () -> Int64?
    /// Time after which an operation that the disk refused at the start is tried again.
    package var diskRetryAfter = StoreWriter.retryAfter
    package var accounts: Accounts
    /// Reads the present configuration files, the main one first.
    package var configurationFiles: @Sendable () -> [ConfigurationFile]
    /// Stores a copy of a configuration that is in force, for a start with damaged files. A failure does not stop the agent.
    package var keepLastGood: @Sendable (LoadedConfiguration) -> Void
    package var log: Logger
    /// The first contact after a start or a gap is at a random moment within this time.
    package var spread: Duration = .seconds(5)
    /// Set after several crashes in a row: apps are served, and the sync is paused for this long, or until an operator resumes it. `nil`:
    /// normal start.
    package var safeMode: SafeMode?
    /// Stores the state of a trial; `nil`: there are no trials.
    package var trials: TrialKeeper?
    package var trialWindow = ConfigurationTrial.window
    /// Interval between checks of the token's file, while the hub refuses the token in use.
    package var tokenLooks: Duration = .seconds(10)
    /// Storage of the token that the hub issues.
    package var tokenKeeper = HubClient.TokenKeeper.none
    /// Number of crashes in a row before this start; `nil` when they are not counted.
    package var deaths: Int?
    /// Collects facts about files, disk and kernel for the doctor. It answers on any thread, with `nil` on failure. `nil`: not available.
    package var examine: SystemReader?
    /// Watches the links; `nil`: not available, and an unmetered link is assumed.
    package var links: (any LinkMonitor)?
    /// The reason why links are not watched although they should be.
    package var linksUnwatched: String?
    /// Watches the power supply; `nil`: not available, and mains power is assumed.
    package var power: (any PowerMonitor)?
    /// Resolves a host to numeric addresses, `nil` on failure, and tells whether it was an address already. It may answer on any thread and
    /// must not block. `nil`: not available.
    package var resolve: HostResolver?
    /// Runs a program of the operator with one argument, for a limited time. It returns whether the status was 0, and a description of the
    /// end. It may answer on any thread. `nil`: not available.
    package var runProgram: ProgramRunner?
    /// Closes idle connections, which lead over a link that is gone.
    package var closeIdleConnections: @Sendable () -> Void = {}
    /// Returns the bytes that connections moved after their last request, since the last call.
    package var takeLeftover: @Sendable () -> Traffic = { Traffic() }
    /// Bytes that an interface has carried, by its own counters; `nil`: not known.
    package var carried: @Sendable (_ link: String) -> UsageReservation.Bytes? = { _ in nil }
    /// `true` when the kernel reports that the wall clock is synchronised.
    package var wallIsSynchronised: @Sendable () -> Bool = { true }
    /// Offset of local time from UTC at a given moment, seconds.
    package var localOffset: @Sendable (Timestamp) -> Int = { _ in 0 }

    package struct SafeMode: Hashable, Sendable {
        package var deaths: Int
        package var holds: Duration

        package init(deaths: Int, holds: Duration) {
            self.deaths = deaths
            self.holds = holds
        }
    }

    package typealias SystemReader =
        @Sendable (
            _ questions: DoctorQuestions, _ answer: @escaping @Sendable (DoctorFacts.System?) -> Void
        ) -> Void

    package typealias ProgramRunner =
        @Sendable (
            _ path: String, _ argument: String, _ onEnd: @escaping @Sendable (_ isGood: Bool, _ result: String) -> Void
        ) -> Void

    package typealias HostResolver =
        @Sendable (
            _ host: String, _ answer: @escaping @Sendable (_ addresses: [String]?, _ isLiteral: Bool) -> Void
        ) -> Void

    /// A file that came with the program, by its path below the folder that holds `bin`; `nil`: it is not there.
    package var installedFile: @Sendable (_ path: String) -> [UInt8]? = { _ in nil }

    package init(
        transport: any HTTPTransport, compressor: any Compressor, time: any TimeSource, bootID: String, seed: UInt64,
        token: @escaping HubClient.TokenReader, freeBytes: @escaping @Sendable () -> Int64?,
        accounts: Accounts, configurationFiles: @escaping @Sendable () -> [ConfigurationFile],
        keepLastGood: @escaping @Sendable (LoadedConfiguration) -> Void, log: Logger
    ) {
        self.transport = transport
        self.compressor = compressor
        self.time = time
        self.bootID = bootID
        self.seed = seed
        self.token = token
        self.freeBytes = freeBytes
        self.accounts = accounts
        self.configurationFiles = configurationFiles
        self.keepLastGood = keepLastGood
        self.log = log
    }
}
