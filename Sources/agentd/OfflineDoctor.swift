import Agent
import Glibc
import LocalAPI
import SyncCore
import SyncLinux
import SyncStore
import SyncThreads
import SyncYAML

/// The checks that are possible without a running agent: configuration, files, disk, and the database, which is only read.
///
/// `agentctl doctor` starts this when no agent answers, because it opens neither the configuration nor the database itself.
enum OfflineDoctor {
    static func findings(config: String) -> [DoctorFinding] {
        let now = SystemClocks().now()
        var facts = DoctorFacts(now: now.wall)
        let loaded = read(config, &facts)
        var agent = DoctorFacts.Agent(isRunning: false)
        if let loaded {
            let holder = holder(of: loaded.configuration.store.path)
            agent.holder = holder
            facts.system = system(loaded)
            // A database that another process writes is judged by that process.
            if holder == nil { readDatabase(loaded, now, &facts) }
        }
        facts.agent = agent
        return Doctor.examine(facts)
    }

    private static func read(_ config: String, _ facts: inout DoctorFacts) -> LoadedConfiguration? {
        let kept = LastGoodFiles(config: config)
        let start = ConfigurationStart.decide(
            files: ConfigurationLoader.files(main: config), lastGood: kept.found, accounts: SystemAccounts.accounts)
        switch start {
        case .loaded(let loaded):
            facts.configuration = DoctorFacts.Configuration(loaded)
            return loaded
        case .lastGood(let loaded, let errors):
            var configuration = DoctorFacts.Configuration(loaded)
            configuration.isLastGood = true
            configuration.error = errors.errors.first?.description
            facts.configuration = configuration
            return loaded
        case .refused(let errors), .unconfigured(let errors):
            var configuration = DoctorFacts.Configuration(file: config)
            configuration.error = errors.errors.first?.description
            facts.configuration = configuration
            return nil
        }
    }

    /// Faults of the files that the configuration names. They may be added later, so the configuration itself is not wrong.
    static func faultsOfFiles(_ loaded: LoadedConfiguration) -> [String] {
        let system = system(loaded)
        return [system.token.fault, system.clientKey?.fault, system.clientCertificate?.fault, system.authorities?.fault].compactMap { $0 }
    }

    private static func system(_ loaded: LoadedConfiguration) -> DoctorFacts.System {
        var questions = HubCredentials(loaded.configuration.hub).completing(DoctorQuestions(loaded))
        questions.socketPath = nil
        return SystemExaminer.ofThisProcess.examine(questions)
    }

    /// The process that has locked the state folder; `nil`: none, or there is no folder.
    private static func holder(of folder: String) -> String? {
        let descriptor = open(folder + "/lock", O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)
        guard descriptor >= 0 else { return nil }
        defer { close(descriptor) }
        // A shared lock is refused as long as an agent holds its exclusive one, and blocks others only for this moment.
        guard flock(descriptor, LOCK_SH | LOCK_NB) != 0, errno == EWOULDBLOCK else { return nil }
        var bytes = [UInt8](repeating: 0, count: 16)
        let count = Glibc.read(descriptor, &bytes, bytes.count)
        let digits = bytes.prefix(max(0, count)).prefix { (48...57).contains($0) }
        return digits.isEmpty ? "another process" : "process " + String(decoding: digits, as: UTF8.self)
    }

    private static func readDatabase(_ loaded: LoadedConfiguration, _ now: Moment, _ facts: inout DoctorFacts) {
        let capacity = loaded.configuration.store
        let path = capacity.path + "/agent.db"
        guard access(path, F_OK) == 0 else { return }
        let reader = StoreReader(path: path, time: SystemClocks()) { calls in for call in calls { call() } }
        defer { reader.close() }
        let found = wait { done in
            reader.read { reads, now throws(StoreError) in
                try reads.facts(at: now)
            } completion: {
                done($0)
            }
        }
        var store = DoctorFacts.Store(
            bytes: 0, maxBytes: Int64(capacity.maxSizeBytes), walBytes: 0, minFreeBytes: Int64(capacity.minFreeBytes),
            sqlite: "")
        switch found {
        case .failure(let error):
            store.fault = error.description
        case .success(let read):
            (store.bytes, store.walBytes, store.sqlite) = (read.bytes, read.walBytes, read.sqlite)
            facts.work = DoctorFacts.Work(
                read, limit: Int64(capacity.maxMutations), loaded.configuration.sync, now: now.wall)
            switch wait({ done in reader.check { done($0) } }) {
            case .success(let complaints): store.integrity = complaints.first ?? "ok"
            case .failure(let error): store.fault = error.description
            }
        }
        facts.store = store
    }

    private static func wait<Value: Sendable>(_ ask: (@escaping @Sendable (Value) -> Void) -> Void) -> Value {
        let answer = Promise<Value>()
        ask { answer.fulfil($0) }
        return answer.wait()
    }
}
