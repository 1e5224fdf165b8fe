import BenchKit
import CBenchFloors
import Glibc

/// One `agenthub serve` of a fleet: alone over a folder, or a replica over a server's database. It can be killed and restarted.
final class FleetHub {
    private(set) var port: UInt16 = 0
    private let arguments: [String]
    private let log: String
    private var pid: pid_t = 0
    private var output: Int32 = -1
    /// CPU time of its ended processes, in nanoseconds.
    private var spent: UInt64 = 0

    /// - Parameters:
    ///   - place: `--data FOLDER` or `--database URL`.
    ///   - folder: The folder for its log and the settings of the entities.
    ///   - settings: The settings of the entities, as YAML.
    init(_ program: String, place: [String], in folder: String, settings: String) throws {
        let entities = "\(folder)/entities.yaml"
        try write(settings, to: entities)
        log = "\(folder)/hub.log"
        // All devices have one address, as behind a balancer: the limit of connections of an address would close some of them.
        arguments = [program, "serve", "--open", "--strangers-per-address", "0", "--entities", entities] + place
        try start()
    }

    func start() throws {
        var descriptor: Int32 = -1
        pid = try BenchKit.start(arguments + ["--listen", "127.0.0.1:\(port)"], log: log, output: &descriptor)
        output = descriptor
        do {
            let line = try readLine(descriptor, of: pid, doing: "agenthub")
            guard let said = HubUnderTest.port(in: line) else { throw BenchError("agenthub: no address in \"\(line)\"") }
            port = said
        } catch {
            _ = bench_stop(pid, SIGKILL, 0)
            throw BenchError("\(error)\n\(tail(of: log))")
        }
    }

    /// CPU time of all its processes, in nanoseconds.
    var cpu: UInt64 { spent + (pid > 0 ? bench_process_cpu(pid) : 0) }

    /// The kernel's figures for the present process.
    var facts: ProcessFacts? { pid > 0 ? ProcessFacts(pid) : nil }

    /// Stops the process as a debugger or a frozen machine does: its connections stay open, and nothing answers.
    func freeze() { if pid > 0 { kill(pid, SIGSTOP) } }

    func thaw() { if pid > 0 { kill(pid, SIGCONT) } }

    /// Ends the process; a second call does nothing.
    func end(_ signal: Int32) {
        guard pid > 0 else { return }
        spent = cpu
        // A frozen process would not get another signal.
        thaw()
        _ = bench_stop(pid, signal, 20_000)
        close(output)
        pid = 0
    }
}
