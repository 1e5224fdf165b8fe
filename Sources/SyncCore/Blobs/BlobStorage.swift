/// Where blobs lie, whatever it is: whole ones under their digest, those that are still coming under a name of their own.
///
/// What is under a digest is whole, at every moment, whoever dies. What ``IncomingBlob/sync()`` has returned for is there after
/// a power cut and for every other process that shares the storage.
///
/// Calls block: they belong on a thread that may wait for a disk or a network.
package protocol BlobStorage: Sendable {
    /// Takes up a blob that is on its way, or begins it.
    ///
    /// - Parameter offset: One that ``IncomingBlob/sync()`` was called at. What is beyond is dropped.
    /// - Throws: `.damaged` when not everything before it is there.
    func open(incoming name: String, at offset: Int64) throws(BlobError) -> any IncomingBlob
    /// What cannot be removed now is found by ``incoming()`` later.
    func discard(incoming name: String)
    /// Every blob on its way, and when it was last written to.
    func incoming() throws(BlobError) -> [(name: String, changedAt: Timestamp)]
    func kept() throws(BlobError) -> [BlobDigest]
    /// `nil`: there is none.
    func size(of digest: BlobDigest) throws(BlobError) -> Int64?
    func read(_ digest: BlobDigest) throws(BlobError) -> any BlobReader
    func remove(_ digest: BlobDigest) throws(BlobError)
    /// Free bytes; `nil` when it cannot be asked, or has no end.
    func freeBytes() -> Int64?
    /// Looks whether it answers, where that is a question.
    func check() throws(BlobError)
    /// Whether it answered the last time; `nil` where that is no question. Does not wait.
    var isReachable: Bool? { get }
    /// How it behaves, for those who call it.
    var traits: BlobStorageTraits { get }
}

package struct BlobStorageTraits: Hashable, Sendable {
    /// Threads that may wait for it at the same time.
    package var threads: Int
    /// Memory that one upload needs while its bytes come in.
    package var bytesPerUpload: Int
    /// Bytes to ask a reader for at once.
    package var readBytes: Int
    /// It is reached over a network and can be away.
    package var isRemote: Bool

    package init(threads: Int, bytesPerUpload: Int, readBytes: Int, isRemote: Bool) {
        self.threads = threads
        self.bytesPerUpload = bytesPerUpload
        self.readBytes = readBytes
        self.isRemote = isRemote
    }

    /// One disk: a second thread would only wait for the first.
    package static let folder = BlobStorageTraits(threads: 1, bytesPerUpload: 64 << 10, readBytes: 128 << 10, isRemote: false)
}

/// Bytes that come in. Not for two threads at once. Whoever appends after ``sync()`` has remembered its offset durably before:
/// what only an earlier offset needs may be dropped then.
package protocol IncomingBlob: AnyObject {
    var offset: Int64 { get }
    func append(_ bytes: [UInt8]) throws(BlobError)
    func sync() throws(BlobError)
    /// Of everything so far.
    func digest() -> BlobDigest
    /// Syncs, and gives the blob its final name. Whole ones that are there already stay.
    ///
    /// - Throws: `.altered` when the storage gives back other bytes than it was given.
    func keep(as digest: BlobDigest) throws(BlobError)
    func discard()
}

package protocol BlobReader: AnyObject, Sendable {
    var size: Int64 { get }
    /// Fewer than `count` at the end only.
    func read(at offset: Int64, count: Int) throws(BlobError) -> [UInt8]
}

package struct BlobError: Error, Hashable, Sendable, CustomStringConvertible {
    package enum Code: String, Hashable, Sendable {
        case notFound, damaged, full
        /// The file that was named or handed over is none that may be taken; or the storage refuses us.
        case refused
        case tooLarge
        case io
        /// The storage cannot be reached at the moment.
        case away
        /// The storage has other bytes than it was given.
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
