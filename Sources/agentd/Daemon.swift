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

/// Builds the agent out of the system's parts, runs it until a signal, and takes it down in order.
///
/// The order of the start is the promise to the apps: configuration, state folder, store, socket, and only then anything
/// that may need a network.
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
        let files = ConfigurationLoader.files(main: config)
        let kept = LastGoodFiles(config: config)
        let start = ConfigurationStart.decide(files: files, lastGood: kept.found, accounts: SystemAccounts.accounts)
        switch start {
        case .refused(let errors):
            Say.error("\(errors)")
            return 78
        case .loaded(let loaded): return run(loaded, damage: nil, config: config, notifier)
        case .lastGood(let loaded, let damage): return run(loaded, damage: damage, config: config, notifier)
        }
    }

    private static func run(
        _ loaded: LoadedConfiguration, damage: ConfigurationErrors?, config: String, _ notifier: ReadinessNotifier?
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
        do {
            let runner = try DaemonRunner(loaded, config: config, state: state, log: log, notifier)
            return runner.run(damage: damage)
        } catch {
            Say.error("\(error)")
            return 73
        }
    }

    private static func makeLogger(_ settings: AgentConfiguration.Log) -> Logger {
        let format = settings.format
        LoggingSystem.bootstrap { label in StandardErrorLog(label: label, format: format) }
        var log = Logger(label: "agentd")
        log.logLevel = settings.level.loggerLevel
        return log
    }
}
