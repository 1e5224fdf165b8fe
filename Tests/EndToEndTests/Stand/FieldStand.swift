import Foundation
import Glibc
import LocalAPI
import ProcessStand
import SyncCore
import SyncLinux

/// A hub and an agent in network namespaces of their own, with cables between them, and a power supply made of files.
///
/// The hub speaks TLS, as it must to an agent that is not on its machine, and nothing else listens: port 80 is closed. Tests ask the hub
/// and the kernel what arrived, never the agent.
actor FieldStand {
    let folder: String
    nonisolated let network: Namespaces
    nonisolated let client: AgentClient
    private let transport: CurlTransport
    private var hub: Child?
    private var agent: Child?
    private var standIn: Child?
    private var proxy: SquidProxy?
    private let rate: String?
    /// The resources of the agent when it was online.
    private var watch: ResourceWatch?

    static let port = 7433

    /// Runs `body` with the hub ready and the cables laid, the default route over the first of them, and the agent online.
    /// When `body` throws, the ends of the logs go with the error.
    ///
    /// - Parameters:
    ///   - proxyManner: The agent reaches the hub through a proxy that behaves so.
    ///   - rate: Rate of the link `wan`, as tc(8) writes it.
    static func with(
        _ cables: [Namespaces.Cable], proxy proxyManner: SquidProxy.Manner? = nil, rate: String? = nil,
        _ body: (FieldStand) async throws -> Void
    ) async throws {
        let stand = try await FieldStand(rate: rate)
        do {
            for cable in cables { try await stand.network.lay(cable) }
            if let first = cables.first { try await stand.network.route(over: first) }
            try await stand.startHub()
            if let proxyManner {
                try await stand.showCredentials("nobody:asks")
                try await stand.startProxy(proxyManner)
            }
            try await stand.startAgent()
            // The hub's own configuration comes with its first answers, and is followed by a greeting of its own.
            try await stand.until("online at the start, by the hub's configuration") { status in
                let soon = SystemClocks().now().wall.advanced(by: .seconds(5))
                return status.connectivity.state == "online" && status.configuration.version == 2 && status.isResting
                    && status.sync.nextAt.map { $0 > soon } ?? true
            }
            try await stand.beginWatch()
            try await body(stand)
            try await stand.checkResources()
        } catch {
            let logs = await stand.logs()
            await stand.takeDown()
            throw StandError("\(error)\n\(logs)")
        }
        await stand.takeDown()
    }

    private init(rate: String?) async throws {
        self.rate = rate
        folder = try NewFolder.make("/tmp/edge-sync")
        network = try await Namespaces(in: folder)
        transport = try CurlTransport(name: "stand", idleConnections: 4)
        client = AgentClient(transport: transport, socketPath: "\(folder)/agent.sock")
        for name in ["hub", "sys/class/power_supply"] {
            try FileManager.default.createDirectory(atPath: "\(folder)/\(name)", withIntermediateDirectories: true)
        }
        // Tests/EndToEndTests/Stand/FieldStand.swift: the tests are three steps up.
        let tests = (0..<3).reduce(URL(fileURLWithPath: #filePath)) { path, _ in path.deletingLastPathComponent() }
        for name in ["issuer.pem", "hub.pem", "hub.key"] {
            let file = tests.appendingPathComponent("HubServerTests/Certificates/\(name)").path
            try write(try String(contentsOfFile: file, encoding: .utf8), to: name)
        }
        try write(FieldStand.entities, to: "entities.yaml")
    }

    // MARK: The hub's side

    func startHub() async throws {
        hub = try await start(
            [
                Programs.agenthub, "serve", "--data", "\(folder)/hub", "--listen", "\(Namespaces.hubAddress):\(FieldStand.port)",
                "--tls-cert", "\(folder)/hub.pem", "--tls-key", "\(folder)/hub.key", "--entities", "\(folder)/entities.yaml",
            ], log: "hub.log")
    }

    func stopHub() async {
        await hub?.stop()
        hub = nil
    }

    /// Stops the hub where it is: its connections stay, and it answers nothing until a stand-in takes its place.
    func freezeHub() {
        if let hub { kill(hub.pid, SIGSTOP) }
    }

    /// Puts the stand-in in the hub's place, on both ports (Tests/standin).
    func standIn(_ manner: String) async throws {
        // The only signal that ends a frozen one.
        await hub?.stop(SIGKILL)
        hub = nil
        standIn = try await start([Programs.standin, manner, "80", String(FieldStand.port)], log: "standin.log")
    }

    /// Puts the hub back.
    func endStandIn() async throws {
        await standIn?.stop(SIGKILL)
        standIn = nil
        try await startHub()
    }

    // MARK: The proxy

    /// Starts it, in place of the one that was there: all connections through that end.
    func startProxy(_ manner: SquidProxy.Manner) async throws {
        await stopProxy()
        proxy = try await SquidProxy(manner, in: folder, network)
    }

    func stopProxy() async {
        await proxy?.stop()
    }

    /// The credentials that the agent shows.
    func showCredentials(_ text: String) throws {
        try write(text + "\n", to: "proxy-credentials")
    }

    /// Lets the agent trust the proxy that opens its connections.
    func trustProxy() throws {
        let files = ["issuer.pem", SquidProxy.authority].map { (try? String(contentsOfFile: "\(folder)/\($0)", encoding: .utf8)) ?? "" }
        try write(files.joined(), to: "issuer.pem")
    }

    /// The requests that went through all proxies so far: method and place of each.
    var proxied: [String] { SquidProxy.requests(in: folder) }

    var agentLog: String { (try? String(contentsOfFile: "\(folder)/agent.log", encoding: .utf8)) ?? "" }

    /// Everything that was sent to the stand-in.
    var standInLog: String { (try? String(contentsOfFile: "\(folder)/standin.log", encoding: .utf8)) ?? "" }

    /// Starts a program in the yard and waits for its first line.
    private func start(_ command: [String], log: String) async throws -> Child {
        let pipe = try LinePipe()
        let child = try Child(network.entering(.yard) + command, log: "\(folder)/\(log)", output: pipe.writingEnd)
        guard await pipe.line() != nil else {
            await child.stop(SIGKILL)
            throw StandError("\(command[0]) did not say that it is ready")
        }
        return child
    }

    /// Counters of `agenthub stats --json`.
    func hubMutations(_ name: String) async throws -> Int64 {
        let stats = try JSONReader.read(try await hubCommand("stats", "--json"))
        return stats.object?["mutations"]?.object?[name]?.int ?? -1
    }

    /// The hub's documents of an entity.
    func hubRecords(_ entity: String) async throws -> [JSONObject] {
        try await hubCommand("export", entity).split(separator: "\n").compactMap {
            try JSONReader.read(String($0)).object?["data"]?.object
        }
    }

    private func hubCommand(_ arguments: String...) async throws -> String {
        let output = try await Child.run([Programs.agenthub] + arguments + ["--data", "\(folder)/hub"], in: folder)
        guard output.status == 0 else {
            throw StandError("agenthub \(arguments.joined(separator: " ")): \(output.status) \(output.talk)")
        }
        return output.text
    }

    // MARK: The agent

    /// As a failure of its own would end it, in the middle of whatever it does; and it is started again.
    func killAgent() async throws {
        await agent?.stop(SIGKILL)
        // The resources of the next process must not be compared with those of this one.
        watch = nil
        try await runAgent()
    }

    private func startAgent() async throws {
        try write(try await hubCommand("token", "add", "field"), to: "token")
        try write(configuration, to: "agentd.yaml")
        try await runAgent()
    }

    private func runAgent() async throws {
        let readiness = try ReadinessSocket(path: "\(folder)/notify.sock")
        let child = try Child(
            network.entering(.field) + [Programs.agentd, "--config", "\(folder)/agentd.yaml"],
            // The proxy in the environment leads nowhere, so the agent must not use it.
            environment: ["NOTIFY_SOCKET": readiness.path, "https_proxy": "http://127.0.0.1:9", "no_proxy": "*"], log: "\(folder)/agent.log"
        )
        agent = child
        try await readiness.ready(child)
    }

    private func beginWatch() throws {
        guard let agent else { return }
        watch = try ResourceWatch("agent", agent.pid, .agent(state: "\(folder)/agent"), temporaryFilesIn: ["\(folder)/agent"])
    }

    private func checkResources() async throws {
        guard let watch, isAgentRunning else { return }
        transport.closeIdleConnections()
        let left = try await watch.leftOver()
        guard left.isEmpty else { throw StandError("not given back:\n" + left.joined(separator: "\n")) }
    }

    var isAgentRunning: Bool { agent?.isRunning == true }

    /// Enqueues one reading, or a record of another entity, with this number.
    ///
    /// - Parameter padding: More bytes, which no gzip makes smaller than half.
    /// - Returns: Its id.
    @discardableResult
    func enqueue(
        _ number: Int, _ priority: Priority = .normal, padding: Int = 0, entity: String = "readings"
    ) async throws -> String {
        var data: JSONObject = ["n": .int(number)]
        if padding > 0 { data["noise"] = .string(Noise.hexadecimal(padding)) }
        let mutation = NewMutation(.create, EntityName(trusted: entity), nil, data: data, priority: priority)
        return try await client.enqueue(mutation).value.id.text
    }

    func agentctl(_ arguments: String...) async throws -> Output {
        try await Child.run([Programs.agentctl] + arguments, environment: ["AGENTD_SOCKET": "\(folder)/agent.sock"], in: folder)
    }

    /// `agentctl COMMAND --json`.
    func ask(_ arguments: String...) async throws -> JSON {
        let output = try await Child.run(
            [Programs.agentctl] + arguments + ["--json"], environment: ["AGENTD_SOCKET": "\(folder)/agent.sock"], in: folder)
        guard let json = try? JSONReader.read(output.text) else {
            throw StandError("agentctl \(arguments.joined(separator: " ")): \(output.status) \(output.talk)")
        }
        return json
    }

    nonisolated func status() async throws -> StatusDocument { try await client.status().value }

    // MARK: Waiting

    /// Far above what anything takes; only ends a test that would otherwise ask for ever.
    static let patience: Duration = .seconds(300)

    /// Asks for the status until it is so.
    @discardableResult
    func until(
        _ what: String, patience: Duration = FieldStand.patience, _ isSo: (StatusDocument) -> Bool
    ) async throws -> StatusDocument {
        let end = ContinuousClock.now + patience
        while true {
            let status = try await status()
            if isSo(status) { return status }
            guard ContinuousClock.now < end else {
                throw StandError("never came: \(what); last \(status.connectivity.state), \(status.outbox)")
            }
            await Pause.long()
        }
    }

    /// Waits until the log of the server in the hub's place has these words.
    func untilStandInLogs(_ words: String) async throws {
        try await until("\"\(words)\" in the stand-in's log") { _ in standInLog.contains(words) }
    }

    /// Asks the hub until that many mutations took effect.
    func untilHubHas(_ count: Int64) async throws {
        let end = ContinuousClock.now + Self.patience
        while true {
            let applied = try await hubMutations("applied")
            if applied >= count { return }
            guard ContinuousClock.now < end else { throw StandError("the hub has \(applied) of \(count) mutations") }
            await Pause.untilNextProgram()
        }
    }

    /// A proxy writes down a request once it is over, which may be after its answer was used.
    func untilProxied(_ words: String) async throws {
        let end = ContinuousClock.now + Self.patience
        while !proxied.contains(where: { $0.contains(words) }) {
            guard ContinuousClock.now < end else { throw StandError("nothing like \(words) went through the proxy: \(proxied)") }
            await Pause.short()
        }
    }

    // MARK: The power supply

    /// Files as sysfs has them, then the sign to read them: no uevent can be had without a device.
    ///
    /// - Parameter charge: In per cent; `nil`: no battery.
    func power(charge: Int?, isPlugged: Bool) async throws {
        let root = "sys/class/power_supply"
        try write("Mains\n", to: "\(root)/AC/type")
        try write(isPlugged ? "1\n" : "0\n", to: "\(root)/AC/online")
        if let charge {
            try write("Battery\n", to: "\(root)/BAT0/type")
            try write("\(charge)\n", to: "\(root)/BAT0/capacity")
            try write(isPlugged ? "Charging\n" : "Discharging\n", to: "\(root)/BAT0/status")
        }
        let output = try await agentctl("config", "reload")
        guard output.status == 0 else { throw StandError("agentctl config reload: \(output.talk)") }
    }

    // MARK: Files

    private static let entities = """
        entities:
          readings: { kind: event }
          work_orders: { kind: record }

        """

    /// In the field's namespaces the agent and the test are user 0.
    private var configuration: String {
        """
        hub:
          url: "https://\(Namespaces.hubAddress):\(FieldStand.port)"
          device: field
          token_file: "\(folder)/token"
          ca_file: "\(folder)/issuer.pem"
        \(proxy == nil ? "" : SquidProxy.settings(in: folder))
        socket: { path: "\(folder)/agent.sock", mode: "0600" }
        access:
          - { user: "0", role: admin, app: stand, rate: 100000 }
        store: { path: "\(folder)/agent" }
        links:
          - { match: "wan*", metered: false\(rate.map { ", rate: \($0)" } ?? "") }
          - { match: "wwan*", metered: true }
        power: { sysfs_root: "\(folder)/sys" }
        probe: { timeout: 1s }
        sync: { debounce: 0s, max_backoff: 1s }
        \(FieldStand.entities)
        """
    }

    private nonisolated func write(_ text: String, to name: String) throws {
        let path = "\(folder)/\(name)"
        let parent = URL(fileURLWithPath: path).deletingLastPathComponent().path
        try FileManager.default.createDirectory(atPath: parent, withIntermediateDirectories: true)
        guard
            FileManager.default.createFile(
                atPath: path, contents: Data(text.utf8), attributes: [.posixPermissions: NSNumber(value: 0o600)])
        else { throw StandError("cannot write \(path)") }
    }

    private func takeDown() async {
        await agent?.stop(SIGKILL)
        await stopHub()
        await standIn?.stop(SIGKILL)
        await stopProxy()
        await network.end()
        transport.close()
        try? FileManager.default.removeItem(atPath: folder)
    }

    private func logs() -> String {
        ["agent", "hub", "standin"].map { name in
            let text = (try? String(contentsOfFile: "\(folder)/\(name).log", encoding: .utf8)) ?? ""
            let end = text.split(separator: "\n").suffix(25).map { "  " + $0.prefix(300) }
            return "the end of the \(name)'s log:\n" + end.joined(separator: "\n")
        }.joined(separator: "\n")
    }
}

extension StatusDocument {
    /// No cycle is under way.
    var isResting: Bool { sync.phase == "idle" && outbox.count(.inFlight) == 0 }
}
