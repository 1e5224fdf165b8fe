/// A SHA-256 that is updated with every piece. The system's libcrypto hashes files; the shell passes it in.
package protocol RunningDigest: AnyObject {
    func update(_ bytes: [UInt8])
    var blobDigest: BlobDigest { get }
}

/// The core's own implementation, for tests and small data.
package final class SlowDigest: RunningDigest {
    private var hash = SHA256()

    package init() {}

    package func update(_ bytes: [UInt8]) { hash.update(bytes) }

    package var blobDigest: BlobDigest {
        var copy = hash
        guard let digest = BlobDigest(bytes: copy.finish()) else { preconditionFailure("a SHA-256 has 32 bytes") }
        return digest
    }
}
