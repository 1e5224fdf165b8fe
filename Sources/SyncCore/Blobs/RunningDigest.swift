/// A SHA-256 that goes on with every piece. Files are hashed by the system's libcrypto, which the shell hands in.
package protocol RunningDigest: AnyObject {
    func update(_ bytes: [UInt8])
    var blobDigest: BlobDigest { get }
}

/// The core's own, for tests and small things.
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
