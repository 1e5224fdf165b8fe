import Glibc
import NIOCore
import NIOSSL
import SyncCore

/// TLS 1.2 or newer in front of the hub, and devices that authenticate by a certificate.
package struct HubTLS: Sendable, Hashable {
    /// PEM, leaf first.
    package var certificateFile: String
    package var keyFile: String
    /// Issuers of client certificates, PEM. A client need not show a certificate; one that it shows must come from these.
    package var clientCAFile: String?

    package init(certificateFile: String, keyFile: String, clientCAFile: String? = nil) {
        self.certificateFile = certificateFile
        self.keyFile = keyFile
        self.clientCAFile = clientCAFile
    }

    struct Context: Sendable {
        fileprivate let context: NIOSSLContext
        /// The earliest end of a certificate in the chain.
        let endsAt: Timestamp

        func handler() -> NIOSSLServerHandler { NIOSSLServerHandler(context: context) }
    }

    /// The contents of the files. Each is read once, so that parts of two renewals are not mixed unnoticed.
    struct Contents: Hashable, Sendable {
        var certificates: [UInt8]
        var key: [UInt8]
        var clientCAs: [UInt8]?
    }

    /// Larger than any chain of certificates, bytes.
    private static let fileBytesMax = 1 << 20

    /// - Throws: `.badCertificate` with the file that cannot be read.
    func read() throws(HubError) -> Contents {
        var contents = Contents(certificates: try bytes(of: certificateFile), key: try bytes(of: keyFile))
        if let clientCAFile { contents.clientCAs = try bytes(of: clientCAFile) }
        return contents
    }

    /// - Throws: `.badCertificate` with the file that cannot be used, and the reason.
    func context(of contents: Contents) throws(HubError) -> Context {
        let chain = try reading(certificateFile, as: "certificates in PEM, the hub's own first") {
            try NIOSSLCertificate.fromPEMBytes(contents.certificates)
        }
        guard let end = chain.map({ Int64($0.notValidAfter) }).min() else {
            throw HubError(
                .badCertificate, doing: "use \(certificateFile)",
                detail: "there is no certificate in it; expected certificates in PEM, the hub's own first")
        }
        let key = try reading(keyFile, as: "a private key in PEM without a passphrase") {
            try NIOSSLPrivateKey(bytes: contents.key, format: .pem)
        }
        var configuration = TLSConfiguration.makeServerConfiguration(
            certificateChain: chain.map { .certificate($0) }, privateKey: .privateKey(key))
        configuration.minimumTLSVersion = .tlsv12
        configuration.applicationProtocols = ["http/1.1"]
        if let clientCAFile, let clientCAs = contents.clientCAs {
            let issuers = try reading(clientCAFile, as: "certificates of issuers in PEM") { try NIOSSLCertificate.fromPEMBytes(clientCAs) }
            configuration.trustRoots = .certificates(issuers)
            configuration.certificateVerification = .optionalVerification
        }
        let context: NIOSSLContext
        do {
            context = try NIOSSLContext(configuration: configuration)
        } catch {
            // Both files were read, so the key does not match. BoringSSL does not say so in words.
            throw HubError(
                .badCertificate, doing: "use \(keyFile)",
                detail:
                    "it is not the key of the certificate in \(certificateFile) (\(error)); expected the key that this certificate was "
                    + "made for")
        }
        return Context(context: context, endsAt: Timestamp(milliseconds: end * 1_000))
    }

    private func bytes(of file: String) throws(HubError) -> [UInt8] {
        let descriptor = open(file, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { throw unreadable(file) }
        defer { close(descriptor) }
        var bytes: [UInt8] = []
        var room = [UInt8](repeating: 0, count: 64 << 10)
        while true {
            let count = Glibc.read(descriptor, &room, room.count)
            if count < 0 { throw unreadable(file) }
            if count == 0 { return bytes }
            bytes += room.prefix(count)
            guard bytes.count <= Self.fileBytesMax else {
                throw HubError(.badCertificate, doing: "use \(file)", detail: "it has more than \(Self.fileBytesMax) bytes; expected PEM")
            }
        }
    }

    private func unreadable(_ file: String) -> HubError {
        HubError(.badCertificate, doing: "read \(file)", detail: String(cString: strerror(errno)))
    }

    private func reading<T>(_ file: String, as expected: String, _ body: () throws -> T) throws(HubError) -> T {
        do { return try body() } catch {
            throw HubError(.badCertificate, doing: "use \(file)", detail: "it cannot be read (\(error)); expected \(expected)")
        }
    }

    /// The device that a client's certificate names: its first subject alternative name of kind DNS that is a device id.
    static func device(of channel: any Channel) -> DeviceID? {
        // Without the handler there is no TLS, and no device to name.
        guard let handler = try? channel.pipeline.syncOperations.handler(type: NIOSSLServerHandler.self),
            let names = handler.peerCertificate?._subjectAlternativeNames()
        else { return nil }
        for name in names where name.nameType == .dnsName {
            let text = name.contents.withUnsafeBufferPointer { String(validating: $0, as: UTF8.self) }
            if let device = text.flatMap({ DeviceID($0) }) { return device }
        }
        return nil
    }
}
