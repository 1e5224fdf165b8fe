import ArgumentParser
import HubConformance
import SyncCore
import SyncLinux

/// `agenthub conformance URL`: checks a server against the protocol that agents rely on.
struct ConformanceCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "conformance", abstract: "Hold a server against the sync protocol, and say what it does otherwise.",
        discussion: """
            Speaks as one device (better one that does nothing else) with a database of its own, and as a second one where it has a token \
            for that or the server asks for none, writes records of one entity and deletes them again. The entity \
            must take documents of any content from that device, and rest meanwhile. Optional parts that the server does not \
            offer are named, and are no failure. Exit status: 0 it conforms, 1 it does not.
            """)

    @Argument(help: "Where the server is: http://… or https://…, without /v1.") var url: String
    @Option(help: ArgumentHelp("The token of a device. Without one, what a server does with a wrong one is not tried.", valueName: "token"))
    var token: String?
    @Option(help: ArgumentHelp("A file with the token, which so is in no list of processes.", valueName: "file")) var tokenFile: String?
    @Option(help: ArgumentHelp("A file with the token of a second device, for what only two can show.", valueName: "file"))
    var otherTokenFile: String?
    @Option(help: "The device, where no token says it.") var device: DeviceID?
    @Option(help: "Records of this entity are written and deleted.") var entity = EntityName(trusted: "conformance")
    @Option(help: ArgumentHelp("Issuers of the server's certificate, PEM.", valueName: "file")) var ca: String?
    @Option(help: ArgumentHelp("Certificate of the device, PEM.", valueName: "file")) var cert: String?
    @Option(help: ArgumentHelp("Its private key, PEM.", valueName: "file")) var key: String?
    @Flag(help: "Print JSON.") var json = false

    func validate() throws {
        guard url.hasPrefix("http://") || url.hasPrefix("https://"), !url.contains("?"), !url.contains("#") else {
            throw ValidationError("expected http://… or https://…, found \(url)")
        }
        if token != nil, tokenFile != nil { throw ValidationError("--token and --token-file say the same thing twice") }
        if (cert == nil) != (key == nil) { throw ValidationError("--cert and --key belong together") }
    }

    func run() throws {
        var base = url
        while base.hasSuffix("/") { base.removeLast() }
        var settings = ConformanceRun.Settings(
            baseURL: base, token: try tokenFile.map { try shownToken(in: $0) } ?? token, entity: entity, seed: systemRandomSeed())
        // A server without credentials identifies the device by its header.
        settings.device = device ?? (settings.token == nil && cert == nil ? DeviceID(trusted: "conformance") : nil)
        if let otherTokenFile {
            settings.other = .init(token: try shownToken(in: otherTokenFile), device: nil)
        } else if settings.token == nil, cert == nil {
            settings.other = .init(token: nil, device: DeviceID(trusted: "conformance-2"))
        }
        settings.tls = TLSIdentity(caFile: ca, clientCertificateFile: cert, clientKeyFile: key)
        let transport = try CurlTransport(name: "conformance", idleConnections: 2)
        defer { transport.close() }
        let run = settings
        let report = CallingThread.run {
            await ConformanceRun.run(run, transport: transport, compressor: ZlibCompressor(), time: SystemClocks())
        }
        try Say.result(json ? report.json.json : report.lines().joined(separator: "\n"))
        if !report.isConformant { throw ExitCode(1) }
    }

    private func shownToken(in file: String) throws -> String {
        do throws(LinuxError) {
            let bytes = try DurableFiles(calls: LinuxFileCalls()).read(file, maxBytes: 4_096)
            return String(decoding: bytes, as: UTF8.self).split { $0.isWhitespace }.first.map { String($0) } ?? ""
        } catch {
            throw Failure(error)
        }
    }
}
