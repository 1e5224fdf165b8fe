/// Storage of files: complete ones under their digest, incomplete ones under a name of their own.
///
/// A file under a digest is complete at every moment, also after a crash. After ``IncomingBlob/sync()`` has returned, the bytes survive a
/// power cut, and every other process that shares the storage sees them.
///
/// Calls block: they belong on a thread that may wait for a disk or a network.
package protocol BlobStorage: Sendable {
    /// Opens an incomplete file, or begins it.
    ///
    /// - Parameter offset: An offset at which ``IncomingBlob/sync()`` was called. Bytes beyond it are dropped.
    /// - Throws: `.damaged` when bytes before it are missing.
    func open(incoming name: String, at offset: Int64) throws(BlobError) -> any IncomingBlob
    /// Removes an incomplete file. One that cannot be removed now is found by ``incoming()`` later.
    func discard(incoming name: String)
    /// Every incomplete file, with the time of its last write.
    func incoming() throws(BlobError) -> [(name: String, changedAt: Timestamp)]
    func kept() throws(BlobError) -> [BlobDigest]
    /// Size of a file, bytes; `nil`: there is none.
    func size(of digest: BlobDigest) throws(BlobError) -> Int64?
    func read(_ digest: BlobDigest) throws(BlobError) -> any BlobReader
    func remove(_ digest: BlobDigest) throws(BlobError)
    /// Free space, bytes; `nil` when it cannot be determined, or is unlimited.
    func freeBytes() -> Int64?
    /// Checks whether the storage answers, where it can be away.
    func check() throws(BlobError)
    /// `true` when the storage answered the last time; `nil` where it cannot be away. Reading it does not block.
    var isReachable: Bool? { get }
    /// The properties of the storage for its callers.
    var traits: BlobStorageTraits { get }
}

package struct BlobStorageTraits: Hashable, Sendable {
    /// Number of threads that may wait for it at the same time.
    package var threads: Int
    /// Memory for one upload while its bytes are received, bytes.
    package var bytesPerUpload: Int
    /// Size of one read, bytes.
    package var readBytes: Int
    /// The storage is reached over a network and can be away.
    package var isRemote: Bool

    package init(threads: Int, bytesPerUpload: Int, readBytes: Int, isRemote: Bool) {
        self.threads = threads
        self.bytesPerUpload = bytesPerUpload
        self.readBytes = readBytes
        self.isRemote = isRemote
    }

    /// A disk: a second thread would only wait for the first.
    package static let folder = BlobStorageTraits(threads: 1, bytesPerUpload: 64 << 10, readBytes: 128 << 10, isRemote: false)
}

/// A file while its bytes are received. It must not be used by two threads at once. A caller that appends after ``sync()`` has durably
/// stored its offset before: data that only an earlier offset needs may be dropped then.
package protocol IncomingBlob: AnyObject {
    var offset: Int64 { get }
    func append(_ bytes: [UInt8]) throws(BlobError)
    func sync() throws(BlobError)
    /// Digest of all bytes so far.
    func digest() -> BlobDigest
    /// Syncs, and gives the file its final name. An existing complete file of that name stays.
    ///
    /// - Throws: `.altered` when the storage returns other bytes than it was given.
    func keep(as digest: BlobDigest) throws(BlobError)
    func discard()
}

package protocol BlobReader: AnyObject, Sendable {
    var size: Int64 { get }
    /// Reads bytes; fewer than `count` only at the end.
    func read(at offset: Int64, count: Int) throws(BlobError) -> [UInt8]
}

package struct BlobError: Error, Hashable, Sendable, CustomStringConvertible {
    package enum Code: String, Hashable, Sendable {
        case notFound, damaged, full
        /// The named or received file may not be accepted, or the storage refuses this program.
        case refused
        case tooLarge
        case io
        /// The storage cannot be reached at the moment.
        case away
        /// The storage holds other bytes than it was given.
        case altered
    }

    package var code: Code
    package var doing: String
    package var detail: String

    package init(_ code: Code, doing: String, detail: String) {
        self.code = code
        self.doing = doing
        self.detail = detail
    }

    package var description: String { "\(doing): \(detail)" }
}
