package import CBenchFloors
import Glibc
package import LocalAPI
import SyncCore

/// The real `agentd`, started for a measurement with a state folder of its own.
package final class AgentUnderTest {
    /// A port of the loopback address without a listener: the agent finds itself offline at once.
    package static let noHub = "http://127.0.0.1:9"

    package let socketPath: String
    package let pid: pid_t
    private let log: String
    private let configurationFile: String
    /// The whole configuration except the caller's settings.
    private let usualConfiguration: String

    /// Starts the agent and waits until it reports that it is ready.
    ///
    /// - Parameter program: `nil`: `agentd` next to this program.
    /// - Parameter token: The hub's token for the device.
    /// - Parameter issuer: File of the certificate that must have issued the hub's; `nil`: those of the system.
    /// - Parameter settings: Further lines of the configuration, complete ones.
    /// - Parameter daysLater: Number of days by which its boot time is ahead, so that retention times of days are over (time_namespaces(7);
    ///   requires root).
    package init(
        program: String?, in folder: String, device: String = "bench", hubURL: String, token: String = "none",
        issuer: String? = nil, producers: Producers, settings: String = "", environment: [String] = [], daysLater: Int = 0
    ) throws {
        socketPath = "\(folder)/agent.sock"
        log = "\(folder)/log"
        try write(token + "\n", to: "\(folder)/token")
        let configuration = "\(folder)/agentd.yaml"
        configurationFile = configuration
        usualConfiguration = AgentUnderTest.configuration(
            folder: folder, socket: socketPath, device: device, hubURL: hubURL, issuer: issuer, producers: producers)
        try write(usualConfiguration + settings, to: configuration)

        let notify = "\(folder)/notify.sock"
        var readiness: Int32 = -1
        try checked("agentd") { bench_notify_open(notify, &readiness, $0) }
        defer { close(readiness) }
        let program = try program ?? neighbour("agentd")
        let clock = daysLater == 0 ? [] : ["/usr/bin/unshare", "--time", "--boottime", "\(daysLater * 86_400)"]
        pid = try start(clock + [program, "--config", configuration], environment: ["NOTIFY_SOCKET=\(notify)"] + environment, log: log)
        do {
            let child = pid
            try checked("agentd") { bench_notify_wait(readiness, child, 30_000, $0) }
        } catch {
            _ = bench_stop(pid, SIGKILL, 0)
            throw BenchError("\(error)\n\(tail(of: log))")
        }
    }

    /// CPU time that the agent has used since its start, in nanoseconds, all threads.
    package var cpu: UInt64 { bench_process_cpu(pid) }

    /// Sends one request to the agent.
    ///
    /// - Throws: When there is no answer, or one that is not 2xx.
    @discardableResult
    package func call(_ method: String, _ target: String, body: String? = nil, timeout: Duration = .seconds(30)) throws
        -> String
    {
        var status: Int32 = 0
        var answer = [CChar](repeating: 0, count: 256 << 10)
        try checked("\(method) \(target)") {
            bench_call(
                socketPath, method, target, body, Int32(timeout.components.seconds * 1_000), &status, &answer,
                answer.count, $0)
        }
        let text = String(decoding: answer.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
        guard (200..<300).contains(status) else { throw BenchError("\(method) \(target): \(status) \(text)") }
        return text
    }

    /// The outbox by the agent's own count.
    package func outbox() throws -> StatusDocument.Outbox { try status().outbox }

    package func status() throws -> StatusDocument {
        let text = try call("GET", "/v1/status")
        // Text that is no JSON is no status.
        guard let json = try? JSONReader.read(text), let status = StatusDocument(json) else {
            throw BenchError("this is no status of an agent: \(text.prefix(200))")
        }
        return status
    }

    /// Polls the status until the condition holds, for a minute by default.
    package func wait(seconds: Int = 60, until isSo: (StatusDocument) throws -> Bool) throws {
        let end = ContinuousClock.now + .seconds(seconds)
        while true {
            let status = try status()
            if try isSo(status) { return }
            guard ContinuousClock.now < end else {
                throw BenchError("the agent stays \(status.connectivity.state), with \(status.outbox.open) mutations open")
            }
            _ = poll(nil, 0, 20)
        }
    }

    /// Adds the agent's own output to an error that `body` throws.
    package func explaining<Result>(_ body: () throws -> Result) throws -> Result {
        do {
            return try body()
        } catch {
            var end = bench_failure()
            bench_how_ended(pid, &end)
            let words = end.message.isEmpty ? "" : "\nThe agent \(end.message)."
            throw BenchError("\(error)\(words)\nThe end of its log:\n\(tail(of: log))")
        }
    }

    /// Applies other settings from now on.
    package func reload(_ settings: String) throws {
        try write(usualConfiguration + settings, to: configurationFile)
        try call("POST", "/v1/config/reload")
    }

    package func stop() {
        _ = bench_stop(pid, SIGTERM, 20_000)
    }

    /// Ends the agent as a crash or the kernel would.
    package func kill() {
        _ = bench_stop(pid, SIGKILL, 0)
    }

    private static func configuration(
        folder: String, socket: String, device: String, hubURL: String, issuer: String?, producers: Producers
    ) -> String {
        // One app with one rate for all users: the agent is measured, not its limits.
        let rules = ([geteuid()] + producers.users).map { user in
            "  - { user: \"\(user)\", role: \(user == geteuid() ? "admin" : "enqueue"), app: bench, rate: 100000 }"
        }
        return """
            hub:
              url: \(hubURL)
              device: \(device)
              token_file: \(folder)/token\(issuer.map { "\n  ca_file: \($0)" } ?? "")
            socket: { path: \(socket), mode: "0600" }
            access:
            \(rules.joined(separator: "\n"))
            store: { path: \(folder)/state, max_size: 16GB, max_mutations: 10000000 }
            entities:
              \(BenchEntity.event.name): { kind: event }
              \(BenchEntity.record.name): { kind: record }
            log: { level: warning }

            """
    }
}
