import Foundation
import Glibc
import PostgresStand
import ProcessStand

/// Two replicas of the real hub over one PostgreSQL database, behind the real HAProxy with the configuration that we ship.
actor ReplicaYard {
    nonisolated let url: String
    private let database: String
    private let stand: Stand
    private var replicas: [Child?] = [nil, nil]
    /// Ports that the kernel gives to no other connection, because each replica comes back to its own.
    private let ports: [UInt16]
    private var balancer: Child?
    private let listener: Int32

    private static let haproxy = "/usr/sbin/haproxy"

    /// The obstacle on this machine, in a word; `nil`: none.
    static var obstacle: String? {
        if !PostgresServer.isInstalled { return "postgresql is not installed" }
        return FileManager.default.isExecutableFile(atPath: haproxy) ? nil : "haproxy is not installed"
    }

    /// - Parameter body: Runs with both replicas and the balancer ready, and an agent that goes through it.
    static func with(_ stand: Stand, _ body: (ReplicaYard) async throws -> Void) async throws {
        let yard = try ReplicaYard(stand)
        do {
            for index in 0..<2 { try await yard.start(index) }
            try await yard.startBalancer()
            let token = try await yard.command(["token", "add", Stand.device]).trimmingCharacters(in: .whitespacesAndNewlines)
            try Stand.write(token + "\n", to: "\(stand.folder)/token")
            await stand.placeBetween(yard.url)
            try await stand.startAgent()
            try await body(yard)
        } catch {
            let logs = yard.logs()
            await yard.takeDown()
            throw StandError("\(error)\n\(logs)")
        }
        await yard.takeDown()
    }

    private init(_ stand: Stand) throws {
        self.stand = stand
        database = try PostgresServer.shared.get().newURL()
        try FileManager.default.createDirectory(atPath: "\(stand.folder)/files", withIntermediateDirectories: false)
        ports = try FreePorts.take(2)
        let balancer = try FreePorts.listen()
        listener = balancer.descriptor
        url = "http://127.0.0.1:\(balancer.port)"
    }

    // MARK: Replicas

    /// Starts a replica on the port that the balancer knows. A tenth of its answers is lost after the commit.
    func start(_ index: Int) async throws {
        let pipe = try LinePipe()
        let child = try Child(
            [
                Programs.agenthub, "serve", "--database", database, "--data", "\(stand.folder)/files", "--listen",
                "127.0.0.1:\(ports[index])", "--entities", "\(stand.folder)/entities.yaml",
            ], environment: ["AGENTHUB_FAULTS": "drop=0.1,seed=\(index + 1)"], log: "\(stand.folder)/replica-\(index).log",
            output: pipe.writingEnd)
        guard let line = await pipe.line(), line.hasSuffix(":\(ports[index])") else {
            await child.stop(SIGKILL)
            throw StandError("replica \(index) did not say where it listens")
        }
        replicas[index] = child
    }

    func kill(_ index: Int) async {
        await replicas[index]?.stop(SIGKILL)
        replicas[index] = nil
    }

    // MARK: Old copies

    /// A backup of the database by an operator's tools, made now.
    nonisolated func dump() throws -> String {
        try PostgresServer.shared.get().backUp(schema: PostgresServer.schema(of: database))
    }

    /// Puts a copy back while no replica runs. The replicas that start then are not told.
    func putBack(_ dump: String) async throws {
        for index in 0..<2 { await kill(index) }
        try PostgresServer.shared.get().restore(dump, schema: PostgresServer.schema(of: database))
        for index in 0..<2 { try await start(index) }
    }

    private func startBalancer() throws {
        let file = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent().deletingLastPathComponent().appendingPathComponent("deploy/balancer/haproxy.cfg").path
        balancer = try Child(
            [Self.haproxy, "-db", "-f", file],
            environment: ["HUB_LISTEN": "fd@\(listener)", "HUB_A": "127.0.0.1:\(ports[0])", "HUB_B": "127.0.0.1:\(ports[1])"],
            log: "\(stand.folder)/balancer.log")
    }

    // MARK: Asking

    func command(_ arguments: [String]) async throws -> String {
        let output = try await Child.run([Programs.agenthub] + arguments + ["--database", database], in: stand.folder)
        guard output.status == 0 else { throw StandError("agenthub \(arguments.joined(separator: " ")): \(output.status) \(output.talk)") }
        return output.text
    }

    private func takeDown() async {
        for index in 0..<2 { await kill(index) }
        await balancer?.stop(SIGKILL)
        close(listener)
    }

    private nonisolated func logs() -> String {
        ["replica-0", "replica-1", "balancer"].map { name in
            let text = (try? String(contentsOfFile: "\(stand.folder)/\(name).log", encoding: .utf8)) ?? ""
            return "\(name):\n" + text.split(separator: "\n").suffix(15).map { "  " + $0.prefix(300) }.joined(separator: "\n")
        }.joined(separator: "\n")
    }
}
