import Foundation
import Glibc
import LocalAPI
import SyncCore
import SyncLinux

/// An existing backend that is not ours: a Django REST framework application with ETags, an idempotency header on one of its
/// resources, ids of its own and pages, and before it a relay that can lose, break and refuse (`backend.py`).
final class RestBackend: Sendable {
    /// A Python that has it.
    static let python: String? = {
        guard let python = ProcessInfo.processInfo.environment["EDGE_SYNC_PYTHON"], access(python, X_OK) == 0 else { return nil }
        let probe = Process()
        probe.executableURL = URL(fileURLWithPath: python)
        probe.arguments = ["-c", "import rest_framework"]
        probe.standardError = FileHandle.nullDevice
        guard (try? probe.run()) != nil else { return nil }
        probe.waitUntilExit()
        return probe.terminationStatus == 0 ? python : nil
    }()

    private let child: Child
    private let transport: CurlTransport
    /// Addresses of the backend itself, and of the relay before it.
    let direct: String
    let url: String

    init(on stand: Stand) async throws {
        guard let python = Self.python else { throw StandError("no python") }
        let script = URL(fileURLWithPath: #filePath).deletingLastPathComponent().appendingPathComponent("backend.py").path
        let folder = "\(stand.folder)/backend"
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        let pipe = try LinePipe()
        let process = try Child([python, script, folder], log: "\(stand.folder)/hub.log", output: pipe.writingEnd)
        let words = await pipe.line()?.split(separator: " ") ?? []
        guard words.count == 3, words[0] == "ready" else {
            await process.stop(SIGKILL)
            throw StandError("the backend did not start")
        }
        child = process
        transport = stand.transport
        direct = "http://127.0.0.1:\(words[1])"
        url = "http://127.0.0.1:\(words[2])"
    }

    func stop() async {
        // `try?`: a backend that a test has ended already has nothing more to say.
        _ = try? await faults()
        await child.stop(SIGKILL)
    }

    /// Sets the faults that the relay injects from now on: into requests of a method whose target contains a text, and into a share of all
    /// others.
    ///
    /// - Returns: Method, target, fault and `If-Match` of every request since the last time that it forgot.
    @discardableResult
    func faults(
        _ rules: [(method: String, path: String, fault: String, count: Int)] = [], share: Double = 0, seed: Int = 1, forget: Bool = false
    ) async throws -> [[String]] {
        let list = rules.map { rule in
            JSON.object([
                "method": .string(rule.method), "path": .string(rule.path), "fault": .string(rule.fault), "count": .int(rule.count),
            ])
        }
        var body: JSONObject = ["rules": .array(list), "seed": .int(seed), "forget": .bool(forget)]
        body["share"] = JSONNumber(share).map { .number($0) }
        let request = HTTPRequest(.post, url + "/__faults", headers: ["Content-Type": "application/json"], body: .bytes(body.bytes))
        let answer = try JSONReader.read(try await transport.send(request).body)
        WatchedServers.complain((answer.object?["complaints"]?.array ?? []).compactMap(\.text), of: "the backend")
        return (answer.object?["seen"]?.array ?? []).map { ($0.array ?? []).map { $0.text ?? "" } }
    }

    /// All rows of a resource, by id, as the backend itself shows them.
    func rows(_ resource: String, _ query: String = "") async throws -> [Int64: JSONObject] {
        var rows: [Int64: JSONObject] = [:]
        var next: String? = "\(direct)/api/\(resource)/?limit=1000\(query)"
        while let address = next {
            let page = try JSONReader.read(try await call(.get, address, nil).body).object ?? [:]
            for row in page["results"]?.array ?? [] {
                guard let object = row.object, let id = object["id"]?.int else { throw StandError("a row without id: \(row)") }
                rows[id] = object
            }
            next = page["next"]?.text
        }
        return rows
    }

    /// Sends a request as another client of the backend.
    @discardableResult
    func call(_ method: HTTPRequest.Method, _ address: String, _ body: JSONObject?, _ headers: [(String, String)] = []) async throws
        -> HTTPResponse
    {
        var fields: HTTPHeaders = ["X-Api-Key": "secret", "Content-Type": "application/json"]
        for (name, value) in headers { fields[name] = value }
        let target = address.hasPrefix("http") ? address : direct + address
        let answer = try await transport.send(HTTPRequest(method, target, headers: fields, body: body.map { .bytes($0.bytes) } ?? .none))
        guard (200...299).contains(answer.status) else {
            throw StandError("\(method.rawValue) \(address): \(answer.status) \(String(decoding: answer.body, as: UTF8.self))")
        }
        return answer
    }

    /// Changes an order as another client would.
    func change(order id: Int64, _ fields: JSONObject) async throws {
        let tag = try await call(.get, "/api/orders/\(id)/", nil).headers["ETag"] ?? ""
        try await call(.patch, "/api/orders/\(id)/", fields, [("If-Match", tag)])
    }

    /// The mapping that the manual describes, for this backend.
    func configuration(of stand: Stand) throws -> String {
        try Stand.write("secret\n", to: "\(stand.folder)/key")
        return """
            adapter: rest
            rest:
              base_url: \(url)
              headers: { X-Api-Key: { file: "\(stand.folder)/key" } }
              idempotency: { header: Idempotency-Key, quoted: true, window: 24h }
              verify_after: 0s
              probe: /api/
              entities:
                sites:
                  create: { path: /api/sites/, id: $.id, document: $ }
                  update: { path: "/api/sites/{server_id}/", document: $ }
                  delete: { path: "/api/sites/{server_id}/" }
                  read: { path: "/api/sites/{server_id}/" }
                  list: { path: "/api/sites/?updated_since={cursor}&limit={limit}", items: $.results, next: $.next, cursor_from: "$.results[*].updated_at:max", overlap: 5m, limit: 5 }
                orders:
                  client_id: client_ref
                  fields: { headline: title }
                  read_only: [revision, deleted_at, updated_at]
                  idempotency: none
                  create: { path: /api/orders/, id: $.id, version: "header:ETag", document: $ }
                  update: { path: "/api/orders/{server_id}/", if_match: true, version: "header:ETag", document: $ }
                  delete: { path: "/api/orders/{server_id}/", if_match: true }
                  read: { path: "/api/orders/{server_id}/", version: "header:ETag" }
                  lookup: { path: "/api/orders/?client_ref={id}", items: $.results }
                  list: { path: "/api/orders/?updated_since={cursor}&limit={limit}", items: $.results, next: $.next, cursor_from: "$.results[*].updated_at:max", overlap: 5m, deleted: $.deleted_at, limit: 5 }
                remarks:
                  idempotency: none
                  create: { path: /api/remarks/, id: $.id, document: $ }
                  list: { path: "/api/remarks/?limit={limit}", items: $.results, next: $.next, limit: 5 }
            hub: { device: stand }
            socket: { path: "\(stand.socketPath)", mode: "0600" }
            access:
              - { user: "\(geteuid())", role: admin, app: stand, rate: 100000 }
            store: { path: "\(stand.folder)/agent" }
            entities:
              sites: { kind: record }
              orders: { kind: record, refs: { site: sites }, fields: { notes: append, visits: counter }, critical_fields: [finding] }
              remarks: { kind: record, refs: { order: orders } }
            sync: { debounce: 0s, max_backoff: 1s, pull_interval: 1s }

            """
    }
}
