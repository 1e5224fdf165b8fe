import Agent
import Foundation
import HubServer
import LocalAPI
import Logging
import NIOCore
import NIOPosix
import RepetitionOracle
import SyncCore
import SyncHTTP
import SyncLinux
import SyncStore
import SyncYAML
import Synchronization
import Testing

/// A whole agent in a folder of its own: real store on disk, real socket, real HTTP. Only the way to the hub is a stand-in,
/// which hands each request to a real hub's logic, or does to it what the test wants.
final class AgentStand: Sendable {
    let folder: String
    let socket: String
    let hub: LoopbackHub
    /// The environment of the agent.
    let outside: Outside
    let agent: Agent
    let client: CurlTransport
    private let group: MultiThreadedEventLoopGroup
    private let server: HTTPServer
    private let writer: StoreWriter
    private let reader: StoreReader

    /// - Parameters:
    ///   - settings: YAML laid over the stand's own configuration.
    ///   - freeBytes: Free space on the disk, bytes.
    ///   - limits: The limits of the socket.
    ///   - adjust: Further changes of the environment.
    static func start(
        _ settings: String = "", hub: LoopbackHub? = nil, in folder: String? = nil, freeBytes: Int64 = 1 << 40,
        limits: HTTPServerLimits = .localAPI, adjust: (inout AgentEnvironment) -> Void = { _ in }
    ) async throws -> AgentStand {
        let folder = try folder ?? Self.makeFolder()
        return try await AgentStand(folder, settings, hub ?? LoopbackHub(), freeBytes, limits, adjust)
    }

    /// May be changed at any time; the agent asks again.
    final class Outside: Sendable {
        private let files: Mutex<[ConfigurationFile]>
        private let secret = Mutex("token")

        fileprivate init(files: [ConfigurationFile]) {
            self.files = Mutex(files)
        }

        fileprivate var configurationFiles: [ConfigurationFile] { files.withLock { $0 } }

        var token: String {
            get { secret.withLock { $0 } }
            set { secret.withLock { $0 = newValue } }
        }

        /// Writes the settings of ``AgentStand/start(_:hub:in:freeBytes:)`` anew.
        func write(_ settings: String) {
            files.withLock { $0[1] = ConfigurationFile(name: "conf.d/test.yaml", contents: .success(Array(settings.utf8))) }
        }
    }

    /// The error of a token that cannot be read.
    struct NoToken: Error, CustomStringConvertible {
        var description: String { "read the token: no such file: /etc/agentd/token" }
    }

    static func makeFolder() throws -> String {
        // Short: a socket path has 107 bytes.
        let path = "/tmp/agent-test-\(UInt32.random(in: 0 ... .max))"
        try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: false)
        return path
    }

    private init(
        _ folder: String, _ settings: String, _ hub: LoopbackHub, _ freeBytes: Int64, _ limits: HTTPServerLimits,
        _ adjust: (inout AgentEnvironment) -> Void
    ) async throws {
        self.folder = folder
        self.hub = hub
        socket = folder + "/a.sock"
        let accounts = Accounts(ownUser: getuid(), user: { _ in nil }, group: { $0 == "tests" ? getgid() : nil })
        let base = """
            hub: { url: "http://127.0.0.1:9", device: gw-test }
            socket: { path: \(socket), group: tests }
            store: { path: \(folder), min_free: 1MB }
            sync: { debounce: 1m, pull_interval: 1h, wait_for_news: never }

            """
        let files = [
            ConfigurationFile(name: "agentd.yaml", contents: .success(Array(base.utf8))),
            ConfigurationFile(name: "conf.d/test.yaml", contents: .success(Array((settings.isEmpty ? "{}\n" : settings).utf8))),
        ]
        let loaded = try ConfigurationLoader.read(files, accounts: accounts)
        let outside = Outside(files: files)
        self.outside = outside
        group = MultiThreadedEventLoopGroup(numberOfThreads: 1)
        let loop = group.next()
        let deliver: StoreWriter.Deliver = { calls in loop.execute { for call in calls { call() } } }
        let path = folder + "/agent.db"
        var options = StoreOptions(
            device: DeviceID(trusted: "gw-test"), bootID: "boot-1", rules: loaded.configuration.rules,
            capacity: loaded.configuration.storeCapacity, seed: 7)
        options.fileCapacity = loaded.configuration.blobCapacity
        writer = StoreWriter(
            time: SystemClocks(), deliver: deliver, incident: { Issue.record("store incident: \($0)") },
            open: { [options] now throws(StoreError) in try Store(Database.open(path: path), options, at: now) })
        _ = try writer.start()
        reader = StoreReader(path: path, time: SystemClocks(), deliver: deliver)
        var log = Logger(label: "test", factory: { _ in SwiftLogNoOpLogHandler() })
        log.logLevel = .critical
        var environment = AgentEnvironment(
            transport: hub, compressor: ZlibCompressor(), time: SystemClocks(), bootID: "boot-1", seed: 7,
            token: { outside.token }, freeBytes: { freeBytes }, accounts: accounts, configurationFiles: { outside.configurationFiles },
            keepLastGood: { _ in }, log: log)
        // The agent begins nothing by itself: each test says when.
        environment.spread = .seconds(36_000)
        adjust(&environment)
        agent = Agent(
            .init(configuration: loaded, device: DeviceID(trusted: "gw-test"), store: writer, reader: reader),
            environment: environment, executor: LoopExecutor(loop))
        server = try await agent.listen(on: .unix(path: socket, mode: 0o660, group: nil), group: group, limits: limits)
        client = try CurlTransport()
        await agent.start()
    }

    /// Stops in good order and removes the folder.
    func stop(keepingFolder: Bool = false) async throws {
        #expect(hub.complaints == [], "the agent repeats itself")
        await agent.endWork()
        await server.stop(within: .seconds(5))
        client.close()
        reader.close()
        try writer.close()
        try await group.shutdownGracefully()
        if !keepingFolder { try FileManager.default.removeItem(atPath: folder) }
    }

    // MARK: Requests

    func send(
        _ method: HTTPRequest.Method, _ path: String, _ body: String? = nil, headers: HTTPHeaders = [:]
    ) async throws -> Answer {
        var headers = headers
        if body != nil, headers["Content-Type"] == nil { headers["Content-Type"] = "application/json" }
        let response = try await client.send(
            HTTPRequest(
                method, "http://localhost" + path, headers: headers,
                body: body.map { .bytes(Array($0.utf8)) } ?? .none, socketPath: socket))
        return Answer(response)
    }

    struct Answer {
        var status: Int
        var headers: HTTPHeaders
        var text: String
        /// `nil` when the body is not JSON.
        var json: JSON?

        init(_ response: HTTPResponse) {
            status = response.status
            headers = response.headers
            text = String(decoding: response.body, as: UTF8.self)
            json = try? JSONReader.read(response.body)
        }

        /// The last part of a problem's type.
        var code: String? { json.map { Problem($0).code } }

        subscript(name: String) -> JSON? { json?.object?[name] }
    }

    /// Enqueues one mutation and returns its id.
    func enqueue(_ body: String) async throws -> String {
        let answer = try await send(.post, "/v1/mutations", body)
        #expect(answer.status == 201, "\(answer.text)")
        return try #require(answer["id"]?.text)
    }

    /// Waits for the end of a cycle that began after this call.
    @discardableResult
    func sync(force: Bool = true) async throws -> Answer {
        try await send(.post, "/v1/sync", #"{"wait":true,"force":\#(force)}"#)
    }
}

/// The way to a hub without a network: every request goes to the logic of a real hub, in memory, unless the test has put
/// something in between.
final class LoopbackHub: HTTPTransport {
    enum Weather: Sendable {
        case fine
        /// No connection.
        case gone
        /// This answer instead of the hub's; the hub never sees the request.
        case says(HTTPResponse)
        /// The hub does it, and its answer is lost.
        case losesAnswers
        /// No whole answer; the hub never sees the request.
        case fails(TransportError)
        /// The hub does it, and the results in its answers to pushes are changed on the way.
        case changesResults(@Sendable ([JSON]) -> [JSON])
        /// The hub does it, and its answer is changed on the way.
        case changes(@Sendable (HTTPRequest, inout HTTPResponse) -> Void)
    }

    private let state: Mutex<State>

    private struct State {
        var hub: Unguarded
        var weather = Weather.fine
        var requests: [HTTPRequest] = []
        var oracle = RepetitionOracle()
    }

    /// A hub is for one thread at a time; the mutex around it sees to that.
    private struct Unguarded: @unchecked Sendable {
        let hub: Hub
    }

    init(rules: RuleBook = RuleBook()) throws {
        let hub = try Hub(.memory, settings: Hub.Settings(rules: rules, compressor: ZlibCompressor()), random: SeededRandom(seed: 1))
        state = Mutex(State(hub: Unguarded(hub: hub)))
    }

    /// Sets the configuration that the hub sends to agents from now on.
    func offer(_ settings: JSONObject?) {
        state.withLock { $0.hub.hub.settings.config = settings.map { HubConfiguration($0) } }
    }

    var weather: Weather {
        get { state.withLock { $0.weather } }
        set { state.withLock { $0.weather = newValue } }
    }

    /// Acts of the agent that are forbidden to all agents: see ``RepetitionOracle``.
    var complaints: [String] { state.withLock { $0.oracle.complaints } }

    /// Requests so far, in order.
    var requests: [HTTPRequest] { state.withLock { $0.requests } }

    /// The document of a record at the hub.
    func document(_ entity: String, _ id: String) throws -> JSON? {
        let answer = ask("GET", "/v1/sync/pull?entity=\(entity)")
        let page = try PullMessages.readResponse(answer.body).pages.first
        return page?.records.first { $0.id.text == id }.map { .object($0.record.data) }
    }

    /// The work of a back office at the hub.
    func publish(_ entity: String, _ id: String, _ data: JSONObject) throws {
        let name = RecordName(EntityName(trusted: entity), RecordID(trusted: id))
        _ = try state.withLock { state in try state.hub.hub.publish(name, data, at: SystemClocks().now().wall) }
    }

    /// The work of an operator at the hub.
    func operate(_ work: @Sendable (Hub) throws -> Void) rethrows { try state.withLock { try work($0.hub.hub) } }

    /// The work of another device at the hub.
    @discardableResult
    func ask(_ method: String, _ target: String, body: String = "", device: String = "gw-other") -> HubResponse {
        state.withLock { state in
            state.hub.hub.handle(
                HubRequest(
                    method, target,
                    headers: [
                        "Sync-Version": "1", "Sync-Device": device, "Sync-Replica": "r-\(device)",
                        "Content-Type": "application/json",
                    ], body: Array(body.utf8)),
                at: SystemClocks().now().wall)
        }
    }

    func send(_ request: HTTPRequest) async throws(TransportError) -> HTTPResponse {
        let result: Result<HTTPResponse, TransportError> = state.withLock { state in
            state.requests.append(request)
            var asked: [UInt8] = []
            if case .bytes(let bytes) = request.body { asked = bytes }
            state.oracle.saw(
                "\(request.method.rawValue) \(request.url)", body: asked,
                atSeconds: SystemClocks().now().instant.nanoseconds / 1_000_000_000)
            let lost = TransportError(.unreachable, doing: "connect to the hub", detail: "no route")
            switch state.weather {
            case .gone: return .failure(lost)
            case .says(let response): return .success(response)
            case .fails(let error): return .failure(error)
            case .fine, .losesAnswers, .changesResults, .changes:
                var body: [UInt8] = []
                if case .bytes(let bytes) = request.body { body = bytes }
                let path = ["http://127.0.0.1:9", "https://hub.test:8443"].reduce(request.url) { url, place in
                    url.hasPrefix(place) ? String(url.dropFirst(place.count)) : url
                }
                let answer = state.hub.hub.handle(
                    HubRequest(request.method.rawValue, path, headers: request.headers, body: body),
                    at: SystemClocks().now().wall)
                if case .losesAnswers = state.weather {
                    return .failure(TransportError(.broken, doing: "read the answer", detail: "connection reset"))
                }
                var response = HTTPResponse(status: answer.status, headers: answer.headers, body: answer.body)
                (response.traffic.up, response.traffic.down) = (body.count, answer.body.count)
                if case .changes(let change) = state.weather { change(request, &response) }
                if case .changesResults(let change) = state.weather { response.body = Self.changed(response.body, change) }
                return .success(response)
            }
        }
        return try result.get()
    }

    private static func changed(_ body: [UInt8], _ change: ([JSON]) -> [JSON]) -> [UInt8] {
        guard var answer = (try? JSONReader.read(body, limits: .message))?.object, let results = answer["results"]?.array else {
            return body
        }
        answer["results"] = .array(change(results))
        return JSON.object(answer).bytes
    }

    func stream(
        _ request: HTTPRequest, onHead: @escaping @Sendable (Int, HTTPHeaders) -> Void,
        onBody: @escaping @Sendable ([UInt8]) -> Bool
    ) async throws(TransportError) -> HTTPResponse {
        var response = try await send(request)
        onHead(response.status, response.headers)
        var rest = response.body[...]
        while !rest.isEmpty, onBody(Array(rest.prefix(64 << 10))) { rest = rest.dropFirst(64 << 10) }
        response.body = []
        return response
    }
}
