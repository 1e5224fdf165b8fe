import HubServer
import SyncCore
import Testing

/// tus 1.0.0 as the hub speaks it, and what it does with a file that has arrived.
@Suite("Files at the hub", .eachEngine, .eachStorage)
struct FilesTests {
    private let place: any StoragePlace
    private let bench: HubBench
    private let files: any BlobStorage

    init() throws {
        place = try StorageKind.current.make()
        files = try place.storage()
        bench = try HubBench()
        use()
    }

    private func use(_ change: (inout HubUploads.Limits) -> Void = { _ in }) {
        var limits = HubUploads.Limits()
        change(&limits)
        bench.hub.settings.uploads = HubUploads(files, limits: limits)
    }

    private static func digest(_ bytes: [UInt8]) -> BlobDigest { BlobDigest(bytes: SHA256.hash(bytes))! }
    private static let bytes = (0..<1_000).map { UInt8(truncatingIfNeeded: $0 &* 13) }

    /// Sends a request of a plain tus client, without header fields of the sync protocol.
    private func tus(
        _ method: String, _ target: String, _ headers: [(String, String)] = [], body: [UInt8] = [], device: String = "gw-1"
    ) -> HubResponse {
        var all: HTTPHeaders = [Tus.resumable: "1.0.0", "Sync-Device": device]
        for (name, value) in headers { all[name] = value }
        return bench.hub.handle(HubRequest(method, target, headers: all, body: body), at: bench.now)
    }

    private func create(_ length: Int = 1_000, digest: BlobDigest? = digest(bytes), link: String? = nil) throws -> String {
        var metadata = [("filename", "p.jpg"), ("filetype", "image/jpeg")]
        if let digest { metadata.append(("sha256", digest.hex)) }
        if let link { metadata += [("entity", "audits"), ("record", link), ("field", "photo")] }
        let made = tus("POST", "/v1/files", [(Tus.length, "\(length)"), (Tus.metadata, Tus.metadata(metadata))])
        #expect(made.status == 201)
        #expect(made.headers[Tus.offset] == "0")
        #expect(made.headers[Tus.expires].flatMap { HTTPDate.timestamp($0) } ?? bench.now > bench.now)
        return try #require(made.headers["Location"])
    }

    private func patch(_ place: String, at offset: Int, _ bytes: some Collection<UInt8>, _ headers: [(String, String)] = []) -> HubResponse
    {
        tus("PATCH", place, [("Content-Type", Tus.contentType), (Tus.offset, "\(offset)")] + headers, body: Array(bytes))
    }

    private func offset(_ place: String) -> String? { tus("HEAD", place).headers[Tus.offset] }

    @Test("A file arrives in pieces, its digest is told, and nothing is under its final name before the end")
    func pieces() throws {
        let place = try create()
        for start in stride(from: 0, to: 900, by: 300) {
            let answer = patch(place, at: start, Self.bytes[start..<(start + 300)])
            #expect(answer.status == 204 && answer.headers[Tus.offset] == "\(start + 300)")
            #expect(answer.headers[Tus.resumable] == "1.0.0")
            #expect(offset(place) == "\(start + 300)")
            #expect(try files.kept() == [])
            #expect(try bench.hub.stats().blobs == 0)
        }
        let last = patch(place, at: 900, Self.bytes[900...])
        #expect(last.status == 204 && last.headers[Tus.reprDigest] == Self.digest(Self.bytes).field)
        #expect(try files.kept() == [Self.digest(Self.bytes)])
        #expect(try files.incoming().isEmpty)
        #expect(try bench.hub.stats().blobs == 1 && bench.hub.stats().blobBytes == 1_000)
        // A device that missed the answer receives it again.
        let head = tus("HEAD", place)
        #expect(head.headers[Tus.offset] == "1000" && head.headers[Tus.reprDigest] == Self.digest(Self.bytes).field)
        #expect(head.headers[Tus.length] == "1000" && head.headers["Cache-Control"] == "no-store")
    }

    @Test("A creation may bring all of it, and an empty file is whole at once")
    func withUpload() throws {
        let metadata = Tus.metadata([("filename", "p"), ("sha256", Self.digest(Self.bytes).hex)])
        let made = tus(
            "POST", "/v1/files", [(Tus.length, "1000"), (Tus.metadata, metadata), ("Content-Type", Tus.contentType)], body: Self.bytes)
        #expect(made.status == 201 && made.headers[Tus.offset] == "1000")
        #expect(made.headers[Tus.reprDigest] == Self.digest(Self.bytes).field)
        #expect(try files.kept() == [Self.digest(Self.bytes)])
        let empty = tus("POST", "/v1/files", [(Tus.length, "0")])
        #expect(empty.status == 201)
        #expect(try files.kept().contains(Self.digest([])))
    }

    @Test("Wrong bytes are never kept: the upload is destroyed and the client told")
    func mismatch() throws {
        let place = try create(digest: Self.digest([1, 2, 3]))
        let answer = patch(place, at: 0, Self.bytes)
        #expect(answer.status == 422)
        #expect(String(decoding: answer.body, as: UTF8.self).contains("digest-mismatch"))
        #expect(try files.kept() == [] && (try files.incoming().isEmpty))
        #expect(tus("HEAD", place).status == 404)
    }

    struct Refusal: Sendable {
        var what: String
        var status: Int
        var headers: [(String, String)]
    }

    @Test(
        "A piece that is not as agreed changes nothing",
        arguments: [
            Refusal(what: "another offset", status: 409, headers: [(Tus.offset, "99")]),
            Refusal(what: "no offset", status: 400, headers: [(Tus.offset, "")]),
            Refusal(what: "a negative offset", status: 400, headers: [(Tus.offset, "-100")]),
            Refusal(what: "another type", status: 415, headers: [("Content-Type", "image/jpeg")]),
            Refusal(what: "another version of tus", status: 412, headers: [(Tus.resumable, "2.0.0")]),
            Refusal(what: "a wrong checksum", status: 460, headers: [(Tus.checksum, "sha256 " + Base64.encode(SHA256.hash([7])))]),
            Refusal(what: "another checksum", status: 400, headers: [(Tus.checksum, "md5 AAAA")]),
            Refusal(what: "no checksum at all", status: 400, headers: [(Tus.checksum, "???")]),
        ])
    func refusals(_ refusal: Refusal) throws {
        let place = try create()
        #expect(patch(place, at: 0, Self.bytes[..<100]).status == 204)
        let answer = patch(place, at: 100, Self.bytes[100..<200], refusal.headers)
        #expect(answer.status == refusal.status, "\(refusal.what)")
        #expect(answer.headers[Tus.resumable] == "1.0.0")
        #expect(offset(place) == "100", "\(refusal.what)")
        #expect(patch(place, at: 100, Self.bytes[100...]).headers[Tus.reprDigest] == Self.digest(Self.bytes).field)
    }

    @Test("A piece with its checksum is taken, and more than was announced is not")
    func checksums() throws {
        let place = try create()
        let part = Array(Self.bytes[..<400])
        #expect(patch(place, at: 0, part, [(Tus.checksum, "sha256 " + Base64.encode(SHA256.hash(part)))]).status == 204)
        #expect(patch(place, at: 400, Self.bytes).status == 413)
        #expect(offset(place) == "400")
        #expect(patch(place, at: 400, Self.bytes[400...]).headers[Tus.reprDigest] != nil)
    }

    @Test("After the hub was killed an upload goes on from what was synced, whatever lies on the disk behind it")
    func killed() throws {
        let place = try create()
        #expect(patch(place, at: 0, Self.bytes[..<600]).status == 204)
        // The content after the last sync may be anything.
        let name = try #require(try files.incoming().first?.name)
        try self.place.storage().open(incoming: name, at: 600).append([UInt8](repeating: 0, count: 300))
        use()
        #expect(offset(place) == "600")
        #expect(patch(place, at: 600, Self.bytes[600...]).headers[Tus.reprDigest] == Self.digest(Self.bytes).field)
    }

    @Test("Where fewer bytes lie than were said, the upload begins again")
    func lost() throws {
        let place = try create()
        #expect(patch(place, at: 0, Self.bytes[..<600]).status == 204)
        files.discard(incoming: try #require(try files.incoming().first?.name))
        use()
        #expect(patch(place, at: 600, Self.bytes[600...]).status == 409)
        #expect(offset(place) == "0")
        #expect(patch(place, at: 0, Self.bytes).headers[Tus.reprDigest] == Self.digest(Self.bytes).field)
    }

    @Test("An upload ends by its owner's request, or when it was not continued")
    func ends() throws {
        let place = try create()
        #expect(patch(place, at: 0, Self.bytes[..<10]).status == 204)
        #expect(tus("DELETE", place).status == 204)
        #expect(tus("HEAD", place).status == 404)
        #expect(try files.incoming().isEmpty)
        let old = try create()
        #expect(patch(old, at: 0, Self.bytes[..<10]).status == 204)
        bench.now = bench.now.advanced(by: .seconds(4 * 86_400))
        #expect(patch(old, at: 10, Self.bytes[10...]).status == 410)
        let forgotten = try create()
        #expect(patch(forgotten, at: 0, Self.bytes[..<10]).status == 204)
        bench.now = bench.now.advanced(by: .seconds(4 * 86_400))
        try bench.hub.housekeep(at: bench.now)
        #expect(tus("HEAD", forgotten).status == 404)
        #expect(try files.incoming().isEmpty)
    }

    @Test("Files that another device has, or uploads, do not exist for this one")
    func scope() throws {
        let place = try create()
        #expect(tus("HEAD", place, device: "gw-2").status == 404)
        #expect(tus("DELETE", place, device: "gw-2").status == 404)
        let name = "/v1/blobs/" + Self.digest(Self.bytes).hex
        #expect(tus("HEAD", name, [("Sync-Version", "1")]).status == 404)
        _ = patch(place, at: 0, Self.bytes)
        let found = tus("HEAD", name, [("Sync-Version", "1")])
        #expect(found.status == 200 && found.headers[Tus.reprDigest] == Self.digest(Self.bytes).field)
        #expect(tus("HEAD", name, [("Sync-Version", "1")], device: "gw-2").status == 404)
        #expect(tus("HEAD", "/v1/blobs/../hub.db", [("Sync-Version", "1")]).status == 404)
    }

    @Test("Limits: of one file, of a device, of open uploads")
    func limits() throws {
        use { $0.fileBytes = 500 }
        #expect(tus("POST", "/v1/files", [(Tus.length, "501")]).status == 413)
        use { $0.deviceBytes = 1_500 }
        _ = try create()
        #expect(tus("POST", "/v1/files", [(Tus.length, "501")]).status == 507)
        #expect(tus("POST", "/v1/files", [(Tus.length, "501")], device: "gw-2").status == 201)
        use { $0.deviceUploads = 1 }
        #expect(tus("POST", "/v1/files", [(Tus.length, "1")]).status == 507)
    }

    @Test("A file that would fill the disk is refused; a store without an end takes it")
    func room() {
        use { $0.freeBytes = .max / 2 }
        let answer = tus("POST", "/v1/files", [(Tus.length, "1")], device: "gw-3")
        guard files.freeBytes() != nil else { return #expect(answer.status == 201) }
        #expect(answer.status == 507 && answer.headers["Retry-After"] == "600" && answer.problem?.code == "disk-full")
        let detail = "the hub has no room for this file; its operator must make room, and the device tries again by itself"
        #expect(answer.problem?.detail == detail, "it has no number, because other devices' files change it")
    }

    @Test(
        "A creation that does not say what it is is refused",
        arguments: [
            [], [(Tus.length, "-1")], [(Tus.length, "x")], [(Tus.length, "99999999999999999999")],
            [(Tus.length, "5"), (Tus.metadata, "a *")], [(Tus.length, "5"), (Tus.metadata, Tus.metadata([("sha256", "zz")]))],
        ] as [[(String, String)]])
    func badCreations(_ headers: [(String, String)]) {
        #expect(tus("POST", "/v1/files", headers).status == 400)
    }

    @Test("OPTIONS tells what this server can")
    func options() {
        let answer = tus("OPTIONS", "/v1/files")
        #expect(answer.status == 204)
        #expect(answer.headers["Tus-Version"] == "1.0.0")
        #expect(answer.headers["Tus-Extension"] == "creation,creation-with-upload,expiration,termination,checksum")
        #expect(answer.headers["Tus-Max-Size"] == "2147483648")
    }

    // MARK: Placeholders

    private var placeholder: JSON {
        Placeholder(digest: Self.digest(Self.bytes), size: 1_000, type: "image/jpeg", isUploaded: false).json
    }

    private func state(_ id: RecordID = "a-1") throws -> String? {
        try bench.data("audits", id)?["photo"]?.object?["state"]?.text
    }

    @Test("The record first, then the file: the placeholder flips as a change that all devices pull")
    func recordFirst() throws {
        guard case .accepted = try bench.verdict(Sent("k-1", .create, data: ["photo": placeholder, "n": 1])) else {
            Issue.record("the record was not taken")
            return
        }
        let before = try bench.follow("audits")
        #expect(try state() == "pending")
        let head = bench.hub.head
        _ = patch(try create(link: "a-1"), at: 0, Self.bytes)
        #expect(try state() == "uploaded")
        #expect(bench.hub.head == head + 1)
        let news = try bench.follow("audits", from: before.cursor).pages.flatMap(\.records)
        #expect(news.map(\.id) == ["a-1"])
        #expect(news.first?.record.data["n"]?.int == 1)
    }

    @Test("The file first, then the record: it flips in the same commit's wake")
    func fileFirst() throws {
        _ = patch(try create(link: "a-1"), at: 0, Self.bytes)
        #expect(try bench.data("audits", "a-1") == nil)
        _ = try bench.verdict(Sent("k-1", .create, data: ["photo": placeholder]))
        #expect(try state() == "uploaded")
        // Every record that shows it, not only the one that the upload named.
        _ = try bench.verdict(Sent("k-2", seq: 2, .create, id: "a-2", data: ["photo": placeholder]), device: .two)
        #expect(try state("a-2") == "uploaded")
    }

    @Test("A record that several files are shown by waits for each of its own")
    func several() throws {
        let other = Array(Self.bytes.reversed())
        let second = Placeholder(digest: Self.digest(other), size: 1_000, type: "image/png", isUploaded: false).json
        _ = try bench.verdict(Sent("k-1", .create, data: ["photos": .array([placeholder, second])]))
        _ = patch(try create(), at: 0, Self.bytes)
        func states() throws -> [String?]? { try bench.data("audits", "a-1")?["photos"]?.array?.map { $0.object?["state"]?.text } }
        #expect(try states() == ["uploaded", "pending"])
        _ = patch(try create(digest: Self.digest(other)), at: 0, other)
        #expect(try states() == ["uploaded", "uploaded"])
    }

    @Test("A hub without a place for files says so")
    func none() throws {
        let plain = try HubBench()
        #expect(plain.send("POST", "/v1/files").status == 404)
        #expect(plain.send("HEAD", "/v1/blobs/" + Self.digest([]).hex).status == 404)
    }
}
