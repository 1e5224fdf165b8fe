import Foundation
import Glibc
import LocalAPI
import ProcessStand
import SyncCore
import SyncLinux
import Testing

/// One hub and one agent on this machine, with files, socket and port of their own. Both can be stopped, killed and
/// started again; what they wrote stays until the stand is taken down.
actor Stand {
    let folder: String
    nonisolated let client: AgentClient
    nonisolated let transport: CurlTransport
    nonisolated let entities: String
    /// Instead of ``entities``, once a test has declared others.
    private var declared: String?
    /// The hub has a file of entities.
    private let knowsEntities: Bool
    private var hub: Child?
    private var agent: Child?
    private var readiness: ReadinessSocket?
    /// One that the kernel gives to no connection, because the hub comes back to it after each stop.
    private let port: UInt16
    /// The address at which the agent looks for the hub, such as a relay; `nil` for the hub itself.
    private var hubURLForAgent: String?
    /// The address to which the agent brings its files; `nil` for the hub.
    var uploadURL: String?
    /// Laid over the environment of the agent, and of the hub, from its next start on.
    private var agentEnvironment: [String: String] = [:]
    private var hubEnvironment: [String: String] = [:]
    /// The arguments of the hub from its next start on.
    private var hubArguments: [String] = []
    /// Keys of the section `store` besides the path.
    private var storeSettings = ""
    /// Configuration that replaces the usual one.
    private var ownConfiguration: String?
    /// The resources of the programs when they were ready; `nil` for one that does not run.
    private var agentWatch: ResourceWatch?
    private var hubWatch: ResourceWatch?
    private var waitingForAgent: [CheckedContinuation<Void, Never>] = []

    static let device = "stand"
    static let standardEntities = """
          readings: { kind: event }
          work_orders: { kind: record }
        """

    /// Runs `body` with hub and agent ready, then takes everything down. When `body` throws, the ends of both logs go
    /// with the error.
    static func with(
        entities: String = standardEntities, hubEntities: String? = nil, hub startsHub: Bool = true,
        agent startsAgent: Bool = true, _ body: (Stand) async throws -> Void
    ) async throws {
        let stand = try Stand(entities: entities, hubEntities: hubEntities ?? entities)
        do {
            if startsHub { try await stand.startHub() }
            if startsAgent { try await stand.startAgent() }
            try await body(stand)
            try await stand.checkResources()
        } catch {
            let logs = await stand.logs()
            await stand.takeDown()
            WatchedServers.check()
            throw StandError("\(error)\n\(logs)")
        }
        await stand.takeDown()
        WatchedServers.check()
    }

    private init(entities: String, hubEntities: String) throws {
        folder = try NewFolder.make("/tmp/edge-sync")
        port = try FreePorts.take(1)[0]
        self.entities = entities
        transport = try CurlTransport(name: "stand", idleConnections: 8)
        client = AgentClient(transport: transport, socketPath: "\(folder)/agent.sock")
        try FileManager.default.createDirectory(atPath: "\(folder)/hub", withIntermediateDirectories: false)
        knowsEntities = !hubEntities.isEmpty
        if knowsEntities { try Stand.write("entities:\n" + hubEntities + "\n", to: "\(folder)/entities.yaml") }
    }

    nonisolated var socketPath: String { "\(folder)/agent.sock" }
    var hubURL: String { "http://127.0.0.1:\(port)" }
    var hubPort: UInt16 { port }
    var agentProcess: pid_t? { agent?.pid }
    var isAgentRunning: Bool { agent?.isRunning == true }
    var hubProcess: pid_t? { hub?.pid }

    func setEnvironment(agent: [String: String], hub: [String: String] = [:]) {
        (agentEnvironment, hubEnvironment) = (agent, hub)
    }

    func setHubArguments(_ arguments: [String]) {
        hubArguments = arguments
    }

    func setStore(_ settings: String) {
        storeSettings = ", " + settings
    }

    // MARK: The hub

    /// Starts it on its port, and waits for the line with its address.
    func startHub() async throws {
        let pipe = try LinePipe()
        let child = try Child(
            [
                Programs.agenthub, "serve", "--data", "\(folder)/hub", "--listen", "127.0.0.1:\(port)",
            ] + (knowsEntities ? ["--entities", "\(folder)/entities.yaml"] : []) + hubArguments,
            environment: hubEnvironment, log: "\(folder)/hub.log", output: pipe.writingEnd)
        guard let line = await pipe.line(), Stand.port(in: line) == port else {
            await child.stop(SIGKILL)
            throw StandError("the hub did not say where it listens")
        }
        hub = child
        hubWatch = try ResourceWatch(
            "hub", child.pid, .hub(data: "\(folder)/hub"), temporaryFilesIn: ["\(folder)/hub"])
    }

    /// - Parameter keepsUploads: Unfinished uploads of a stopped agent may wait at the hub for the rest.
    @discardableResult
    func stopHub(keepsUploads: Bool = false) async -> Int32? {
        await recordLeftOver(hubWatch, hub, except: keepsUploads ? "/blobs/incoming/" : nil)
        hubWatch = nil
        defer { hub = nil }
        return await hub?.stop()
    }

    /// Stops it where it is: its connections stay, and it answers nothing until it is killed.
    func freezeHub() async {
        await recordLeftOver(hubWatch, hub)
        hubWatch = nil
        if let hub { kill(hub.pid, SIGSTOP) }
    }

    func killHub() async {
        hubWatch = nil
        await hub?.stop(SIGKILL)
        hub = nil
    }

    func token(for device: String) async throws -> String {
        let output = try await hubCommand(["token", "add", device])
        return output.trimmingCharacters(in: .whitespacesAndNewlines)
    }

    /// `agenthub stats --json`.
    func hubStats() async throws -> JSON {
        try JSONReader.read(try await hubCommand(["stats", "--json"]))
    }

    /// Mutations that took effect at the hub.
    func hubApplied() async throws -> Int64 {
        try await hubStats().object?["mutations"]?.object?["applied"]?.int ?? -1
    }

    /// The hub's records of an entity: id and document.
    func hubRecords(_ entity: String) async throws -> [(id: String, data: JSONObject)] {
        try await hubCommand(["export", entity]).split(separator: "\n").map { line in
            let object = try JSONReader.read(String(line)).object
            guard let id = object?["id"]?.text, let data = object?["data"]?.object else {
                throw StandError("not a line of an export: \(line)")
            }
            return (id, data)
        }
    }

    private func hubCommand(_ arguments: [String]) async throws -> String {
        let output = try await Child.run([Programs.agenthub] + arguments + ["--data", "\(folder)/hub"], in: folder)
        guard output.status == 0 else {
            throw StandError("agenthub \(arguments.joined(separator: " ")): \(output.status) \(output.talk)")
        }
        return output.text
    }

    /// The number behind `127.0.0.1:`.
    private static func port(in line: String) -> UInt16? {
        line.components(separatedBy: "127.0.0.1:").dropFirst().first.flatMap { UInt16($0.prefix { $0.isNumber }) }
    }

    // MARK: The agent

    /// From its next start on the agent finds the hub at that address; `nil`: at the hub's own.
    func placeBetween(_ url: String?) {
        hubURLForAgent = url
    }

    /// From its next start on the agent works by that.
    func configure(_ text: String) {
        ownConfiguration = text
    }

    /// The agent's rules as they are to be with the next reload or start.
    func declare(_ entities: String) throws {
        declared = entities
        try Stand.write(ownConfiguration ?? configuration, to: "\(folder)/agentd.yaml")
    }

    /// Starts it and waits until it says that it is ready.
    ///
    /// - Parameters:
    ///   - remembersDeaths: `true` when it may know that it was killed before. Most tests kill it on purpose, and five deaths in a row are
    ///     safe mode.
    ///   - watchdog: The interval of the watchdog that it is told.
    ///   - wrapper: The command that starts it: a program that becomes it, or that dies with it.
    func startAgent(remembersDeaths: Bool = false, watchdog: Duration? = nil, wrapper: [String] = []) async throws {
        if !remembersDeaths { unlink("\(folder)/agent/starts") }
        let tokenFile = "\(folder)/token"
        if ownConfiguration == nil, !FileManager.default.fileExists(atPath: tokenFile) {
            try Stand.write(try await token(for: Stand.device) + "\n", to: tokenFile)
        }
        try Stand.write(ownConfiguration ?? configuration, to: "\(folder)/agentd.yaml")
        // The old one takes its path with it, which the new one needs.
        self.readiness = nil
        let readiness = try ReadinessSocket(path: "\(folder)/notify.sock")
        var environment = agentEnvironment
        environment["NOTIFY_SOCKET"] = readiness.path
        if let watchdog { environment["WATCHDOG_USEC"] = String(watchdog.nanoseconds / 1_000) }
        let child = try Child(
            wrapper + [Programs.agentd, "--config", "\(folder)/agentd.yaml"], environment: environment, log: "\(folder)/agent.log")
        agent = child
        self.readiness = readiness
        try await readiness.ready(child)
        wakeWaiting()
        await watchAgent(child)
    }

    /// Waits until the agent says that line to its service manager.
    func untilAgentSays(_ line: String) async throws {
        guard let agent, let readiness else { throw StandError("the agent does not run") }
        try await readiness.hear(line, agent)
    }

    /// - Returns: The exit status.
    @discardableResult
    func stopAgent() async -> Int32? {
        await recordLeftOver(agentWatch, agent)
        agentWatch = nil
        defer { agent = nil }
        return await agent?.stop()
    }

    func killAgent() async {
        agentWatch = nil
        await agent?.stop(SIGKILL)
        agent = nil
    }

    /// Returns at once while the agent runs, otherwise after its next start.
    func untilAgentRuns() async {
        if agent?.isRunning == true { return }
        await withCheckedContinuation { waitingForAgent.append($0) }
    }

    /// Resumes all tasks that wait for the agent, whether it came or will not come.
    func wakeWaiting() {
        for waiting in waitingForAgent { waiting.resume() }
        waitingForAgent = []
    }

    /// `agentctl` with this agent's socket.
    func agentctl(_ arguments: String...) async throws -> Output { try await agentctl(arguments) }

    func agentctl(_ arguments: [String]) async throws -> Output {
        try await Child.run([Programs.agentctl] + arguments, environment: ["AGENTD_SOCKET": socketPath], in: folder)
    }

    /// One cycle, now, whatever it waits for; `ok` or why it failed.
    nonisolated func sync() async throws -> String {
        let answer = try await client.sync(SyncBody(SyncRequest(isForced: true), waits: true)).value
        guard let outcome = answer.outcome else { throw StandError("the agent did not wait for the end of the cycle") }
        return outcome.result
    }

    /// Syncs until nothing is open any more but so many rejected changes, which wait for a person.
    ///
    /// - Throws: When fifty cycles in a row do not bring that about.
    @discardableResult
    func settle(rejected: Int64 = 0) async throws -> StatusDocument {
        var last: StatusDocument?
        for _ in 0..<50 {
            _ = try await sync()
            let status = try await client.status().value
            if status.outbox.open == rejected, status.outbox.count(.rejected) == rejected { return status }
            last = status
        }
        throw StandError("\(last?.outbox.open ?? -1) mutations stay open: \(last?.sync.lastError ?? "no error")")
    }

    /// Asks for the status until it is so.
    nonisolated func until(_ what: String, _ isSo: (StatusDocument) -> Bool) async throws -> StatusDocument {
        let end = ContinuousClock.now + FieldStand.patience
        while true {
            let status = try await client.status().value
            if isSo(status) { return status }
            guard ContinuousClock.now < end else { throw StandError("never came: \(what); last \(status.outbox)") }
            await Pause.short()
        }
    }

    /// The usual one.
    var configuration: String {
        """
        hub: { url: "\(hubURLForAgent ?? hubURL)", device: \(Stand.device), token_file: "\(folder)/token" }
        socket: { path: "\(socketPath)", mode: "0600" }
        access:
          - { user: "\(geteuid())", role: admin, app: stand, rate: 100000 }
        store: { path: "\(folder)/agent"\(storeSettings) }
        \((declared ?? entities).isEmpty ? "" : "entities:\n" + (declared ?? entities))
        sync: { debounce: 0s, max_backoff: 1s }
        \(uploadURL.map { "blobs: { upload_url: \"\($0)\", verify: download }" } ?? "")

        """
    }

    // MARK: Resources of the programs

    /// Once it has answered, all its parts run.
    private func watchAgent(_ child: Child) async {
        agentWatch = nil
        // Behind a wrapper there is nothing to be told; one that cannot answer, or ends, is what the test is about.
        guard ResourceWatch.isProgram(child.pid, Programs.agentd), (try? await client.status()) != nil else { return }
        agentWatch = try? ResourceWatch(
            "agent", child.pid, .agent(state: "\(folder)/agent"), temporaryFilesIn: ["\(folder)/agent"])
    }

    /// - Throws: When a program that runs holds more than it may.
    private func checkResources() async throws {
        var left: [String] = []
        for (watch, child) in [(agentWatch, agent), (hubWatch, hub)] { left += try await leftOver(watch, child) }
        guard left.isEmpty else { throw StandError("not given back:\n" + left.joined(separator: "\n")) }
    }

    private func recordLeftOver(_ watch: ResourceWatch?, _ child: Child?, except part: String? = nil) async {
        do {
            let left = try await leftOver(watch, child, except: part)
            #expect(left.isEmpty, "not given back: \(left)")
        } catch {
            Issue.record(error)
        }
    }

    private func leftOver(_ watch: ResourceWatch?, _ child: Child?, except part: String? = nil) async throws -> [String] {
        guard let watch, let child, child.isRunning else { return [] }
        // Connections of this very process are ours to close.
        transport.closeIdleConnections()
        return try await watch.leftOver(except: part)
    }

    // MARK: Taking down

    private func takeDown() async {
        await killAgent()
        await killHub()
        wakeWaiting()
        transport.close()
        try? FileManager.default.removeItem(atPath: folder)
    }

    private func logs() -> String {
        ["agent", "hub"].map { name in
            let text = (try? String(contentsOfFile: "\(folder)/\(name).log", encoding: .utf8)) ?? ""
            let lines = text.split(separator: "\n")
            // The place of a crash; the registers that follow are of no use here.
            let crash = lines.firstIndex { $0.hasPrefix("*** ") || $0.contains("Fatal error:") }.map { lines[$0...].prefix(60) } ?? []
            let end = (crash + lines.suffix(20)).map { "  " + $0.prefix(300) }
            return "the end of the \(name)'s log:\n" + end.joined(separator: "\n")
        }.joined(separator: "\n")
    }

    static func write(_ text: String, to path: String) throws {
        guard
            FileManager.default.createFile(
                atPath: path, contents: Data(text.utf8), attributes: [.posixPermissions: NSNumber(value: 0o600)])
        else { throw StandError("cannot write \(path)") }
    }
}
