import Agent
import Glibc
import Logging
import NIOCore
import NIOPosix
import SyncCore
import SyncHTTP
import SyncLinux
import SyncStore
import SyncYAML

/// Builds the agent from the system's parts, runs it until a signal, and stops it in order.
///
/// The order of the start is a promise to the apps: configuration, state folder, store, socket, and only then parts that may need a
/// network.
enum Daemon {
    /// - Returns: The exit status.
    static func run(config: String) -> Int32 {
        ignoreDeadlySignals()
        limitHeaps()
        let notifier: ReadinessNotifier?
        do throws(LinuxError) {
            try hardenProcess()
            notifier = try ReadinessNotifier.fromEnvironment()
        } catch {
            Say.error("\(error)")
            return 70
        }
        let start = Self.start(config)
        do {
            let socket = try HTTPEndpoint.activated().first
            if let standby = ConfigurationStandby(
                start, isActivated: socket != nil, isAsked: socket?.isAsked ?? false, config: config), let socket
            {
                if case .refused(let errors) = start { Say.error("\(errors)") }
                switch try StandbyServer(standby, on: socket, notifier).run(until: { Self.isUsable(Self.start(config)) }) {
                case .stopped: return 0
                case .configured:
                    // Credentials that came meanwhile are passed only at a start.
                    Say.error("there is a configuration now; the service manager restarts agentd")
                    return 0
                case .outOfPatience: break
                }
            }
        } catch {
            Say.error("\(error)")
            return 73
        }
        switch start {
        case .refused(let errors), .unconfigured(let errors):
            Say.error("\(errors)")
            // The first error for `systemctl status`.
            try? notifier?.send(.status("\(errors.errors[0])"))
            return 78
        case .loaded(let loaded): return run(loaded, insteadOf: nil, config: config, notifier)
        case .lastGood(let loaded, let errors): return run(loaded, insteadOf: errors, config: config, notifier)
        }
    }

    private static func start(_ config: String) -> ConfigurationStart {
        ConfigurationStart.decide(
            files: ConfigurationLoader.files(main: config), lastGood: LastGoodFiles(config: config).found,
            accounts: SystemAccounts.accounts)
    }

    private static func isUsable(_ start: ConfigurationStart) -> Bool {
        switch start {
        case .loaded, .lastGood: true
        case .refused, .unconfigured: false
        }
    }

    private static func run(
        _ loaded: LoadedConfiguration, insteadOf refused: ConfigurationErrors?, config: String, _ notifier: ReadinessNotifier?
    ) -> Int32 {
        let configuration = loaded.configuration
        let log = makeLogger(configuration.log)
        let state: StateDirectory
        do throws(LinuxError) {
            state = try StateDirectory.open(configuration.store.path, calls: LinuxFileCalls(), userID: geteuid())
            try state.refuseLinks(["agent.db", "agent.db-wal", "agent.db-shm"])
        } catch {
            Say.error("\(error)")
            return error.code == .inUse ? 2 : 73
        }
        for warning in state.warnings { log.warning("state folder", metadata: ["detail": "\(warning)"]) }
        removeLeftovers(in: state, log)
        do {
            let runner = try DaemonRunner(DaemonStart(loaded: loaded, config: config, state: state, log: log, notifier: notifier))
            return runner.run(insteadOf: refused)
        } catch {
            Say.error("\(error)")
            return 73
        }
    }

    /// Files of the state folder that agentd replaces as a whole. No other program writes them.
    private static let replacedFiles = ["identity.json", "starts", "token", "trial.json", "proven.yaml", "last-good.yaml"]

    /// Removes what a crash or a power loss left of writes that were not finished.
    private static func removeLeftovers(in state: StateDirectory, _ log: Logger) {
        let files = DurableFiles(calls: LinuxFileCalls())
        for name in replacedFiles {
            do throws(LinuxError) {
                let removed = try files.removeLeftovers(of: "\(state.path)/\(name)", owner: geteuid())
                if !removed.isEmpty { log.info("temporary files removed", metadata: ["names": "\(removed.joined(separator: " "))"]) }
            } catch {
                // They need some bytes and do no harm. The next start tries it again.
                return log.warning("a temporary file was not removed", metadata: ["error": "\(error)"])
            }
        }
    }

    private static func makeLogger(_ settings: AgentConfiguration.Log) -> Logger {
        let format = settings.format
        LoggingSystem.bootstrap { _ in StandardErrorLog(isJSON: format == .json) }
        var log = Logger(label: "agentd")
        log.logLevel = settings.level.loggerLevel
        return log
    }
}
