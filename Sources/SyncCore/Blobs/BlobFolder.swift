/// Where blobs lie: whole ones under their digest, those that are still coming under a name of their own.
///
///     blobs/ab/<sha256>          whole, synced, never changed
///     blobs/incoming/<name>      on its way; of no use to anybody else
///
/// A file gets its final name by a rename after its bytes and before its folder are synced. So whatever is under a final name
/// is whole, at every moment, whoever dies.
///
/// Calls block: they belong on a thread that may wait for a disk.
package protocol BlobFolder: Sendable {
    /// Takes up a file that is on its way, or makes it.
    ///
    /// - Parameter offset: What is beyond is cut off; what is before is hashed again.
    /// - Throws: `.damaged` when there are fewer bytes than that.
    func open(incoming name: String, at offset: Int64) throws(BlobError) -> any IncomingBlob
    func discard(incoming name: String)
    /// Every file on its way, and when it was last written to.
    func incoming() throws(BlobError) -> [(name: String, changedAt: Timestamp)]
    func kept() throws(BlobError) -> [BlobDigest]
    /// `nil`: there is none.
    func size(of digest: BlobDigest) -> Int64?
    func read(_ digest: BlobDigest) throws(BlobError) -> any BlobReader
    func remove(_ digest: BlobDigest) throws(BlobError)
    /// Free bytes of the file system; `nil` when it cannot be asked.
    func freeBytes() -> Int64?
    /// Opens what a client of ours named, if it lies below one of the folders and belongs to the user. No link is followed.
    func source(path: String, below folders: [String], ownedBy uid: UInt32) throws(BlobError) -> BlobSource
}

/// Bytes that come in. Not for two threads at once.
package protocol IncomingBlob: AnyObject {
    var offset: Int64 { get }
    func append(_ bytes: [UInt8]) throws(BlobError)
    /// All of a descriptor that was handed over, from its beginning. Closes it.
    ///
    /// - Throws: `.refused` when it is no regular file, or had another length at the end than at the beginning.
    func copy(_ source: BlobSource, atMost limit: Int64) throws(BlobError)
    func sync() throws(BlobError)
    /// Of everything so far.
    func digest() -> BlobDigest
    /// Syncs, and gives the file its final name. Whole ones that are there already stay.
    func keep(as digest: BlobDigest) throws(BlobError)
    func discard()
}

package protocol BlobReader: AnyObject, Sendable {
    var size: Int64 { get }
    /// Fewer than `count` at the end only.
    func read(at offset: Int64, count: Int) throws(BlobError) -> [UInt8]
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

package struct BlobError: Error, Hashable, Sendable, CustomStringConvertible {
    package enum Code: String, Hashable, Sendable {
        case notFound, damaged, full
        /// The file that was named or handed over is none that may be taken.
        case refused
        case tooLarge
        case io
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
