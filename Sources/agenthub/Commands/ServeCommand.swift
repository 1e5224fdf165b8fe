import ArgumentParser
import Glibc
import HubPostgres
import HubServer
import Logging
import SyncCore
import SyncLinux
import SyncYAML

/// `agenthub serve`: serves requests until SIGTERM or SIGINT.
struct ServeCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "serve", abstract: "Serve the devices, in the foreground.",
        discussion: "Prints `agenthub: listening on HOST:PORT` on standard output when it is ready; the log goes to standard error.")

    @OptionGroup var folder: DataFolder
    @OptionGroup var objects: ObjectOptions

    @Option(help: ArgumentHelp("Address to listen on; port 0 lets the system choose.", valueName: "host:port"))
    var listen = "127.0.0.1:7433"

    @Option(
        help: ArgumentHelp(
            "Another address, for monitoring: /metrics, /healthz and /readyz in plain HTTP, for everybody who reaches it. /metrics is "
                + "then not served at the address of --listen, where a hub with scopes does not serve it anyway.",
            valueName: "host:port"))
    var metrics: String?

    @Option(help: ArgumentHelp("Certificate chain of the hub, PEM.", valueName: "file"))
    var tlsCert: String?

    @Option(help: ArgumentHelp("Private key of --tls-cert, PEM.", valueName: "file"))
    var tlsKey: String?

    @Option(
        help: ArgumentHelp(
            "Issuers of client certificates, PEM. A device may then show a certificate whose first DNS name is its id.", valueName: "file"))
    var clientCa: String?

    @Option(
        help: ArgumentHelp(
            "Settings of entities, YAML, with the keys that agentd.yaml has for them. The file is read at the start and on SIGHUP, and is "
                + "put in force if it has changed since it was last read. Otherwise the newest settings stay, see agenthub entities.",
            valueName: "file"))
    var entities: String?

    @Option(help: ArgumentHelp("Days until a token from an enrolment or a refresh expires; 0: never.", valueName: "days"))
    var tokenDays = 90

    @Option(
        help: ArgumentHelp(
            "Days after its expiry in which a device may still exchange its last token for the next one; 0: none.",
            valueName: "days"))
    var tokenGrace = 90

    @Option(
        help: ArgumentHelp(
            "Days for which deletions are remembered. A device that was away for longer downloads everything again.", valueName: "days"))
    var keepDeletions = 90

    @Option(help: ArgumentHelp("Days for which reports of devices are kept.", valueName: "days"))
    var keepReports = 14

    @Option(help: ArgumentHelp("Days for which interrupted uploads are kept.", valueName: "days"))
    var keepUploads = 3

    @Option(
        help: ArgumentHelp(
            "Most connections at one time; default: 10000, or as many as the limit of open files allows.",
            valueName: "count"))
    var connections: Int?

    @Option(
        help: ArgumentHelp(
            "Most connections at one time from one address (IPv6: one /64 network) that have not shown a credential yet; "
                + "0: no limit, for a hub that only a balancer can reach.", valueName: "count"))
    var strangersPerAddress = 128

    @Flag(help: "Require no token. Only allowed on a loopback address.")
    var open = false

    @Flag(help: "Start a new history, because the database was restored or is lost. The devices then send again what is missing.")
    var newEpoch = false

    @Flag(
        help: ArgumentHelp(
            "Send all records of an entity to all devices if it had scopes in the database and has none in the entities file."))
    var dropScopes = false

    @Flag(help: "Log every request.")
    var verbose = false

    private var tokenLife: Int? { tokenDays == 0 ? nil : tokenDays }

    func validate() throws {
        guard (0...3_650).contains(tokenDays) else { throw ValidationError("--token-days: expected 0 to 3650") }
        guard (0...3_650).contains(tokenGrace) else { throw ValidationError("--token-grace: expected 0 to 3650") }
        // An agent lists everything anew once a week: with less than a few weeks most of them would have to each time.
        guard (21...3_650).contains(keepDeletions) else { throw ValidationError("--keep-deletions: expected 21 to 3650") }
        guard (1...3_650).contains(keepReports) else { throw ValidationError("--keep-reports: expected 1 to 3650") }
        guard (1...365).contains(keepUploads) else { throw ValidationError("--keep-uploads: expected 1 to 365") }
        guard (0...100_000).contains(strangersPerAddress) else { throw ValidationError("--strangers-per-address: expected 0 to 100000") }
        guard (16...1_000_000).contains(connections ?? 16) else { throw ValidationError("--connections: expected 16 to 1000000") }
        guard let address = ListenAddress(listen) else { throw ValidationError("--listen: expected HOST:PORT, port 0 to 65535") }
        if let metrics {
            guard let other = ListenAddress(metrics) else { throw ValidationError("--metrics: expected HOST:PORT, port 0 to 65535") }
            if other.port != 0, other == address { throw ValidationError("--metrics and --listen: expected two addresses") }
        }
        if (tlsCert == nil) != (tlsKey == nil) { throw ValidationError("--tls-cert and --tls-key belong together") }
        if clientCa != nil, tlsCert == nil { throw ValidationError("--client-ca needs --tls-cert and --tls-key") }
        if open, !address.isLoopback { throw ValidationError("--open is only for loopback addresses") }
    }

    func run() throws {
        guard let address = ListenAddress(listen) else { return }
        let file: EntityText?
        do throws(ConfigurationErrors) { file = try readEntities() } catch { throw Failure(78, error.description) }
        do {
            try hardenProcess()
            // A folder with a database has one hub. A folder of files serves all replicas, and may be on another machine.
            let state = folder.database == nil ? try StateDirectory.open(folder.folder, calls: LinuxFileCalls(), userID: geteuid()) : nil
            defer { state?.close() }
            if state != nil, try Restore(folder: folder.folder).finish() { Say.error("finished a restore that had been interrupted") }
            try serve(address, file, state?.warnings ?? [])
        } catch let error as LinuxError {
            throw Failure(error)
        } catch let error as HubError {
            throw Failure(error)
        }
    }

    private func serve(_ address: ListenAddress, _ file: EntityText?, _ warnings: [String]) throws {
        let log = makeLog()
        for warning in warnings { log.warning("data folder", metadata: ["detail": "\(warning)"]) }
        do throws(LinuxError) {
            // Without a lock another replica may be writing.
            if folder.database == nil { try folder.removeLeftovers() }
        } catch {
            // They need some bytes and do no harm. The next start tries it again.
            log.warning("a temporary file was not removed", metadata: ["error": "\(error)"])
        }
        if tlsCert == nil, !address.isLoopback {
            log.warning("tokens travel unencrypted", metadata: ["hint": "put TLS in front, or give --tls-cert and --tls-key"])
        }
        let tokens = try TokenSource(folder, isOpen: open) { log.error("tokens", metadata: ["error": "\($0)"]) }
        let hub = try openHub(file, tokens, log)
        if let book = tokens.current(), book.entries.isEmpty {
            let hint = "agenthub token add DEVICE " + (folder.data.map { "--data \($0)" } ?? "--database …")
            log.warning("no device has a token yet", metadata: ["hint": "\(hint)"])
        }
        var options = HubService.Options(host: address.host, port: address.port)
        options.metrics = metrics.flatMap { ListenAddress($0) }.map { .init(host: $0.host, port: $0.port) }
        // Commands work on a server's database themselves, beside its hubs.
        if folder.database == nil { options.operatorSocket = folder.socket }
        options.strangersPerAddress = strangersPerAddress == 0 ? nil : strangersPerAddress
        if let connections { options.connections = connections }
        options.connections = allowFiles(for: options, log)
        if let tlsCert, let tlsKey { options.tls = HubTLS(certificateFile: tlsCert, keyFile: tlsKey, clientCAFile: clientCa) }
        let folder = folder
        var environment = HubService.Environment(
            time: SystemClocks(), seed: systemRandomSeed(), tokens: { tokens.current() }, compressor: ZlibCompressor(),
            remember: { mark in
                do throws(LinuxError) {
                    try folder.write(mark)
                } catch {
                    log.warning("the mark was not written", metadata: ["error": "\(error)"])
                }
            }, log: log)
        environment.changeTokens = tokens.change
        let notifier = try ReadinessNotifier.fromEnvironment()
        var signals: SignalSource?
        try HubService.run(hub, options, environment) { service, end in
            signals = try SignalSource { signal in
                guard signal == .hangUp else { return end() }
                // Tokens are read when they change, and certificates once a minute: the signal reads them at once.
                service.renewCertificate()
                readAgain(service, log)
            }
            try Say.result("agenthub: listening on \(service.address)")
            // A service manager that does not listen does not prevent serving.
            try? notifier?.send(.ready)
            var facts: Logger.Metadata = ["address": "\(service.address)", "tls": "\(options.tls != nil)", "open": "\(open)"]
            if let place = service.metricsAddress { facts["metrics"] = "\(place)" }
            log.notice("serving", metadata: facts)
        }
        // It does not prevent a clean end either.
        try? notifier?.send(.stopping)
        log.notice("stopped")
        signals?.close()
    }

    /// Raises the limit of open files, which is usually 1,024 at first, as far as permitted.
    ///
    /// - Returns: The number of connections that the limit allows, at most the requested one.
    private func allowFiles(for options: HubService.Options, _ log: Logger) -> Int {
        let (resource, wanted) = (__rlimit_resource_t(RLIMIT_NOFILE.rawValue), options.filesMax)
        var limit = rlimit()
        guard getrlimit(resource, &limit) == 0, limit.rlim_cur < wanted else { return options.connections }
        let before = limit.rlim_cur
        limit.rlim_cur = min(wanted, limit.rlim_max)
        let allowed = setrlimit(resource, &limit) == 0 ? limit.rlim_cur : before
        guard allowed < wanted else { return options.connections }
        let possible = max(16, HubService.Options.connections(files: allowed))
        // A default number of connections is reported only when it becomes small.
        if connections == nil, possible >= 1_000 { return possible }
        log.warning(
            "the limit of open files allows fewer connections",
            metadata: [
                "connections": "\(possible)", "wanted": "\(options.connections)", "files": "\(allowed)",
                "hint": "LimitNOFILE=\(wanted) in the unit, or ulimit -n \(wanted)",
            ])
        return possible
    }

    /// - Returns: `nil` without `--entities`.
    private func readEntities() throws(ConfigurationErrors) -> EntityText? {
        guard let entities else { return nil }
        return try EntitiesFile.read(entities, by: "serve --entities \(entities)", at: SystemClocks().now().wall)
    }

    /// Reads the entities file again, after a signal.
    private func readAgain(_ service: HubService, _ log: Logger) {
        do throws(ConfigurationErrors) {
            if let file = try readEntities() { service.offer(file, log) }
        } catch {
            log.error("the entities file is invalid; the present settings stay in force", metadata: ["error": "\(error)"])
        }
    }

    private func openHub(_ file: EntityText?, _ tokens: TokenSource, _ log: Logger) throws -> sending Hub {
        var settings = Hub.Settings(tokens: tokens.current(), compressor: ZlibCompressor())
        settings.readEntities = EntitiesFile.reader
        settings.entityFile = file
        if dropScopes { settings.scopesOfDatabase = .dropped }
        settings.tokenLife = tokenLife.map { .seconds(86_400) * $0 }
        settings.tokenGrace = .seconds(86_400) * tokenGrace
        settings.retention.deletions = .seconds(86_400) * keepDeletions
        settings.retention.reports = .seconds(86_400) * keepReports
        settings.version = ProductVersion.text
        // With a server's database the disk here holds the files, and records sync without them.
        if let data = folder.data, folder.database == nil {
            // Space that cannot be measured is not shown, and does not make the hub unready: the next write reports the error.
            settings.freeBytes = { (try? LinuxFileCalls().space(at: data, for: .measureSpace))?.freeBytes }
        }
        #if ABLATIONS
            // Faults that the power-cut test injects, to prove that it detects them.
            if let names = getenv("AGENTHUB_ABLATIONS") { settings.ablations = Ablations(names: String(cString: names)) }
        #endif
        let place = try folder.place()
        if place?.hasPassword == true {
            log.warning("the database's password is in the list of processes", metadata: ["hint": "put it into a file: passfile=…"])
        }
        if case .rows(let rows) = tokens {
            settings.keepsTokens = true
            settings.tokensRead = { rows.replace($0) }
        }
        let mark = folder.readMark { detail in
            log.warning(
                "the mark cannot be read",
                metadata: ["error": "\(detail)", "hint": "if the database was restored from an older copy, start once with --new-epoch"])
        }
        if place == nil, !newEpoch, let mark, mark.head > 0, folder.lacksDatabase {
            // Devices would be new to an empty hub, and the loss of its data would go unnoticed.
            throw Failure(
                66,
                "\(folder.file) is missing or empty, and \(folder.folder)/mark says that there was a hub (epoch \(mark.epoch), "
                    + "head \(mark.head)). \(folder.waysBack)")
        }
        let hub: Hub
        do throws(HubError) {
            hub = try Hub(
                place.map { .shared($0) } ?? .file(folder.file), settings: settings, random: SeededRandom(seed: systemRandomSeed()))
        } catch {
            guard place == nil, error.isDamage else { throw error }
            throw Failure(73, "\(folder.file) is damaged (\(error)). \(folder.waysBack)")
        }
        if case .rows = tokens { _ = try hub.tokens() }
        if let outcome = hub.fileOutcome {
            outcome.write(to: log)
        } else if let newest = try hub.newestEntities() {
            log.info(
                "the entity settings of the database are in force",
                metadata: ["generation": "\(newest.number)", "applied_at": "\(newest.appliedAt)", "applied_by": "\(newest.appliedBy)"])
        }
        // Settings that cannot be read have ended the start.
        if let newest = try hub.newestEntities(),
            case .success(let read) = EntitiesFile.reader(newest.text, "generation \(newest.number)")
        {
            let hint: Logger.Metadata.Value = "agenthub entities check FILE, then agenthub entities apply FILE"
            if let objection = read.objection {
                log.warning(
                    "the entity settings in force are such that this version would refuse them as new ones",
                    metadata: ["detail": "\(objection.detail)", "hint": hint])
            }
            for detail in GrantHints((read.rules, read.access)).ofSettings {
                log.warning(
                    "a part of the entity settings may not do what it is meant to", metadata: ["detail": "\(detail)", "hint": hint])
            }
        }
        var limits = HubUploads.Limits()
        limits.expiry = .seconds(86_400) * keepUploads
        if let storage = try objects.storage(log) {
            hub.settings.uploads = HubUploads(storage, limits: limits)
        } else if let data = folder.data {
            let files = BlobFiles(at: data + "/blobs")
            do throws(BlobError) {
                try files.prepare()
            } catch {
                log.error("files cannot be stored yet; each upload tries again", metadata: ["error": "\(error)"])
            }
            hub.settings.uploads = HubUploads(place == nil ? files : folder.shared(files, log), limits: limits)
            try hub.settleFolder()
        } else {
            log.notice(
                "uploads of files are refused, because no storage for them is configured",
                metadata: ["hint": "--data names a folder that all replicas see, --blobs an object store"])
        }
        if let mark, mark.epoch != hub.epoch, !hub.isOlder(than: mark) {
            log.warning(
                "the folder has another database than before",
                metadata: ["epoch": "\(hub.epoch)", "before": "\(mark.epoch)", "head": "\(hub.head)", "mark": "\(mark.head)"])
        }
        if mark.map({ hub.isOlder(than: $0) }) == true {
            try hub.startEpoch(.mark, at: SystemClocks().now().wall)
        } else if newEpoch {
            // Replicas that are started one after the other with this option join the first one's history.
            let hasBegun = try hub.startEpoch(.requested, at: SystemClocks().now().wall, joining: place == nil ? nil : .seconds(600))
            if !hasBegun {
                log.notice(
                    "no second new history: another replica began one within the last 10 minutes", metadata: ["epoch": "\(hub.epoch)"])
            }
        }
        // Written before serving begins: the next older copy is compared with this state.
        do throws(LinuxError) {
            try folder.write(hub.mark)
        } catch {
            log.warning("the mark was not written", metadata: ["error": "\(error)"])
        }
        log.info("opened", metadata: ["database": "\(place?.description ?? folder.file)", "epoch": "\(hub.epoch)", "head": "\(hub.head)"])
        return hub
    }

    private func makeLog() -> Logger {
        LoggingSystem.bootstrap { _ in StandardErrorLog() }
        var log = Logger(label: "agenthub")
        log.logLevel = verbose ? .debug : .info
        return log
    }
}

/// The address to listen on: `127.0.0.1:7433`, `[::1]:0`, `hub.example:443`, `localhost:0`.
struct ListenAddress: Equatable {
    var host: String
    var port: Int

    init?(_ text: String) {
        guard let colon = text.lastIndex(of: ":"), let port = Int(text[text.index(after: colon)...]), (0...65_535).contains(port),
            text[text.index(after: colon)...].utf8.allSatisfy({ (48...57).contains($0) })
        else { return nil }
        var host = String(text[..<colon])
        if host.hasPrefix("["), host.hasSuffix("]") { host = String(host.dropFirst().dropLast()) } else if host.contains(":") { return nil }
        guard !host.isEmpty else { return nil }
        self.host = host
        self.port = port
    }

    var isLoopback: Bool { host == "localhost" || host == "::1" || host.hasPrefix("127.") }
}
