import Foundation
import HubServer
import SyncCore
import Synchronization
import Testing

/// Files in an object store that loses requests and answers, is away, lies, and is used by hubs that are killed.
@Suite("Blobs in an object store")
struct ObjectBlobsTests {
    private let store = SimObjectStore()

    private static let bytes = BlobStorageContract.bytes(12_000_000)
    private static let digest = BlobStorageContract.digest(bytes)
    private static let key = "blobs/\(digest.hex.prefix(2))/\(digest.hex)"
    /// The ends of the requests of a client, as offsets in the file.
    private static let ends = [100_000, 3_000_000, 9_000_000, 9_000_001, 12_000_000]

    /// The answer of a hub to one request of a client, and the content of its database afterwards.
    ///
    /// - Parameter acknowledged: The offset of the database. Back to 0 where the storage says that it is damaged.
    private func step(_ storage: any BlobStorage, _ acknowledged: inout Int) throws {
        do {
            let blob = try storage.open(incoming: "u", at: Int64(acknowledged))
            let end = try #require(Self.ends.first { $0 > acknowledged } ?? Self.ends.last)
            if end > acknowledged { try blob.append(Array(Self.bytes[acknowledged..<end])) }
            if end == Self.bytes.count {
                #expect(blob.digest() == Self.digest)
                try blob.keep(as: Self.digest)
            } else {
                try blob.sync()
            }
            acknowledged = end
        } catch let error as BlobError where error.code == .damaged {
            acknowledged = 0
        }
    }

    @Test(
        "The hub is killed at each of its requests to the store, before or after that takes effect: the file arrives whole, once",
        arguments: [
            false, true,
        ])
    func killed(_ takesEffect: Bool) throws {
        var acknowledged = 0
        while acknowledged < Self.bytes.count { try step(try store.blobs(), &acknowledged) }
        let count = store.requests.count
        #expect(count > 20)
        for number in 1...count {
            let store = SimObjectStore()
            // From that one on nothing of this process gets there any more.
            store.fail { request, _ in request < number ? nil : request == number && takesEffect ? .lostAnswer : .lostRequest }
            var acknowledged = 0
            do {
                let storage = try store.blobs()
                while acknowledged < Self.bytes.count { try step(storage, &acknowledged) }
            } catch let error as BlobError where error.code == .away {}
            store.fail { _, _ in nil }
            // The database did not hear of the end, if there was one.
            var steps = 0
            acknowledged = min(acknowledged, Self.ends[Self.ends.count - 2])
            let next = try store.blobs()
            while acknowledged < Self.bytes.count {
                try step(next, &acknowledged)
                steps += 1
                guard steps < 20 else {
                    Issue.record("request \(number): it does not come to an end")
                    return
                }
            }
            next.discard(incoming: "u")
            #expect(store.keys == [Self.key] && store.openUploads == 0, "request \(number)")
            #expect(store.holds(Self.bytes, at: Self.key), "request \(number)")
        }
    }

    @Test("Two hubs that both believe to go on with an upload never make a wrong file of it", arguments: 1...8)
    func rivals(_ seed: UInt64) throws {
        var random = SeededRandom(seed: seed)
        let hubs = [try store.blobs(), try store.blobs()]
        var acknowledged = 0
        var open: [(any IncomingBlob)?] = [nil, nil]
        var turns = 0
        while acknowledged < Self.bytes.count {
            turns += 1
            try #require(turns < 2_000)
            let index = Int(random.next() % 2)
            do {
                // One of them may go on with what it holds of before, as a hub does whose client hangs somewhere.
                let blob = try open[index] ?? hubs[index].open(incoming: "u", at: Int64(acknowledged))
                open[index] = blob
                let start = Int(blob.offset)
                let end = min(Self.bytes.count, start + Int(random.next() % 3_000_000))
                if end > start { try blob.append(Array(Self.bytes[start..<end])) }
                if end == Self.bytes.count {
                    try blob.keep(as: Self.digest)
                } else {
                    try blob.sync()
                }
                acknowledged = max(acknowledged, end)
                if random.next() % 2 == 0 { open[index] = nil }
            } catch let error as BlobError where error.code == .damaged {
                (acknowledged, open) = (0, [nil, nil])
            }
            if store.bytes(Self.key) != nil { #expect(store.holds(Self.bytes, at: Self.key)) }
        }
        #expect(store.holds(Self.bytes, at: Self.key))
        hubs[0].discard(incoming: "u")
        #expect(store.keys == [Self.key])
    }

    @Test("A store that gives back other bytes than it was given is found out before the file has its name", arguments: [6, 12_000_000])
    func altered(_ count: Int) throws {
        let bytes = Array(Self.bytes[..<count])
        let digest = BlobStorageContract.digest(bytes)
        let blobs = try store.blobs()
        let blob = try blobs.open(incoming: "u", at: 0)
        try blob.append(bytes)
        let store = store
        store.fail { _, request in
            // The request is lost between writing the object and reading it back.
            guard request.hasPrefix("HEAD ") else { return nil }
            return .lostRequest
        }
        #expect { try blob.keep(as: digest) } throws: { ($0 as? BlobError)?.code == .away }
        store.fail { _, _ in nil }
        #expect(store.bytes("blobs/\(digest.hex.prefix(2))/\(digest.hex)") == nil, "it has its final name before it was compared")
        for key in store.keys { store.change(key) { $0[$0.count / 2] ^= 1 } }
        let again = try blobs.open(incoming: "u", at: 0)
        try again.append(bytes)
        // A row that is written anew is right again.
        try again.keep(as: digest)
        #expect(store.bytes("blobs/\(digest.hex.prefix(2))/\(digest.hex)") == bytes)
    }

    @Test("A file that is damaged in the store later is not handed out as whole")
    func rotten() throws {
        let blobs = try store.blobs()
        let blob = try blobs.open(incoming: "u", at: 0)
        try blob.append(Self.bytes)
        try blob.keep(as: Self.digest)
        store.change(Self.key) { $0[7] ^= 1 }
        let reader = try blobs.read(Self.digest)
        var place: Int64 = 0
        #expect {
            while place < reader.size { place += Int64(try reader.read(at: place, count: 512 << 10).count) }
        } throws: { ($0 as? BlobError)?.code == .altered }
        #expect(place < reader.size)
    }

    @Test("While the store is away, calls fail and say so; when it is back, that is told once")
    func away() throws {
        let told = Mutex<[String]>([])
        let blobs = try store.blobs { change in
            let words =
                switch change {
                case .away(let error): error.description
                case .busy: "busy"
                case .back: "back"
                }
            told.withLock { $0.append(words) }
        }
        #expect(blobs.isReachable == true)
        let store = store
        // A failure of one object says nothing about the store.
        store.fail { _, _ in .status(500) }
        #expect { try blobs.size(of: Self.digest) } throws: { ($0 as? BlobError)?.code == .away }
        #expect(blobs.isReachable == true && told.withLock { $0 } == ["busy"])
        told.withLock { $0 = [] }
        // One that does not speak for the store: over another connection, one does.
        store.fail { number, _ in number == 1 ? .status(421) : nil }
        #expect(try blobs.size(of: Self.digest) == nil)
        #expect(blobs.isReachable == true && told.withLock { $0 }.isEmpty)
        store.fail { number, _ in number == 1 ? .status(503) : number <= 3 ? .lostRequest : nil }
        #expect { try blobs.check() } throws: { ($0 as? BlobError)?.code == .away }
        for _ in 2...3 {
            #expect { try blobs.size(of: Self.digest) } throws: { ($0 as? BlobError)?.code == .away }
            #expect(blobs.isReachable == false)
        }
        #expect(try blobs.size(of: Self.digest) == nil)
        #expect(blobs.isReachable == true)
        #expect(told.withLock { $0.count } == 2)
        #expect(told.withLock { $0.first?.contains("s3://files/hub/ at http://store: it answers 503 SlowDown") } == true)
        #expect(told.withLock { $0.first?.contains("secret") } == false)
    }

    @Test("Orphans of hubs that were killed are found, also where nothing but the beginning of a multipart upload was written")
    func orphans() throws {
        let blobs = try store.blobs()
        let store = store
        // Killed right after the upload was begun.
        store.fail { _, request in request.hasPrefix("PUT ") ? .lostRequest : nil }
        let blob = try blobs.open(incoming: "u", at: 0)
        #expect(throws: BlobError.self) { try blob.append(Self.bytes) }
        store.fail { _, _ in nil }
        #expect(store.openUploads == 1 && store.keys.isEmpty)
        #expect(try blobs.incoming().map(\.name) == ["u"])
        blobs.discard(incoming: "u")
        #expect(store.openUploads == 0)
        #expect(try blobs.incoming().isEmpty)
    }

    @Test(
        "A store that refuses us is refused at the start, with what is wrong and what was expected",
        arguments: [
            ("InvalidAccessKeyId", "does not know the access key"), ("SignatureDoesNotMatch", "does not belong to the access key"),
            ("NoSuchBucket", "there is no bucket files"), ("AccessDenied", "may not do that"),
        ])
    func refused(_ code: String, _ words: String) throws {
        struct Refusing: WaitingTransport {
            var code: String

            func exchange(_ request: HTTPRequest) throws(TransportError) -> HTTPResponse {
                HTTPResponse(status: code == "NoSuchBucket" ? 404 : 403, body: Array("<Error><Code>\(code)</Code></Error>".utf8))
            }
        }
        let credentials = try #require(ObjectStoreCredentials(keyID: "key", secret: "deep-secret"))
        let store = ObjectStore(
            try ObjectStorePlace("s3://files/hub", endpoint: "https://store", region: "here-1"), credentials, caFile: nil,
            transport: Refusing(code: code), time: FixedTime(), newDigest: { SlowDigest() }, report: { _ in })
        #expect { try ObjectBlobs(store).tryOut(within: .seconds(3_600)) } throws: { error in
            let error = error as? BlobError
            return error?.code == .refused && error?.detail.contains(words) == true && error?.detail.contains("expected") == true
                && error?.description.contains("deep-secret") == false
        }
    }

    /// Answers every request with the same page, or with one that depends on how many came before.
    private final class Pages: WaitingTransport {
        let requests = Mutex<[HTTPRequest]>([])
        private let page: @Sendable (Int, HTTPRequest) -> String

        init(_ page: @escaping @Sendable (Int, HTTPRequest) -> String) {
            self.page = page
        }

        func exchange(_ request: HTTPRequest) throws(TransportError) -> HTTPResponse {
            let number = requests.withLock { requests in
                requests.append(request)
                return requests.count
            }
            return HTTPResponse(status: 200, body: Array(page(number, request).utf8))
        }

        func blobs(_ report: @escaping @Sendable (ObjectStore.Change) -> Void = { _ in }) throws -> ObjectBlobs {
            let credentials = try #require(ObjectStoreCredentials(keyID: "key", secret: "secret"))
            return ObjectBlobs(
                ObjectStore(
                    try ObjectStorePlace("s3://files/hub", endpoint: "https://store", region: "here-1"), credentials, caFile: nil,
                    transport: self, time: FixedTime(), newDigest: { SlowDigest() }, report: report))
        }
    }

    private static func page(token: String?, entries: [String] = []) -> String {
        "<ListBucketResult><IsTruncated>\(token != nil)</IsTruncated>"
            + entries.map { "<Contents><Key>hub/\($0)</Key><Size>1</Size><LastModified>2026-11-20T21:00:00.000Z</LastModified></Contents>" }
            .joined()
            + (token.map { "<NextContinuationToken>\($0)</NextContinuationToken>" } ?? "") + "</ListBucketResult>"
    }

    @Test(
        "A list that does not end costs a bounded number of calls and is told once, however often it is asked for",
        arguments: [
            ("the same token", 2, { @Sendable (_: Int) in page(token: "t", entries: ["partial/u/1"]) }),
            ("two tokens in turn", 3, { @Sendable (number: Int) in page(token: "t-\(number % 2)", entries: ["partial/u/\(number)"]) }),
            ("pages without an entry", 8, { @Sendable (number: Int) in page(token: "t-\(number)") }),
        ])
    func endlessList(_ what: String, _ calls: Int, _ page: @escaping @Sendable (Int) -> String) throws {
        let pages = Pages { number, _ in page(number) }
        let told = Mutex<[String]>([])
        let blobs = try pages.blobs { change in
            if case .busy(let error) = change { told.withLock { $0.append(error.detail) } }
        }
        for round in 1...3 {
            #expect { _ = try blobs.incoming() } throws: { ($0 as? BlobError)?.code == .away }
            // The second list begins where the pages of the first ended, so one call more or less may be needed.
            #expect(pages.requests.withLock(\.count) <= round * (calls + 1), "\(what)")
        }
        #expect(told.withLock { $0 }.count == 1 && told.withLock { $0 }.first?.contains("does not end") == true)
    }

    @Test("A list that never ends with new entries is taken up to its hundredth page, and ends as a list does")
    func hugeList() throws {
        let pages = Pages { number, request in
            request.url.contains("uploads=")
                ? "<ListMultipartUploadsResult/>" : Self.page(token: "t-\(number)", entries: ["partial/u-\(number)/1"])
        }
        #expect(try pages.blobs().incoming().count == 100)
        #expect(pages.requests.withLock(\.count) == 101)
    }

    @Test("A store that lists more than it was asked for has nothing removed but what was meant")
    func listsMore() throws {
        let kept = String(repeating: "ab", count: 32)
        let pages = Pages { _, request in
            request.url.contains("uploads=")
                ? "<ListMultipartUploadsResult/>"
                : Self.page(token: nil, entries: ["partial/u/1", "blobs/\(kept.prefix(2))/\(kept)", "partial/u-2/1", "partial/u/2"])
        }
        try pages.blobs().discard(incoming: "u")
        let removed = pages.requests.withLock { $0 }.filter { $0.method == .delete }.map {
            String($0.url.split(separator: "/files/hub/").last ?? "")
        }
        #expect(removed.sorted() == ["partial/u/1", "partial/u/2"])
    }

    @Test("The trial at the start has its time for all calls together; what it leaves undone the first check does")
    func hurriedTrial() throws {
        let pages = Pages { _, request in request.url.contains("uploads=") ? "<ListMultipartUploadsResult/>" : Self.page(token: nil) }
        let blobs = try pages.blobs()
        try blobs.tryOut(within: .seconds(5))
        #expect(pages.requests.withLock { $0 }.allSatisfy { $0.deadlines.total == .seconds(5) })
        let count = pages.requests.withLock(\.count)
        try blobs.check()
        #expect(pages.requests.withLock(\.count) == count + 1, "it was tried out before")
        let untried = try pages.blobs()
        try untried.check()
        #expect(pages.requests.withLock(\.count) == 2 * count + 1)
        #expect(pages.requests.withLock { $0 }.last?.deadlines.total == .seconds(120))
    }

    private struct FixedTime: TimeSource {
        func now() -> Moment { Moment(instant: Instant(nanoseconds: 0), wall: Timestamp(milliseconds: 0)) }
    }
}
