import Agent
import Glibc
import Logging
import SyncCore
import SyncLinux
import SyncStore

// The system's parts in the form that the agent uses.
extension DaemonRunner {
    static func makeEnvironment(
        _ start: DaemonStart, _ machine: Machine, _ transport: CurlTransport, _ lastGood: LastGoodFiles, _ count: CrashCount
    ) -> AgentEnvironment {
        let (state, log, config, notifier) = (start.state, start.log, start.config, start.notifier)
        let credentials = HubCredentials(start.configuration.hub)
        var environment = AgentEnvironment(
            transport: transport, compressor: ZlibCompressor(), time: SystemClocks(), bootID: machine.bootID, seed: machine.seed,
            token: { try credentials.token() },
            // `try?`: an unknown value is reported as such; a full disk shows at the next write.
            freeBytes: { (try? state.freeSpace())?.freeBytes },
            accounts: SystemAccounts.accounts, configurationFiles: { ConfigurationLoader.files(main: config) },
            keepLastGood: { lastGood.keep($0, in: state.path, log) }, log: log)
        environment.diskRetryAfter = storeRetryAfter
        environment.blobs = BlobFiles(at: state.path + "/blobs")
        environment.hash = { FileHash() }
        environment.secret = { file in try HubCredentials.secret(file) }
        environment.deaths = count.deaths
        if count.isSafeMode { environment.safeMode = .init(deaths: count.deaths, holds: CrashCount.window) }
        environment.trials = TrialFiles(stateFolder: state.path, log).keeper
        environment.tokenKeeper = KeptTokenFile(stateFolder: state.path).keeper
        environment.examine = { questions, answer in
            SystemExaminer.ofThisProcess.examine(credentials.completing(questions), notifier, answer)
        }
        addMonitors(to: &environment, start)
        environment.resolve = HubAddresses(log).resolve
        environment.closeIdleConnections = { transport.closeIdleConnections() }
        environment.runProgram = { path, argument, onEnd in
            OperatorProgram.run(path, argument: argument, limit: .seconds(60)) { onEnd($0.isGood, "\($0)") }
        }
        environment.installedFile = { InstalledFile.read($0) }
        environment.takeLeftover = { transport.takeLeftover() }
        environment.carried = { InterfaceCounters.carried(by: $0) }
        environment.localOffset = { LocalTime.offset(at: $0) }
        environment.wallIsSynchronised = { SystemClocks.isSynchronised }
        return environment
    }

    /// Adds the monitors of links and power. Without one the agent works with an assumption.
    private static func addMonitors(to environment: inout AgentEnvironment, _ start: DaemonStart) {
        let log = start.log
        do throws(LinuxError) {
            environment.links = try netlink(start.configuration, log)
        } catch {
            log.error("the links cannot be watched; an unmetered link is assumed", metadata: ["error": "\(error)"])
            environment.linksUnwatched = "\(error)"
        }
        environment.power = SysfsPowerMonitor { error in
            log.warning("changes of the power supply cannot be watched; it is read every minute", metadata: ["error": "\(error)"])
        }
    }

    private static func netlink(_ configuration: AgentConfiguration, _ log: Logger) throws(LinuxError) -> NetlinkMonitor {
        var settings = NetlinkMonitor.Settings()
        settings.sysfsRoot = configuration.power.sysfsRoot
        return try NetlinkMonitor(settings) { error in
            log.warning("the links cannot be read", metadata: ["error": "\(error)"])
        }
    }

    static var storeRetryAfter: Duration {
        #if ABLATIONS
            if let text = getenv("AGENTD_STORE_RETRY_MS"), let count = Int64(String(cString: text)) { return .milliseconds(count) }
        #endif
        return StoreWriter.retryAfter
    }
}
