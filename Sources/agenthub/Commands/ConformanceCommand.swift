import ArgumentParser
import HubConformance
import SyncCore
import SyncLinux

/// `agenthub conformance URL`: checks a server against the protocol that agents rely on.
struct ConformanceCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "conformance", abstract: "Check a server against the sync protocol, and report deviations.",
        discussion: """
            The command acts as one device with a database of its own; use a device that does nothing else. It also acts as a second \
            device if it has a token for it, or if the server requires none. It writes records of one entity and deletes them again. The \
            entity must accept documents of any content from the device, and nothing else may change it meanwhile. Optional parts that \
            the server does not offer are named, and are no failure.

            With --scoped it also checks how the server shares records out (deploy/api/PROTOCOL.md, section A16). \
            This takes the tokens of three devices without grants of their own, of which the third has the role office. \
            The entity of --scoped has scope: [site], and its field price \
            has the right office. A record of the entity of --grants grants the value of its field site to the device in its field \
            device; both fields have the right office.

            Exit status: 0 the server conforms, 1 it does not.
            """)

    @Argument(help: "URL of the server, http://… or https://…, without /v1.") var url: String
    @Option(help: ArgumentHelp("Token of a device. Without it, the checks with a wrong token are not tried.", valueName: "token"))
    var token: String?
    @Option(help: ArgumentHelp("File with the token, which keeps it out of the list of processes.", valueName: "file"))
    var tokenFile: String?
    @Option(help: ArgumentHelp("File with the token of a second device, for the checks that need two.", valueName: "file"))
    var otherTokenFile: String?
    @Option(help: ArgumentHelp("File with the token of a third device, which has the role office, for --scoped.", valueName: "file"))
    var officeTokenFile: String?
    @Option(help: "Id of the device, if no token tells it.") var device: DeviceID?
    @Option(help: "Entity whose records are written and deleted.") var entity = EntityName(trusted: "conformance")
    @Option(help: ArgumentHelp("Entity with scopes, for the checks of scopes.", valueName: "entity")) var scoped: EntityName?
    @Option(help: ArgumentHelp("Entity whose records grant scopes, for --scoped.", valueName: "entity"))
    var grants = EntityName(trusted: "conformance_grants")
    @Option(help: ArgumentHelp("Issuers of the server's certificate, PEM.", valueName: "file")) var ca: String?
    @Option(help: ArgumentHelp("Certificate of the device, PEM.", valueName: "file")) var cert: String?
    @Option(help: ArgumentHelp("Private key of --cert, PEM.", valueName: "file")) var key: String?
    @Flag(help: "Print JSON.") var json = false

    func validate() throws {
        guard url.hasPrefix("http://") || url.hasPrefix("https://"), !url.contains("?"), !url.contains("#") else {
            throw ValidationError("expected http://… or https://…, found \(url)")
        }
        if token != nil, tokenFile != nil { throw ValidationError("--token and --token-file exclude each other") }
        if (cert == nil) != (key == nil) { throw ValidationError("--cert and --key belong together") }
        let isOpen = token == nil && tokenFile == nil && cert == nil
        if scoped != nil, !isOpen, otherTokenFile == nil || officeTokenFile == nil {
            throw ValidationError("--scoped takes three devices: --other-token-file and --office-token-file are missing")
        }
        if scoped == nil, officeTokenFile != nil { throw ValidationError("--office-token-file belongs to --scoped") }
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
        if let scoped {
            let office = try officeTokenFile.map { ConformanceRun.Settings.Other(token: try shownToken(in: $0), device: nil) }
            settings.scopes = .init(
                orders: scoped, grants: grants, office: office ?? .init(token: nil, device: DeviceID(trusted: "conformance-office")))
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
