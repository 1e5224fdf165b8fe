import ArgumentParser
import Glibc
import LocalAPI
import SyncCore
import SyncLinux

struct JoinCommand: AgentCommand {
    static let configuration = CommandConfiguration(
        commandName: "join",
        abstract: "Connect this machine to a hub.",
        discussion: """
            The command asks the hub first, so a wrong URL, token, authority or clock changes nothing. Then it writes \
            /etc/credstore/hub-token, /etc/credstore/hub-proxy (with --proxy-credentials), /etc/agentd/hub-ca.pem (with --ca) \
            and /etc/agentd/conf.d/90-join.yaml, restarts agentd and waits for the first sync. If that fails, it restores the \
            files. A second run changes nothing. The command needs the rights of root.
            """)

    /// The hub is asked first. On a new machine no agent runs before the join has started it.
    static let beginsWithAgent = false

    @OptionGroup var global: GlobalOptions
    @Argument(help: "URL of the hub: https://HOST or https://HOST:PORT.", transform: JoinCommand.url) var url: ServiceURL
    @Argument(help: "Token that `agenthub token enrol DEVICE` (or add) printed. @FILE or - (standard input) hides it from others.")
    var token: String
    @Option(help: "Trusted issuers of the hub's certificate, PEM. Default: the system's.") var ca: String?
    @Option(help: ArgumentHelp("Proxy on the way to the hub.", valueName: "http://host:port"), transform: JoinCommand.proxyURL)
    var proxy: ServiceURL?
    @Option(help: ArgumentHelp("File with USER:PASSWORD for the proxy. No other user may be able to read it.", valueName: "file"))
    var proxyCredentials: String?
    @Option(help: "Name of this device. Default: the name in a one-time token, or one derived from the machine's id.")
    var device: DeviceID?
    @Option(help: "Write below this folder, for the image of another machine, and start nothing.") var root: String = ""

    func validate() throws {
        guard url.isSecure || url.isLoopback else {
            throw ValidationError(
                "\(url): http:// is only allowed for a hub on this machine. Give https://HOST or https://HOST:PORT.")
        }
        if let proxy, proxy.isSecure || !proxy.path.isEmpty {
            throw ValidationError("\(proxy): expected \(Self.proxyForm).")
        }
        if proxyCredentials != nil, proxy == nil { throw ValidationError("--proxy-credentials needs --proxy http://HOST:PORT.") }
    }

    private static let proxyForm = "the address of a proxy, http://HOST:PORT"

    private static func url(_ text: String) throws -> ServiceURL { try address(text) { $0.expected } }

    private static func proxyURL(_ text: String) throws -> ServiceURL {
        try address(text) { $0.hidesValue ? "\($0.expected) (--proxy-credentials)" : proxyForm }
    }

    private static func address(_ text: String, _ expected: (ServiceURL.Refusal) -> String) throws -> ServiceURL {
        do throws(ServiceURL.Refusal) {
            return try ServiceURL(text)
        } catch {
            throw ValidationError("\(error.hidesValue ? "the address" : text): expected \(expected(error)).")
        }
    }

    func run(_ session: Session) async throws -> Int32 {
        guard geteuid() == 0 || !root.isEmpty else {
            throw CommandFailure(
                exitStatus: 77,
                problem: Problem(
                    "forbidden", status: 0,
                    detail: "join writes into /etc and restarts agentd, which needs root. Run: sudo agentctl join …"))
        }
        let token = try secret()
        let authorities = try ca.map { try InputFile.contents(of: $0, max: 1 << 20) }
        let way = try proxy.map { JoinPlan.Proxy(url: $0, credentials: try proxyCredentials.map(Self.credentials)) }
        let files = JoinFiles(root: root)
        let known = JoinPlan(url: url, token: token, authorities: authorities, device: device ?? files.joinedDevice, proxy: way, root: root)
        guard !known.changes(from: files.contents).isEmpty else {
            if root.isEmpty { try await firstSync(session) }
            show([("files", "nothing was changed: this machine has joined \(url) before")])
            return 0
        }
        let trial = JoinTrial(
            try CurlTransport(name: "join", idleConnections: 1), SystemClocks(), url: url, token: token, device: try device ?? derived(),
            isNamed: device != nil, caFile: ca, proxy: proxy.map { HTTPProxy(url: $0, credentialsFile: proxyCredentials) })
        let welcome: JoinTrial.Welcome
        do throws(Problem) {
            welcome = try await trial.ask()
        } catch {
            throw CommandFailure(exitStatus: 1, problem: Problem("join", status: 0, detail: "\(error.detail). Nothing was changed"))
        }
        let plan = JoinPlan(url: url, token: token, authorities: authorities, device: welcome.device, proxy: way, root: root)
        let changes = plan.changes(from: files.contents)
        let before = try files.write(changes)
        var lines: [(String, String)] = [("hub", "\(url) answers" + (clock(welcome.clockOffset) ?? "")), ("device", welcome.device.text)]
        lines += plan.files.map { file in (file.name, file.path + (changes.contains(file) ? " written" : " as it was")) }
        if root.isEmpty {
            do {
                try files.check()
                try ServiceManager.restart()
                let said = try await firstSync(session)
                lines += [("agentd", "restarted"), ("first sync", said)]
            } catch {
                files.putBack(before)
                // The former agent continues as before; a failure of it would say nothing about the join.
                try? ServiceManager.restart()
                throw error
            }
        }
        show(lines)
        return 0
    }

    // MARK: Input

    private func secret() throws -> String {
        var text = token
        if token == "-" || token.hasPrefix("@") {
            let bytes = try InputFile.contents(of: token == "-" ? "-" : String(token.dropFirst()), max: 4_096)
            text = String(decoding: bytes, as: UTF8.self).split(whereSeparator: \.isWhitespace).first.map(String.init) ?? ""
        }
        guard DeviceMessages.isToken(text) else {
            throw CommandFailure.usage("the token is invalid: expected up to 512 visible characters without spaces")
        }
        return text
    }

    private static func credentials(_ file: String) throws -> [UInt8] {
        do throws(LinuxError) {
            let (user, password) = try SecretFiles.ofThisProcess().readCredentials(file)
            return Array("\(user):\(password)\n".utf8)
        } catch {
            throw CommandFailure.failed("join", "the file of --proxy-credentials: \(error). Nothing was changed")
        }
    }

    private func derived() throws -> DeviceID {
        let id = try MachineIdentity(calls: LinuxFileCalls()).machineID()
        guard let device = DeviceID.derived(fromMachineID: id) else {
            throw CommandFailure.failed("join", "/etc/machine-id does not hold an id. Name this device: --device NAME")
        }
        return device
    }

    // MARK: The agent

    /// Waits until the agent serves, and requests a cycle.
    @discardableResult
    private func firstSync(_ session: Session) async throws -> String {
        Environment.awaitFile(global.socketPath)
        var last = "agentd did not report its result"
        // Its links may not be known yet in the first moment.
        for attempt in 0..<5 {
            if attempt > 0 { sleep(1) }
            let outcome = try await session.client.sync(SyncBody(SyncRequest(isForced: true), waits: true)).value.outcome
            guard let outcome else { continue }
            if outcome.result == "ok" { return "ok, \(PlainText.count(outcome.pulled, "record")) pulled" }
            last = outcome.detail ?? outcome.result
        }
        throw CommandFailure.failed("join", "the first sync did not succeed: \(last). The files are as they were")
    }

    private func clock(_ offset: Duration?) -> String? {
        guard let offset else { return nil }
        if offset.magnitude < .seconds(2) { return ", clocks agree" }
        return ", its clock differs by \(DurationText.readable(offset.magnitude))"
    }

    private func show(_ lines: [(String, String)]) {
        if global.json {
            Output.json(JSON.object(lines.reduce(into: [:]) { $0[$1.0.replacing(" ", with: "_")] = .string($1.1) }).bytes)
            return
        }
        for (name, text) in lines { Output.line(PlainText.safe(PlainText.padded(name, to: 12) + text)) }
        Output.line(PlainText.padded("next", to: 12) + (root.isEmpty ? "agentctl status" : "start the machine that gets this image"))
    }
}

/// The files of a join on disk.
private struct JoinFiles {
    let root: String
    private let files = DurableFiles(calls: LinuxFileCalls())

    init(root: String) { self.root = root }

    func contents(_ path: String) -> [UInt8]? {
        // A file that cannot be read is written again, and that reports the fault.
        try? files.read(path, maxBytes: 1 << 20)
    }

    /// The device of an earlier join.
    var joinedDevice: DeviceID? {
        let text = contents(root + JoinPlan.settingsPath).map { String(decoding: $0, as: UTF8.self) } ?? ""
        let line = text.split(separator: "\n").first { $0.hasPrefix("  device: \"") && $0.hasSuffix("\"") }
        return line.flatMap { DeviceID(String($0.dropFirst("  device: \"".count).dropLast())) }
    }

    /// - Returns: The former contents, by path.
    func write(_ changes: [JoinPlan.File]) throws -> [(path: String, bytes: [UInt8]?, mode: UInt32)] {
        var before: [(path: String, bytes: [UInt8]?, mode: UInt32)] = []
        do throws(LinuxError) {
            for file in changes {
                before.append((file.path, contents(file.path), file.mode))
                makeFolder(of: file.path)
                try files.write(file.bytes, to: file.path, mode: file.mode)
            }
        } catch {
            putBack(before)
            throw CommandFailure.failed("join", "\(error). The files are as they were")
        }
        return before
    }

    func putBack(_ before: [(path: String, bytes: [UInt8]?, mode: UInt32)]) {
        for (path, bytes, mode) in before.reversed() {
            if let bytes {
                do throws(LinuxError) {
                    try files.write(bytes, to: path, mode: mode)
                } catch {
                    Output.note("agentctl: \(PlainText.safe(path)) could not be put back: \(PlainText.safe("\(error)"))")
                }
            } else {
                unlink(path)
            }
        }
    }

    /// Checks all files with the agent's own reader, because other files may contradict.
    func check() throws {
        let (status, text) = try AgentProgram.judgement()
        guard status == 0 else {
            throw CommandFailure.failed("join", "agentd does not accept the new configuration: \(text). The files are as they were")
        }
    }

    private func makeFolder(of path: String) {
        // --root may be a relative path.
        var made = path.hasPrefix("/") ? "" : "."
        for part in path.split(separator: "/").dropLast() {
            made += "/" + part
            // A failure shows when the file in it cannot be written.
            mkdir(made, made.hasSuffix("/credstore") ? 0o700 : 0o755)
        }
    }
}

/// Calls systemd through its own program.
private enum ServiceManager {
    static func restart() throws(CommandFailure) {
        let (status, text) = try Program.run("systemctl", ["restart", "agentd.service"])
        if status != 0 { throw CommandFailure.failed("join", "agentd could not be restarted: \(text). The files are as they were") }
    }
}
