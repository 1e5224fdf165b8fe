import Foundation
import Logging
import SyncCore
import SyncLinux
import Synchronization
import Testing

@testable import HubServer

/// Files on their way to a device: over real sockets, and out of every kind of storage.
@Suite("Files going out")
struct FileStreamTests {
    /// Holds one large file that is made as it is read, and knows how far that was.
    private final class MadeFile: BlobStorage {
        static let bytes: Int64 = 192 << 20
        static let digest = BlobDigest(hex: String(repeating: "ab", count: 32))!
        let furthest = Atomic<Int64>(0)

        private final class Reader: BlobReader {
            let file: MadeFile
            let size = MadeFile.bytes

            init(_ file: MadeFile) { self.file = file }

            func read(at offset: Int64, count: Int) throws(BlobError) -> [UInt8] {
                let end = min(size, offset + Int64(count))
                file.furthest.max(end, ordering: .relaxed)
                return [UInt8](repeating: UInt8(ascii: "x"), count: Int(end - offset))
            }
        }

        func open(incoming name: String, at offset: Int64) throws(BlobError) -> any IncomingBlob {
            throw BlobError(.refused, doing: "open", detail: "nothing comes in here")
        }
        func discard(incoming name: String) {}
        func incoming() throws(BlobError) -> [(name: String, changedAt: Timestamp)] { [] }
        func kept() throws(BlobError) -> [BlobDigest] { [Self.digest] }
        func size(of digest: BlobDigest) throws(BlobError) -> Int64? { digest == Self.digest ? Self.bytes : nil }
        func read(_ digest: BlobDigest) throws(BlobError) -> any BlobReader { Reader(self) }
        func remove(_ digest: BlobDigest) throws(BlobError) {}
        func freeBytes() -> Int64? { nil }
        func check() throws(BlobError) {}
        var isReachable: Bool? { nil }
        var traits: BlobStorageTraits { .folder }
    }

    private static func running(
        _ files: MadeFile,
        _ body: (HubService, CurlTransport, @Sendable (HTTPRequest.Method, [(String, String)]) -> HTTPRequest) async throws
            -> Void
    ) async throws {
        let hub = try Hub(.memory, settings: Hub.Settings(), random: SeededRandom(seed: 1))
        hub.settings.uploads = HubUploads(files)
        try hub.transact { () throws(DatabaseError) in
            try hub.store.database.run(
                "INSERT INTO blob(digest, size_bytes, type, created_at_ms) VALUES(?, ?, 'image/jpeg', 1)", .text(MadeFile.digest.hex),
                .int(MadeFile.bytes))
            try hub.store.database.run("INSERT INTO blob_owner(device, digest) VALUES('gw-1', ?)", .text(MadeFile.digest.hex))
        }
        let environment = HubService.Environment(
            time: SystemClocks(), seed: 1, tokens: { nil }, compressor: ZlibCompressor(),
            log: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() })
        let service = try await HubService.start(hub, HubService.Options(host: "127.0.0.1", port: 0), environment)
        let transport = try CurlTransport(idleConnections: 2)
        let address = service.address
        do {
            try await body(service, transport) { method, fields in
                var headers: HTTPHeaders = [:]
                HubRequestHeaders(device: .one, replica: "r-1").write(to: &headers)
                for (name, value) in fields { headers[name] = value }
                return HTTPRequest(method, "http://\(address)/v1/blobs/\(MadeFile.digest.hex)", headers: headers)
            }
        } catch {
            transport.close()
            await service.stop(within: .zero)
            throw error
        }
        transport.close()
        await service.stop(within: .zero)
    }

    @Test("A large file for a reader that does not read is read from the storage only as far as sockets hold it")
    func slowReader() async throws {
        let files = MadeFile()
        try await Self.running(files) { service, transport, request in
            let port = try #require(service.address.split(separator: ":").last.flatMap { Int($0) })
            let client = try RawClient(port: port, receiveBuffer: 16 << 10)
            var head = "GET /v1/blobs/\(MadeFile.digest.hex) HTTP/1.1\r\nHost: hub\r\n"
            for field in request(.get, []).headers.fields { head += "\(field.name): \(field.value)\r\n" }
            try client.send(head + "\r\n")
            // Others are served meanwhile, by the same thread: a hub that did not wait for the reader would read a piece for each of them.
            for _ in 0..<1_000 {
                let asked = try await transport.send(request(.head, []))
                #expect(asked.status == 200 && asked.headers["Content-Length"] == String(MadeFile.bytes))
            }
            // The kernel takes a few MiB.
            let furthest = files.furthest.load(ordering: .relaxed)
            #expect(furthest > 0 && furthest < 32 << 20, "\(furthest)")
        }
    }

    @Test("Over a socket a range comes with its own length, and what has not changed without a body")
    func ranges() async throws {
        try await Self.running(MadeFile()) { _, transport, request in
            let size = MadeFile.bytes
            let part = try await transport.send(request(.get, [("Range", "bytes=-300000")]))
            #expect(part.status == 206 && part.body.count == 300_000)
            #expect(part.headers["Content-Range"] == "bytes \(size - 300_000)-\(size - 1)/\(size)")
            let tag = try #require(part.headers["ETag"])
            let same = try await transport.send(request(.get, [("If-None-Match", tag)]))
            #expect(same.status == 304 && same.body.isEmpty)
            let beyond = try await transport.send(request(.get, [("Range", "bytes=\(size)-"), ("If-Range", tag)]))
            #expect(beyond.status == 416 && beyond.headers["Content-Range"] == "bytes */\(size)")
        }
    }

    @Test("Every storage gives the bytes of any range, an object store by ranges of its own", .eachStorage)
    func storages() throws {
        let stand = try FileStand(files: try StorageKind.current.make())
        let content = BlobStorageContract.bytes(1_300_000)
        try stand.upload(content, by: .one)
        let digest = try FileStand.digest(content)
        for range in [0..<1, 0..<1_300_000, 700_000..<700_010, 524_288..<1_048_576, 1_299_999..<1_300_000, 100_000..<1_299_999] {
            let answer = stand.ask(digest, by: .one, "GET", [("Range", "bytes=\(range.lowerBound)-\(range.upperBound - 1)")])
            #expect(answer.status == 206 && answer.body == Array(content[range]), "\(range)")
        }
        #expect(stand.ask(digest, by: .one).body == content)
    }
}
