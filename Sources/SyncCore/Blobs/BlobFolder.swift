/// Blobs in a folder of this machine.
///
///     blobs/ab/<sha256>          whole, synced, never changed
///     blobs/incoming/<name>      on its way; of no use to anybody else
///
/// A file gets its final name by a rename after its bytes and before its folder are synced.
package protocol BlobFolder: BlobStorage {
    /// As ``BlobStorage/open(incoming:at:)``; a file can also be copied into it.
    func openFile(incoming name: String, at offset: Int64) throws(BlobError) -> any IncomingCopy
    /// Opens what a client of ours named, if it lies below one of the folders and belongs to the user. No link is followed.
    func source(path: String, below folders: [String], ownedBy uid: UInt32) throws(BlobError) -> BlobSource
}

package protocol IncomingCopy: IncomingBlob {
    /// All of a descriptor that was handed over, from its beginning. Closes it.
    ///
    /// - Throws: `.refused` when it is no regular file, or had another length at the end than at the beginning.
    func copy(_ source: BlobSource, atMost limit: Int64) throws(BlobError)
}

extension BlobFolder {
    package func open(incoming name: String, at offset: Int64) throws(BlobError) -> any IncomingBlob {
        try openFile(incoming: name, at: offset)
    }

    /// A disk that is gone shows at the next call.
    package func check() throws(BlobError) {}

    package var isReachable: Bool? { nil }

    package var traits: BlobStorageTraits { .folder }
}

/// An open descriptor of somebody else's file. Closed with the last reference.
package final class BlobSource: Sendable {
    package let descriptor: Int32
    private let close: @Sendable (Int32) -> Void

    package init(descriptor: Int32, close: @escaping @Sendable (Int32) -> Void) {
        self.descriptor = descriptor
        self.close = close
    }

    deinit { close(descriptor) }
}
