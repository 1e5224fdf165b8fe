import Foundation
import LocalAPI
import SyncCore
import SyncLinux

/// The real agent on a folder of its own, where no hub can be reached.
struct LoneAgent {
    let child: Child
    let client: AgentClient
    let place: String
    /// The service manager's side; it goes with this.
    private let readiness: ReadinessSocket

    /// It did not say that it is ready.
    struct Ended: Error, CustomStringConvertible {
        /// As ``Child/end()`` gives it.
        var status: Int32
        var log: String

        var description: String { "it ended with \(status): \(log.suffix(600))" }
    }

    /// - Parameter place: `agent` in it is the state folder.
    static func start(in place: String, over transport: CurlTransport, environment: [String: String] = [:]) async throws -> LoneAgent {
        // How often it died before is not the question.
        unlink("\(place)/agent/starts")
        try Stand.write(
            """
            hub: { url: "http://127.0.0.1:9", device: \(Stand.device), token_file: "\(place)/token" }
            socket: { path: "\(place)/s", mode: "0600" }
            access:
              - { user: "\(geteuid())", role: admin, app: stand, rate: 100000 }
            store: { path: "\(place)/agent" }
            entities:
            \(Recording.entities)

            """, to: "\(place)/agentd.yaml")
        let readiness = try ReadinessSocket(path: "\(place)/n")
        let child = try Child(
            [Programs.agentd, "--config", "\(place)/agentd.yaml"],
            environment: environment.merging(["NOTIFY_SOCKET": readiness.path]) { $1 }, log: "\(place)/log")
        do {
            try await readiness.ready(child)
        } catch {
            throw Ended(status: await child.stop(SIGKILL), log: log(of: place))
        }
        return LoneAgent(
            child: child, client: AgentClient(transport: transport, socketPath: "\(place)/s"), place: place, readiness: readiness)
    }

    static func log(of place: String) -> String { (try? String(contentsOfFile: "\(place)/log", encoding: .utf8)) ?? "" }
}
