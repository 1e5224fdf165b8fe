package import SyncCore
import Synchronization

/// Blobs in an object store (``BlobStorage``), shared by all replicas of a hub without a folder:
///
///     blobs/ab/<sha256>             complete, never changed
///     partial/<upload>/<offset>     an upload as it stood when that offset was answered (``UploadCheckpoint``)
///     partial/<upload>/whole        its parts, joined but not compared yet
///     partial/<upload>/<sha256>     all of an upload without full parts, not compared yet
///
/// The order makes a crash harmless at every step. A blob gets its final name after all of it was read back from the store and had the
/// digest of the received bytes. Objects below `partial/` are deleted only when the database has the upload as complete. The offset in the
/// database says which bytes of an upload count: all others belong to a request that was never answered.
package final class ObjectBlobs: BlobStorage {
    let store: ObjectStore
    /// Bytes of all uploads that wait in memory for their part to be full.
    let held = Atomic(0)
    private let wasTriedOut = Atomic(false)

    /// Above this size waiting bytes go to the store as a piece, which costs one more request and no memory.
    static let heldMax = 24 << 20
    /// Smallest piece that is worth a request, bytes.
    static let pieceMin = 256 << 10
    /// Time limit for all of ``tryOut(within:)``: records are served without the store, so nothing waits for it longer.
    package static let trialTime: Duration = .seconds(5)

    package init(_ store: ObjectStore) {
        self.store = store
    }

    package var traits: BlobStorageTraits {
        BlobStorageTraits(threads: 4, bytesPerUpload: Self.pieceMin, readBytes: 512 << 10, isRemote: true)
    }

    package var isReachable: Bool? { store.isReachable }
    package func freeBytes() -> Int64? { nil }

    package func check() throws(BlobError) {
        guard wasTriedOut.load(ordering: .relaxed) else { return try tryOutAll() }
        _ = try store.list("blobs/", limit: 1)
    }

    /// Checks once, at the start, that the store permits all needed operations: an operator should not learn of a missing permission from
    /// the first device.
    ///
    /// - Parameter patience: The time for all of it. A store that takes longer counts as unreachable, and ``check()`` does the rest.
    package func tryOut(within patience: Duration) throws(BlobError) {
        try store.hurrying(patience) { () throws(BlobError) in try tryOutAll() }
    }

    private func tryOutAll() throws(BlobError) {
        _ = try store.list("blobs/", limit: 1)
        _ = try store.openParts("partial/")
        try store.put(Array("agenthub looks whether it may write here\n".utf8), as: "check")
        // Another replica that starts at this moment may have deleted it again.
        _ = try store.get("check", atMost: 1_024)
        try store.delete("check")
        wasTriedOut.store(true, ordering: .relaxed)
    }

    // MARK: Coming in

    package func open(incoming name: String, at offset: Int64) throws(BlobError) -> any IncomingBlob {
        guard Identifier<Never>(name) != nil, name != ".", name != ".." else {
            throw BlobError(.io, doing: "begin an upload in \(store.place)", detail: "\(Printable.text(name)) is no name for one")
        }
        guard offset > 0 else { return IncomingObject(self, name, .empty) }
        let key = Self.key(name, offset)
        let limit = Int(UploadCheckpoint.partBytes) + (1 << 20)
        guard let object = try store.get(key, atMost: limit), let checkpoint = UploadCheckpoint(object: object, offset: offset) else {
            throw BlobError(.damaged, doing: "go on with an upload in \(store.place)", detail: "\(key) is not there or not whole")
        }
        return IncomingObject(self, name, checkpoint)
    }

    package func discard(incoming name: String) {
        let whole = Self.wholeKey(name)
        // Housekeeping finds leftovers by `incoming()` the next day.
        for open in (try? store.openParts(whole)) ?? [] where open.key == whole { try? store.abortParts(of: whole, in: open.upload) }
        for object in (try? store.list("partial/\(name)/")) ?? [] { try? store.delete(object.key) }
    }

    package func incoming() throws(BlobError) -> [(name: String, changedAt: Timestamp)] {
        var found: [String: Timestamp] = [:]
        func add(_ key: String, _ at: Timestamp) {
            let steps = key.split(separator: "/", omittingEmptySubsequences: false)
            guard steps.count == 3, steps[0] == "partial" else { return }
            found[String(steps[1])] = max(found[String(steps[1])] ?? at, at)
        }
        for object in try store.list("partial/") { add(object.key, object.changedAt) }
        // Uploads with open parts and no other object, too.
        for open in try store.openParts("partial/") { add(open.key, open.begunAt) }
        return found.map { ($0.key, $0.value) }
    }

    // MARK: Whole ones

    package func kept() throws(BlobError) -> [BlobDigest] {
        try store.list("blobs/").compactMap { object in
            guard let name = object.key.split(separator: "/").last, let digest = BlobDigest(hex: String(name)),
                Self.key(digest) == object.key
            else { return nil }
            return digest
        }
    }

    package func size(of digest: BlobDigest) throws(BlobError) -> Int64? {
        try store.size(of: Self.key(digest))
    }

    package func read(_ digest: BlobDigest) throws(BlobError) -> any BlobReader {
        guard let size = try store.size(of: Self.key(digest)) else {
            throw BlobError(.notFound, doing: "read the blob \(digest) in \(store.place)", detail: "there is none")
        }
        return ObjectReader(store, Self.key(digest), size, digest)
    }

    package func remove(_ digest: BlobDigest) throws(BlobError) {
        try store.delete(Self.key(digest))
    }

    // MARK: Names

    static func key(_ digest: BlobDigest) -> String { "blobs/\(digest.hex.prefix(2))/\(digest.hex)" }
    static func wholeKey(_ name: String) -> String { "partial/\(name)/whole" }
    static func wholeKey(_ name: String, _ digest: BlobDigest) -> String { "partial/\(name)/\(digest.hex)" }

    /// The offset has as many digits as the largest file, so that a listing is in order.
    static func key(_ name: String, _ offset: Int64) -> String {
        let digits = String(offset)
        return "partial/\(name)/" + String(repeating: "0", count: max(0, 13 - digits.utf8.count)) + digits
    }
}

/// Reads an object in ranges. A reader of the whole object in order gets an error, before the last bytes, if they do not match the digest.
final class ObjectReader: BlobReader {
    let size: Int64
    private let store: ObjectStore
    private let key: String
    private let name: BlobDigest
    private let progress: Mutex<Progress>

    private struct Progress: ~Copyable {
        var offset: Int64 = 0
        nonisolated(unsafe) let hash: any RunningDigest
    }

    init(_ store: ObjectStore, _ key: String, _ size: Int64, _ name: BlobDigest) {
        self.store = store
        self.key = key
        self.size = size
        self.name = name
        nonisolated(unsafe) let hash = store.newDigest()
        progress = Mutex(Progress(hash: hash))
    }

    func read(at offset: Int64, count: Int) throws(BlobError) -> [UInt8] {
        let bytes = try store.get(key, at: offset, count: Int(min(Int64(max(0, count)), max(0, size - offset))))
        let isAltered = progress.withLock { progress in
            guard progress.offset == offset else { return false }
            progress.hash.update(bytes)
            progress.offset += Int64(bytes.count)
            return progress.offset == size && progress.hash.blobDigest != name
        }
        guard !isAltered else {
            throw BlobError(
                .altered, doing: "read \(key) in \(store.place)", detail: "the bytes there do not have the digest that is their name")
        }
        return bytes
    }
}
