import BenchKit
import CBenchFloors
import Glibc

/// The real `agenthub`, started for a measurement.
final class HubUnderTest {
    let port: UInt16
    private let pid: pid_t
    private let output: Int32

    private let program: String
    private let folder: String
    private let log: String

    /// Creates a token for each device, starts the hub on a free port and waits for the line that names its address.
    init(program: String?, in folder: String, devices: [String], tokens: inout [String: String]) throws {
        let program = try program ?? neighbour("agenthub")
        let log = "\(folder)/log"
        (self.program, self.folder, self.log) = (program, folder, log)
        for device in devices {
            tokens[device] = try HubUnderTest.token(program, device: device, folder: folder, log: log)
        }
        var descriptor: Int32 = -1
        pid = try start([program, "serve", "--data", folder, "--listen", "127.0.0.1:0"], log: log, output: &descriptor)
        output = descriptor
        do {
            let line = try readLine(descriptor, of: pid, doing: "agenthub")
            guard let port = HubUnderTest.port(in: line) else {
                throw BenchError("agenthub: no address in \"\(line)\"")
            }
            self.port = port
        } catch {
            _ = bench_stop(pid, SIGKILL, 0)
            throw BenchError("\(error)\n\(tail(of: log))")
        }
    }

    /// CPU time that the hub has used since its start, in nanoseconds.
    var cpu: UInt64 { bench_process_cpu(pid) }

    func stop() {
        _ = bench_stop(pid, SIGTERM, 20_000)
        close(output)
    }

    /// Runs a command of an operator beside the running hub.
    ///
    /// - Throws: When the command fails, with the end of the log.
    func operate(_ command: [String]) throws {
        let pid = try start([program] + command + ["--data", folder], log: log)
        guard bench_stop(pid, 0, 600_000) == 0 else {
            throw BenchError("agenthub \(command.joined(separator: " ")) failed\n\(tail(of: log))")
        }
    }

    static func token(_ program: String, device: String, folder: String, log: String) throws -> String {
        var descriptor: Int32 = -1
        let pid = try start([program, "token", "add", device, "--data", folder], log: log, output: &descriptor)
        defer {
            _ = bench_stop(pid, 0, 10_000)
            close(descriptor)
        }
        return try readLine(descriptor, of: pid, doing: "agenthub token add")
    }

    /// The number after the last colon that digits follow: `listening on http://127.0.0.1:8443`.
    static func port(in line: String) -> UInt16? {
        line.split(separator: ":").dropFirst().reversed().lazy
            .compactMap { part in UInt16(part.prefix { $0.isASCII && $0.isNumber }) }
            .first
    }
}
