package import Logging
package import SyncCore
import SyncStore
package import SyncYAML

/// The outside as the agent sees it. `agentd` hands in the system; a test hands in whatever it wants to happen.
package struct AgentEnvironment: Sendable {
    package var transport: any HTTPTransport
    package var compressor: any Compressor
    package var time: any TimeSource
    /// Where files are kept; `nil`: none are taken.
    package var blobs: (any BlobFolder)?
    /// Begins to hash.
    package var hash: @Sendable () -> any RunningDigest = { SlowDigest() }
    /// Changes with every boot of the machine.
    package var bootID: String
    package var seed: UInt64
    package var token: HubClient.TokenReader
    /// Reads a secret for the headers of an existing backend: from that path, or the systemd credential of that name.
    package var secret: RestClient.SecretReader = { file in throw TransportError(.credentials, doing: "read \(file)", detail: "nobody can") }
    /// Free bytes of the file system of the state folder; `nil` when it cannot be asked.
    package var freeBytes: @Sendable () -> Int64?
    /// What the disk refused at the start is tried again after this.
    package var diskRetryAfter = StoreWriter.retryAfter
    package var accounts: Accounts
    /// The configuration files as they are now, the main one first.
    package var configurationFiles: @Sendable () -> [ConfigurationFile]
    /// Keeps a copy of a configuration that is in force, for the day when the files are damaged. Its failure is no reason
    /// to stop.
    package var keepLastGood: @Sendable (LoadedConfiguration) -> Void
    package var log: Logger
    /// The first contact after a start or a gap is drawn from this long.
    package var spread: Duration = .seconds(5)
    /// The agent died several times in a row: the apps are served, and the sync is paused for this long, or until an operator
    /// resumes it. `nil`: all is well.
    package var safeMode: SafeMode?
    /// `nil`: nobody writes down what is on trial, and nothing is.
    package var trials: TrialKeeper?
    package var trialWindow = ConfigurationTrial.window
    /// Between two looks at the token's file, while the hub refuses the token that was shown.
    package var tokenLooks: Duration = .seconds(10)
    /// Where the token is kept that the hub gives.
    package var tokenKeeper = HubClient.TokenKeeper.none
    /// Deaths in a row before this start; `nil` when nobody counts.
    package var deaths: Int?
    /// Looks at files, disk and kernel for the doctor, and answers on any thread, with `nil` when it cannot. `nil`: nobody can.
    package var examine: SystemReader?
    /// `nil`: nobody watches; then a link that costs nothing is taken to be there.
    package var links: (any LinkMonitor)?
    /// Why nobody does, where somebody should.
    package var linksUnwatched: String?
    /// `nil`: nobody watches; then it is mains power.
    package var power: (any PowerMonitor)?
    /// Finds the numeric addresses of a host, `nil` when that failed, and whether it was an address already. May answer on any
    /// thread; must not block. `nil`: nobody can.
    package var resolve: HostResolver?
    /// Runs a program of the operator with one argument, for a bounded time, and says whether it ended with 0, and how it ended in
    /// words. May answer on any thread. `nil`: nobody can.
    package var runProgram: ProgramRunner?
    /// What was connected leads over a link that is gone.
    package var closeIdleConnections: @Sendable () -> Void = {}
    /// Bytes that connections moved after the last request over them, since the last call.
    package var takeLeftover: @Sendable () -> Traffic = { Traffic() }
    /// What an interface has carried, by its own counters; `nil`: not known.
    package var carried: @Sendable (_ link: String) -> UsageReservation.Bytes? = { _ in nil }
    /// Whether the kernel says that the wall clock is kept right.
    package var wallIsSynchronised: @Sendable () -> Bool = { true }
    /// Seconds that local time is ahead of UTC at a given moment.
    package var localOffset: @Sendable (Timestamp) -> Int = { _ in 0 }

    package struct SafeMode: Hashable, Sendable {
        package var deaths: Int
        package var holds: Duration

        package init(deaths: Int, holds: Duration) {
            self.deaths = deaths
            self.holds = holds
        }
    }

    package typealias SystemReader = @Sendable (
        _ questions: DoctorQuestions, _ answer: @escaping @Sendable (DoctorFacts.System?) -> Void
    ) -> Void

    package typealias ProgramRunner = @Sendable (
        _ path: String, _ argument: String, _ onEnd: @escaping @Sendable (_ isGood: Bool, _ result: String) -> Void
    ) -> Void

    package typealias HostResolver = @Sendable (
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
