package import SyncCore
import Synchronization

/// The hub's store of files, in memory. What was not synced is lost with its writer, as on a disk; what was kept stays, whatever becomes of
/// the hub's database.
package final class MemoryBlobs: BlobStorage {
    private struct Content {
        var kept: [BlobDigest: [UInt8]] = [:]
        var incoming: [String: [UInt8]] = [:]
    }

    private let content = Mutex(Content())

    package init() {}

    package static func digest(of bytes: [UInt8]) -> BlobDigest {
        let hash = SlowDigest()
        hash.update(bytes)
        return hash.blobDigest
    }

    private final class Incoming: IncomingBlob {
        private let storage: MemoryBlobs
        private let name: String
        private var bytes: [UInt8]

        init(_ storage: MemoryBlobs, _ name: String, _ bytes: [UInt8]) { (self.storage, self.name, self.bytes) = (storage, name, bytes) }

        var offset: Int64 { Int64(bytes.count) }
        func append(_ bytes: [UInt8]) throws(BlobError) { self.bytes += bytes }
        func sync() throws(BlobError) { storage.content.withLock { $0.incoming[name] = bytes } }
        func digest() -> BlobDigest { MemoryBlobs.digest(of: bytes) }

        func keep(as digest: BlobDigest) throws(BlobError) {
            guard self.digest() == digest else {
                throw BlobError(.altered, doing: "keep a file", detail: "its bytes are of \(self.digest())")
            }
            storage.content.withLock { content in
                content.incoming[name] = bytes
                if content.kept[digest] == nil { content.kept[digest] = bytes }
            }
        }

        func discard() { storage.discard(incoming: name) }
    }

    private final class Reader: BlobReader {
        private let bytes: [UInt8]

        init(_ bytes: [UInt8]) { self.bytes = bytes }

        var size: Int64 { Int64(bytes.count) }

        func read(at offset: Int64, count: Int) throws(BlobError) -> [UInt8] {
            Array(bytes.dropFirst(Int(offset)).prefix(count))
        }
    }

    package func open(incoming name: String, at offset: Int64) throws(BlobError) -> any IncomingBlob {
        guard Identifier<Never>(name) != nil, name != ".", name != ".." else {
            throw BlobError(.io, doing: "open an upload", detail: "\(Printable.text(name)) is no name for one")
        }
        let bytes = content.withLock { $0.incoming[name] ?? [] }
        guard bytes.count >= offset else {
            throw BlobError(.damaged, doing: "open an upload", detail: "it has \(bytes.count) bytes, not \(offset)")
        }
        return Incoming(self, name, Array(bytes.prefix(Int(offset))))
    }

    package func discard(incoming name: String) { content.withLock { $0.incoming[name] = nil } }

    /// Their times count from the beginning of 1970, so that all of them are old.
    package func incoming() throws(BlobError) -> [(name: String, changedAt: Timestamp)] {
        content.withLock { $0.incoming.keys.sorted().map { ($0, Timestamp(milliseconds: 0)) } }
    }

    package func kept() throws(BlobError) -> [BlobDigest] { content.withLock { $0.kept.keys.sorted() } }
    package func size(of digest: BlobDigest) throws(BlobError) -> Int64? { content.withLock { $0.kept[digest].map { Int64($0.count) } } }

    package func read(_ digest: BlobDigest) throws(BlobError) -> any BlobReader {
        guard let bytes = content.withLock({ $0.kept[digest] }) else { throw BlobError(.notFound, doing: "read a file", detail: "gone") }
        return Reader(bytes)
    }

    package func remove(_ digest: BlobDigest) throws(BlobError) { content.withLock { $0.kept[digest] = nil } }
    package func freeBytes() -> Int64? { nil }
    package func check() throws(BlobError) {}
    package var isReachable: Bool? { nil }
    package var traits: BlobStorageTraits { .folder }
}
