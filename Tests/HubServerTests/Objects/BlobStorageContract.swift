import HubServer
import SyncCore
import SyncLinux
import Testing

/// The contract of every storage of files, be it a folder or an object store.
@Suite("Storage of blobs", .eachStorage)
struct BlobStorageContract {
    private let place: any StoragePlace
    private let storage: any BlobStorage

    init() throws {
        place = try StorageKind.current.make()
        storage = try place.storage()
    }

    static func digest(_ bytes: [UInt8]) -> BlobDigest {
        let hash = FileHash()
        hash.update(bytes)
        return hash.blobDigest
    }

    /// No two pages of it are alike.
    static func bytes(_ count: Int, seed: UInt8 = 31) -> [UInt8] {
        let page = (0..<4_096).map { UInt8(truncatingIfNeeded: $0 &* Int(seed) ^ $0 >> 8) }
        var bytes: [UInt8] = []
        bytes.reserveCapacity(count + page.count)
        while bytes.count < count {
            let number = bytes.count
            bytes += page
            withUnsafeBytes(of: number) { bytes.replaceSubrange(number..<(number + 8), with: $0) }
        }
        bytes.removeLast(bytes.count - count)
        return bytes
    }

    /// Sizes: less than a part, exactly one, a byte more, and several.
    @Test(
        "A file is there under its digest when it is whole, and not before",
        arguments: [0, 1, 64, 300_000, 5 << 20, 5 << 20 + 1, 12_000_000])
    func keep(_ count: Int) throws {
        let bytes = Self.bytes(count)
        let blob = try storage.open(incoming: "a", at: 0)
        for start in stride(from: 0, to: count, by: 700_001) { try blob.append(Array(bytes[start..<min(count, start + 700_001)])) }
        #expect(try storage.kept() == [])
        let digest = Self.digest(bytes)
        #expect(blob.digest() == digest && blob.offset == Int64(count))
        try blob.keep(as: digest)
        storage.discard(incoming: "a")
        #expect(try storage.kept() == [digest])
        #expect(try storage.incoming().isEmpty)
        #expect(try storage.size(of: digest) == Int64(count))
        // Another process sees the same.
        let other = try place.storage()
        #expect(try read(digest, other) == bytes)
        try other.remove(digest)
        try other.remove(digest)
        #expect(try storage.size(of: digest) == nil)
        #expect { try storage.read(digest) } throws: { ($0 as? BlobError)?.code == .notFound }
    }

    private func read(_ digest: BlobDigest, _ storage: any BlobStorage) throws -> [UInt8] {
        let reader = try storage.read(digest)
        var bytes: [UInt8] = []
        while bytes.count < reader.size { bytes += try reader.read(at: Int64(bytes.count), count: storage.traits.readBytes) }
        return bytes
    }

    @Test("A reader gives any range, and at the end fewer")
    func ranges() throws {
        let bytes = Self.bytes(1_000)
        let blob = try storage.open(incoming: "a", at: 0)
        try blob.append(bytes)
        try blob.keep(as: Self.digest(bytes))
        let reader = try storage.read(Self.digest(bytes))
        #expect(reader.size == 1_000)
        #expect(try reader.read(at: 10, count: 20) == Array(bytes[10..<30]))
        #expect(try reader.read(at: 990, count: 20) == Array(bytes[990...]))
        #expect(try reader.read(at: 1_000, count: 20) == [])
        #expect(try reader.read(at: 0, count: 0) == [])
    }

    @Test(
        "Another process goes on at every offset that was synced, in pieces of any size",
        arguments: [
            [1, 1, 1], [300_000, 5 << 20, 300_000], [5 << 20, 5 << 20], [4_000_000, 1_242_880, 1],
            [2_000_000, 0, 2_000_000, 2_000_000, 2_000_000],
        ])
    func resume(_ counts: [Int]) throws {
        let bytes = Self.bytes(counts.reduce(0, +))
        var offset = 0
        for count in counts {
            let blob = try place.storage().open(incoming: "a", at: Int64(offset))
            #expect(blob.offset == Int64(offset))
            #expect(blob.digest() == Self.digest(Array(bytes[..<offset])))
            if count > 0 { try blob.append(Array(bytes[offset..<(offset + count)])) }
            try blob.sync()
            offset += count
        }
        #expect(try storage.incoming().map(\.name) == ["a"])
        let last = try storage.open(incoming: "a", at: Int64(offset))
        try last.keep(as: Self.digest(bytes))
        storage.discard(incoming: "a")
        #expect(try read(Self.digest(bytes), storage) == bytes)
        #expect(try storage.incoming().isEmpty)
    }

    @Test("Bytes after the last sync do not count as promised")
    func unsynced() throws {
        let bytes = Self.bytes(9_000_000)
        do {
            let blob = try storage.open(incoming: "a", at: 0)
            try blob.append(Array(bytes[..<3_000_000]))
            try blob.sync()
            // Enough to fill a part, which will never be completed.
            try blob.append(Self.bytes(4_000_000, seed: 7))
        }
        let again = try place.storage().open(incoming: "a", at: 3_000_000)
        try again.append(Array(bytes[3_000_000...]))
        #expect(again.digest() == Self.digest(bytes))
        try again.keep(as: Self.digest(bytes))
        #expect(try read(Self.digest(bytes), storage) == bytes)
    }

    @Test("Many tiny pieces are one blob like any other")
    func tiny() throws {
        let bytes = Self.bytes(120)
        let blob = try storage.open(incoming: "a", at: 0)
        for byte in bytes {
            try blob.append([byte])
            try blob.sync()
        }
        let again = try place.storage().open(incoming: "a", at: 120)
        try again.keep(as: Self.digest(bytes))
        storage.discard(incoming: "a")
        #expect(try read(Self.digest(bytes), storage) == bytes)
        #expect(try storage.incoming().isEmpty)
    }

    @Test("Fewer bytes than were said are damage, not a shorter blob")
    func damaged() throws {
        let blob = try storage.open(incoming: "a", at: 0)
        try blob.append([1, 2, 3])
        try blob.sync()
        storage.discard(incoming: "a")
        #expect { try place.storage().open(incoming: "a", at: 3) } throws: { ($0 as? BlobError)?.code == .damaged }
    }

    @Test("A discarded file leaves nothing behind, whatever its size")
    func discard() throws {
        for (name, counts) in [("a", [1]), ("b", [6_000_000, 100, 6_000_000]), ("c", [])] {
            let blob = try storage.open(incoming: name, at: 0)
            for count in counts {
                try blob.append(Self.bytes(count))
                try blob.sync()
            }
        }
        for name in ["a", "b", "c"] { storage.discard(incoming: name) }
        storage.discard(incoming: "never")
        #expect(try storage.incoming().isEmpty)
        #expect(try storage.kept() == [])
    }

    @Test(
        "Names that could lead elsewhere are refused",
        arguments: ["", ".", "..", "../x", "a/b", "a\u{0}b", String(repeating: "a", count: 65)])
    func names(_ name: String) {
        #expect(throws: BlobError.self) { try storage.open(incoming: name, at: 0) }
    }

    @Test("The same bytes may come twice, at the same time")
    func twice() throws {
        let bytes = Self.bytes(6_000_000)
        for name in ["a", "b"] { try storage.open(incoming: name, at: 0).append(bytes) }
        for name in ["a", "b"] {
            let blob = try storage.open(incoming: name, at: 0)
            try blob.append(bytes)
            try blob.keep(as: Self.digest(bytes))
            storage.discard(incoming: name)
        }
        #expect(try storage.kept() == [Self.digest(bytes)])
        #expect(try read(Self.digest(bytes), storage) == bytes)
    }
}
