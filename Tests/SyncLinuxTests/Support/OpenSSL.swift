import Foundation
import Glibc

/// The `openssl` command line: makes certificates and serves TLS with them.
enum OpenSSL {
    /// `nil` when it is not installed; the tests that need it are skipped then.
    static let path: String? = ["/usr/bin/openssl", "/usr/local/bin/openssl"].first { (path: String) in access(path, X_OK) == 0 }

    @discardableResult
    static func run(_ arguments: [String], in directory: String) throws -> String {
        let process = Process()
        process.executableURL = URL(fileURLWithPath: path ?? "")
        process.arguments = arguments
        process.currentDirectoryURL = URL(fileURLWithPath: directory)
        let output = Pipe()
        process.standardOutput = output
        process.standardError = output
        process.standardInput = FileHandle.nullDevice
        try process.run()
        let text = String(decoding: output.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
        process.waitUntilExit()
        guard process.terminationStatus == 0 else { throw Failure(text: "openssl \(arguments): \(text)") }
        return text
    }

    struct Failure: Error {
        var text: String
    }
}

/// An authority of the test's own, with all its files in one directory.
struct CertificateAuthority: Sendable {
    let directory: String
    var file: String { directory + "/ca.crt" }

    struct Certificate: Sendable {
        var file: String
        var key: String
    }

    enum Validity: String, Sendable { case now, past, future }

    init(in parent: String, name: String) throws {
        directory = parent + "/" + name
        try FileManager.default.createDirectory(atPath: directory, withIntermediateDirectories: false)
        try "".write(toFile: directory + "/index.txt", atomically: true, encoding: .utf8)
        try """
        [ca]
        default_ca = default
        [default]
        database = index.txt
        new_certs_dir = .
        rand_serial = yes
        default_md = sha256
        policy = policy
        unique_subject = no
        [policy]
        commonName = supplied
        """.write(toFile: directory + "/ca.conf", atomically: true, encoding: .utf8)
        try OpenSSL.run(
            ["req", "-x509", "-nodes", "-keyout", "ca.key", "-out", "ca.crt", "-subj", "/CN=Test \(name)", "-days", "30"]
                + Self.newKey, in: directory)
    }

    /// - Parameter names: As in `subjectAltName`: `DNS:localhost,IP:127.0.0.1`.
    func issue(_ name: String, _ names: String, _ validity: Validity = .now) throws -> Certificate {
        try "subjectAltName=\(names)\n".write(toFile: "\(directory)/\(name).ext", atomically: true, encoding: .utf8)
        try OpenSSL.run(
            ["req", "-new", "-nodes", "-keyout", "\(name).key", "-out", "\(name).csr", "-subj", "/CN=\(name)"] + Self.newKey,
            in: directory)
        let dates: [Validity: [String]] = [
            .now: ["-days", "20"],
            .past: ["-startdate", "20010101000000Z", "-enddate", "20020101000000Z"],
            .future: ["-startdate", "20900101000000Z", "-enddate", "20910101000000Z"],
        ]
        try OpenSSL.run(
            [
                "ca", "-batch", "-notext", "-config", "ca.conf", "-cert", "ca.crt", "-keyfile", "ca.key", "-extfile", "\(name).ext",
                "-in", "\(name).csr", "-out", "\(name).crt",
            ] + (dates[validity] ?? []), in: directory)
        return Certificate(file: "\(directory)/\(name).crt", key: "\(directory)/\(name).key")
    }

    /// `sha256//…` of a certificate's public key.
    func pin(of certificate: Certificate) throws -> String {
        try OpenSSL.run(["x509", "-in", certificate.file, "-pubkey", "-noout", "-out", "pub.pem"], in: directory)
        try OpenSSL.run(["pkey", "-pubin", "-in", "pub.pem", "-outform", "der", "-out", "pub.der"], in: directory)
        try OpenSSL.run(["dgst", "-sha256", "-binary", "-out", "pub.sha", "pub.der"], in: directory)
        return "sha256//" + (try Data(contentsOf: URL(fileURLWithPath: directory + "/pub.sha"))).base64EncodedString()
    }

    private static let newKey = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"]
}

/// `openssl s_server` with every request answered by hand: 200 with an empty body. One connection at a time.
final class TLSServer: @unchecked Sendable {
    private(set) var port = 0

    private let process = Process()
    private let input = Pipe()
    private let lock = NSLock()
    private var talk = ""

    private let isSilent: Bool

    /// - Parameters:
    ///   - directory: The folder in which it runs; with `-WWW` it serves the files there.
    ///   - isSilent: It reads and answers nothing.
    init(
        _ certificate: CertificateAuthority.Certificate, _ arguments: [String] = [], in directory: String? = nil, isSilent: Bool = false
    ) throws {
        self.isSilent = isSilent
        process.executableURL = URL(fileURLWithPath: OpenSSL.path ?? "")
        if let directory { process.currentDirectoryURL = URL(fileURLWithPath: directory) }
        process.arguments =
            ["s_server", "-accept", "127.0.0.1:0", "-cert", certificate.file, "-key", certificate.key] + arguments
        let output = Pipe()
        process.standardOutput = output
        process.standardError = output
        process.standardInput = input
        try process.run()
        let reader = output.fileHandleForReading.fileDescriptor
        var begun = ""
        while port == 0 {
            guard let text = Self.read(reader) else { throw OpenSSL.Failure(text: "s_server: \(begun)") }
            begun += text
            let lines = begun.split(separator: "\n", omittingEmptySubsequences: false).dropLast()
            port = lines.first { $0.hasPrefix("ACCEPT ") }?.split(separator: ":").last.flatMap { Int($0) } ?? 0
        }
        // The thread keeps the pipe's end open for as long as it reads.
        Thread.detachNewThread { [self] in
            answer(reader)
            withExtendedLifetime(output) {}
        }
    }

    /// The output of s_server, with the requests in it.
    var output: String { lock.withLock { talk } }

    func stop() {
        // SIGTERM would not arrive: a child inherits the signal mask, and Dispatch's threads block nearly everything.
        kill(process.processIdentifier, SIGKILL)
        process.waitUntilExit()
    }

    private func answer(_ reader: Int32) {
        var unanswered = ""
        while let text = Self.read(reader) {
            lock.withLock { talk += text }
            if isSilent { continue }
            unanswered += text
            while let end = unanswered.range(of: "\r\n\r\n") {
                unanswered = String(unanswered[end.upperBound...])
                let answer = Array("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n".utf8)
                _ = answer.withUnsafeBytes { write(input.fileHandleForWriting.fileDescriptor, $0.baseAddress, $0.count) }
            }
        }
    }

    private static func read(_ descriptor: Int32) -> String? {
        var room = [UInt8](repeating: 0, count: 64 << 10)
        let count = Glibc.read(descriptor, &room, room.count)
        return count > 0 ? String(decoding: room.prefix(count), as: UTF8.self) : nil
    }
}
