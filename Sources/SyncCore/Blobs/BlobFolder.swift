/// Files in a folder of this machine.
///
///     blobs/ab/<sha256>          complete, synced, never changed
///     blobs/incoming/<name>      incomplete; used only by its own upload
///
/// A file gets its final name by a rename after its bytes and before its folder are synced.
package protocol BlobFolder: BlobStorage {
    /// Does the same as ``BlobStorage/open(incoming:at:)``; a file can also be copied into it.
    func openFile(incoming name: String, at offset: Int64) throws(BlobError) -> any IncomingCopy
    /// Opens the file that a client named, if it lies below one of the folders and belongs to the user. Links are not followed.
    func source(path: String, below folders: [String], ownedBy uid: UInt32) throws(BlobError) -> BlobSource
}

package protocol IncomingCopy: IncomingBlob {
    /// Copies the whole content of a received descriptor, from its beginning, and closes the descriptor.
    ///
    /// - Throws: `.refused` when it is no regular file, or its length has changed during the copy.
    func copy(_ source: BlobSource, atMost limit: Int64) throws(BlobError)
}

extension BlobFolder {
    package func open(incoming name: String, at offset: Int64) throws(BlobError) -> any IncomingBlob {
        try openFile(incoming: name, at: offset)
    }

    /// A missing disk shows at the next call.
    package func check() throws(BlobError) {}

    package var isReachable: Bool? { nil }

    package var traits: BlobStorageTraits { .folder }
}

/// An open descriptor of a file that belongs to another user. It is closed with the last reference.
package final class BlobSource: Sendable {
    package let descriptor: Int32
    private let close: @Sendable (Int32) -> Void

    package init(descriptor: Int32, close: @escaping @Sendable (Int32) -> Void) {
        self.descriptor = descriptor
        self.close = close
    }

    deinit { close(descriptor) }
}
