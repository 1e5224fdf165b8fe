import Foundation
import LocalAPI
import SyncCore
import SyncLinux

/// The real agent on a folder of its own.
struct LoneAgent {
    let child: Child
    let client: AgentClient
    let place: String
    /// The service manager's side; it goes with this.
    private let readiness: ReadinessSocket

    /// - Parameters:
    ///   - place: `agent` in it is the state folder.
    ///   - configures: `false`: the configuration is there already.
    ///   - hub: Address of a hub, whose token is in `place/token`; `nil`: none can be reached.
    static func start(
        in place: String, over transport: CurlTransport, environment: [String: String] = [:], configures: Bool = true,
        hub: String? = nil, entities: String = Recording.entities
    ) async throws -> LoneAgent {
        if configures { try configure(place, hub, entities) }
        // Earlier deaths must not lead to safe mode.
        unlink("\(place)/agent/starts")
        // A path of its own: the end of one that was here before may still be on its way to the other.
        let readiness = try ReadinessSocket(path: "\(place)/n\(UInt16.random(in: .min ... .max))")
        let child = try Child(
            [Programs.agentd, "--config", "\(place)/agentd.yaml"],
            environment: environment.merging(["NOTIFY_SOCKET": readiness.path]) { $1 }, log: "\(place)/log")
        do {
            try await readiness.ready(child)
        } catch {
            throw EndedAtStart(status: await child.stop(SIGKILL), place: place)
        }
        return LoneAgent(
            child: child, client: AgentClient(transport: transport, socketPath: "\(place)/s"), place: place, readiness: readiness)
    }

    private static func configure(_ place: String, _ hub: String?, _ entities: String) throws {
        try Stand.write(
            """
            hub: { url: "\(hub ?? "http://127.0.0.1:9")", device: \(Stand.device), token_file: "\(place)/token" }
            socket: { path: "\(place)/s", mode: "0600" }
            access:
              - { user: "\(geteuid())", role: admin, app: stand, rate: 100000 }
            store: { path: "\(place)/agent" }
            \(hub == nil ? "" : "sync: { debounce: 0s, max_backoff: 1s }")
            entities:
            \(entities)

            """, to: "\(place)/agentd.yaml")
    }
}

/// The real hub on a folder of its own, open to all devices.
struct LoneHub {
    let child: Child
    let url: String

    /// - Parameter place: `hub` in it is the folder of its data.
    static func start(in place: String, environment: [String: String] = [:], options: [String] = []) async throws -> LoneHub {
        try Stand.write("entities:\n" + Recording.entities + "\n", to: "\(place)/entities.yaml")
        let pipe = try LinePipe()
        let child = try Child(
            [
                Programs.agenthub, "serve", "--data", "\(place)/hub", "--listen", "127.0.0.1:0", "--open", "--entities",
                "\(place)/entities.yaml",
            ] + options, environment: environment, log: "\(place)/log", output: pipe.writingEnd)
        guard let port = await pipe.line()?.split(separator: ":").last else {
            // The end of its output is its end.
            throw EndedAtStart(status: await child.end(), place: place)
        }
        return LoneHub(child: child, url: "http://127.0.0.1:\(port)")
    }
}

/// A program did not say that it is ready.
struct EndedAtStart: Error, CustomStringConvertible {
    /// As ``Child/end()`` gives it.
    let status: Int32
    private let log: String

    init(status: Int32, place: String) {
        self.status = status
        log = Self.log(of: place)
    }

    /// The last words in `place/log`.
    static func log(of place: String) -> String {
        (try? String(contentsOfFile: "\(place)/log", encoding: .utf8))?.suffix(600).description ?? ""
    }

    var description: String { "it ended with \(status): \(log)" }
}
