import NIOCore
import NIOSSL
import SyncCore

/// TLS 1.2 or newer in front of the hub, and devices that show who they are by a certificate.
package struct HubTLS: Sendable, Hashable {
    /// PEM, leaf first.
    package var certificateFile: String
    package var keyFile: String
    /// Issuers of client certificates, PEM. A client need not show one; one that does must be of these.
    package var clientCAFile: String?

    package init(certificateFile: String, keyFile: String, clientCAFile: String? = nil) {
        self.certificateFile = certificateFile
        self.keyFile = keyFile
        self.clientCAFile = clientCAFile
    }

    struct Context: Sendable {
        fileprivate let context: NIOSSLContext

        func handler() -> NIOSSLServerHandler { NIOSSLServerHandler(context: context) }
    }

    /// Reads the files.
    ///
    /// - Throws: `.badCertificate` with the file that cannot be used.
    func context() throws(HubError) -> Context {
        let chain = try reading(certificateFile) { try NIOSSLCertificate.fromPEMFile(certificateFile) }
        let key = try reading(keyFile) { try NIOSSLPrivateKey(file: keyFile, format: .pem) }
        var configuration = TLSConfiguration.makeServerConfiguration(
            certificateChain: chain.map { .certificate($0) }, privateKey: .privateKey(key))
        configuration.minimumTLSVersion = .tlsv12
        configuration.applicationProtocols = ["http/1.1"]
        if let clientCAFile {
            let issuers = try reading(clientCAFile) { try NIOSSLCertificate.fromPEMFile(clientCAFile) }
            configuration.trustRoots = .certificates(issuers)
            configuration.certificateVerification = .optionalVerification
        }
        let finished = configuration
        return Context(context: try reading(certificateFile) { try NIOSSLContext(configuration: finished) })
    }

    private func reading<T>(_ file: String, _ body: () throws -> T) throws(HubError) -> T {
        do { return try body() } catch { throw HubError(.badCertificate, doing: "use \(file)", detail: "\(error)") }
    }

    /// The device that a client's certificate names: its first subject alternative name of kind DNS that is a device id.
    static func device(of channel: any Channel) -> DeviceID? {
        // Without the handler there is no TLS, and nobody to name.
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
