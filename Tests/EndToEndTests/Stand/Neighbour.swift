import Foundation
import Glibc
import LocalAPI
import SyncCore
import SyncLinux

/// A second agent beside the one of a ``Stand``, with a device name, files and socket of its own.
final class Neighbour: Sendable {
    let client: AgentClient
    private let folder: String
    private let transport: CurlTransport
    private let child: Child

    /// Starts it and waits until it says that it is ready.
    init(_ device: String, on stand: Stand) async throws {
        folder = "\(stand.folder)/\(device)"
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: false)
        transport = try CurlTransport(name: device, idleConnections: 4)
        client = AgentClient(transport: transport, socketPath: "\(folder)/agent.sock")
        try Stand.write(try await stand.token(for: device) + "\n", to: "\(folder)/token")
        let configuration = """
            hub: { url: "\(await stand.hubURL)", device: \(device), token_file: "\(folder)/token" }
            socket: { path: "\(folder)/agent.sock", mode: "0600" }
            access:
              - { user: "\(geteuid())", role: admin, app: neighbour, rate: 100000 }
            store: { path: "\(folder)/agent" }
            \(stand.entities.isEmpty ? "" : "entities:\n" + stand.entities)
            sync: { debounce: 0s, max_backoff: 1s }

            """
        try Stand.write(configuration, to: "\(folder)/agentd.yaml")
        let readiness = try ReadinessSocket(path: "\(folder)/notify.sock")
        child = try Child(
            [Programs.agentd, "--config", "\(folder)/agentd.yaml"], environment: ["NOTIFY_SOCKET": readiness.path],
            log: "\(folder)/agent.log")
        try await readiness.ready(child)
    }

    /// One cycle, now.
    func sync() async throws {
        let answer = try await client.sync(SyncBody(SyncRequest(isForced: true), waits: true)).value
        guard answer.outcome?.result == "ok" else { throw StandError("the neighbour's cycle: \(answer.outcome?.result ?? "no outcome")") }
    }

    func agentctl(_ arguments: String...) async throws -> Output {
        try await Child.run([Programs.agentctl] + arguments, environment: ["AGENTD_SOCKET": "\(folder)/agent.sock"], in: folder)
    }

    var log: String {
        let text = (try? String(contentsOfFile: "\(folder)/agent.log", encoding: .utf8)) ?? ""
        return text.split(separator: "\n").suffix(20).map { "  " + $0.prefix(300) }.joined(separator: "\n")
    }

    func stop() async {
        await child.stop(SIGKILL)
        transport.close()
    }
}
