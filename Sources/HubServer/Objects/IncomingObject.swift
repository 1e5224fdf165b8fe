import SyncCore
import Synchronization

/// One upload on its way into an object store.
///
/// Bytes wait in memory until they fill a part. ``sync()`` writes the waiting bytes as a piece, together with all state that another
/// replica needs to continue (``UploadCheckpoint``). A full part is made of the pieces and the bytes after them. The pieces stay until the
/// next request, when the database has an offset that does not need them.
///
/// After an error it must not be used any more: the next one continues from the state of the store.
final class IncomingObject: IncomingBlob {
    private(set) var offset: Int64
    private let blobs: ObjectBlobs
    private let name: String
    private var known: UploadCheckpoint
    private var hash: SHA256
    /// Bytes after the last piece. Invariant: parts + pieces + buffer = offset.
    private var buffer: [UInt8] = []
    private var synced: Int64
    /// Checkpoints of earlier offsets that are not needed any more.
    private var stale: [Int64] = []

    private var store: ObjectStore { blobs.store }

    init(_ blobs: ObjectBlobs, _ name: String, _ checkpoint: UploadCheckpoint) {
        self.blobs = blobs
        self.name = name
        known = checkpoint
        offset = checkpoint.offset
        synced = checkpoint.offset
        guard let hash = SHA256(midstate: checkpoint.midstate) else { preconditionFailure("a checkpoint's midstate was read before") }
        self.hash = hash
    }

    deinit { hold(-buffer.count) }

    func digest() -> BlobDigest {
        var hash = hash
        guard let digest = BlobDigest(bytes: hash.finish()) else { preconditionFailure("a SHA-256 has 32 bytes") }
        return digest
    }

    // MARK: Bytes

    func append(_ bytes: [UInt8]) throws(BlobError) {
        // The offset that was synced last is in the database by now.
        if offset == synced { dropStale() }
        hash.update(bytes)
        buffer += bytes
        hold(bytes.count)
        offset += Int64(bytes.count)
        while known.bytesInPieces + Int64(buffer.count) >= UploadCheckpoint.partBytes { try putPart() }
        if buffer.count >= ObjectBlobs.pieceMin, blobs.held.load(ordering: .relaxed) > ObjectBlobs.heldMax { try putCheckpoint() }
    }

    /// Makes a part of the pieces and the beginning of the buffer.
    private func putPart() throws(BlobError) {
        let own = Int(UploadCheckpoint.partBytes - known.bytesInPieces)
        let bytes = try pieces() + buffer.prefix(own)
        let whole = ObjectBlobs.wholeKey(name)
        let upload: String
        if let begun = known.upload { upload = begun } else { upload = try store.beginParts(of: whole) }
        known.upload = upload
        known.parts.append(try store.put(part: known.parts.count + 1, Array(bytes), of: whole, in: upload))
        stale += known.pieces.map(\.end)
        known.pieces = []
        buffer.removeFirst(own)
        hold(-own)
    }

    func sync() throws(BlobError) {
        guard synced != offset else { return }
        // The waiting bytes may already be written, because memory was short.
        if known.offset != offset { try putCheckpoint() }
        synced = offset
    }

    private func putCheckpoint() throws(BlobError) {
        var own = buffer
        if known.pieces.count >= UploadCheckpoint.piecesMax {
            own = try pieces() + own
            stale += known.pieces.map(\.end)
            known.pieces = []
        }
        // A checkpoint that is no piece has no needed bytes; one whose piece was joined above is in the list already.
        if known.offset > 0, known.pieces.last?.end != known.offset, !stale.contains(known.offset) { stale.append(known.offset) }
        known.offset = offset
        known.midstate = hash.midstate
        if !own.isEmpty { known.pieces.append(.init(end: offset, count: Int64(own.count), digest: store.digest(own))) }
        try store.put(known.object(own: own), as: ObjectBlobs.key(name, offset))
        hold(-buffer.count)
        buffer = []
    }

    /// The bytes of all pieces.
    private func pieces() throws(BlobError) -> [UInt8] {
        var bytes: [UInt8] = []
        for piece in known.pieces {
            let key = ObjectBlobs.key(name, piece.end)
            let object = try store.get(key, atMost: Int(UploadCheckpoint.partBytes) + (1 << 20)) ?? []
            let own = Array(object.suffix(Int(piece.count)))
            guard own.count == piece.count, store.digest(own) == piece.digest else {
                throw BlobError(.damaged, doing: "go on with an upload in \(store.place)", detail: "\(key) is missing or has changed")
            }
            bytes += own
        }
        return bytes
    }

    /// Housekeeping deletes the objects that cannot be deleted now.
    private func dropStale() {
        // A leftover only costs space.
        for end in stale { try? store.delete(ObjectBlobs.key(name, end)) }
        stale = []
    }

    private func hold(_ count: Int) {
        blobs.held.wrappingAdd(count, ordering: .relaxed)
    }

    // MARK: The end

    func keep(as digest: BlobDigest) throws(BlobError) {
        let target = ObjectBlobs.key(digest)
        let whole: String
        if known.parts.isEmpty {
            let bytes = try pieces() + buffer
            guard store.digest(bytes) == digest else { throw altered("the pieces") }
            // It does not get its final name yet: another upload may have put the same bytes there, and a store that writes wrongly must
            // not replace them. With the digest in it the name stands for these bytes only, whichever replica puts them.
            whole = ObjectBlobs.wholeKey(name, digest)
            try store.put(bytes, as: whole)
        } else {
            whole = ObjectBlobs.wholeKey(name)
            try join(whole)
        }
        do throws(BlobError) {
            try compare(whole, digest)
        } catch {
            // The next attempt then begins with other parts.
            if error.code == .altered { try? store.delete(whole) }
            throw error
        }
        try store.copy(whole, to: target)
        guard try store.size(of: target) == offset else { throw altered(target) }
    }

    private func join(_ whole: String) throws(BlobError) {
        guard let upload = known.upload else { preconditionFailure("parts are of an upload") }
        var isJoined = false
        do throws(BlobError) {
            let rest = try pieces() + buffer
            if !rest.isEmpty { known.parts.append(try store.put(part: known.parts.count + 1, rest, of: whole, in: upload)) }
            isJoined = try store.joinParts(known.parts, of: whole, in: upload)
        } catch {
            guard error.code == .damaged else { throw error }
        }
        if isJoined { return }
        // Another process joined them before and was killed, or did not receive the answer. The existing object will be compared.
        guard try store.size(of: whole) == offset else {
            throw BlobError(.damaged, doing: "join the parts of \(whole) in \(store.place)", detail: "they are gone")
        }
    }

    /// Reads back a complete object and compares it with its digest.
    private func compare(_ key: String, _ digest: BlobDigest) throws(BlobError) {
        guard try store.size(of: key) == offset else { throw altered(key) }
        let reader = ObjectReader(store, key, offset, digest)
        var place: Int64 = 0
        while place < offset { place += Int64(try reader.read(at: place, count: 4 << 20).count) }
    }

    private func altered(_ what: String) -> BlobError {
        BlobError(.altered, doing: "keep a blob in \(store.place)", detail: "\(what) has changed since it was written")
    }

    func discard() {
        blobs.discard(incoming: name)
    }
}
