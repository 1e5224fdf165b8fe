import Agent
import LocalAPI
import SyncCore
import SyncLinux
import Synchronization
import Testing

/// Files that come from the hub, with a whole agent and its socket.
@Suite("Files come down, with a whole agent in front of them")
struct FilesDownTests {
    private static let content = (0..<700_000).map { UInt8(truncatingIfNeeded: $0 &* 131 &+ $0 / 255) }
    private static let digest = BlobDigest(bytes: SHA256.hash(content))!
    private static let path = "/v1/blobs/\(digest)/content"

    /// The files of a hub, as the contract says, and what a test does to its answers.
    private final class Shelf: Sendable {
        private let state = Mutex(State())

        struct State {
            var asked: [String] = []
            /// Instead of an answer with bytes.
            var says: Int?
            var spoils = false
        }

        var asked: [String] { state.withLock(\.asked) }

        func says(_ status: Int?) { state.withLock { $0.says = status } }
        func spoils(_ isSo: Bool) { state.withLock { $0.spoils = isSo } }

        func answer(_ request: HTTPRequest, _ response: inout HTTPResponse) {
            guard request.method == .get, request.url.hasSuffix("/v1/blobs/" + digest.hex) else { return }
            let range = request.headers["Range"] ?? ""
            let (status, spoils) = state.withLock { state in
                state.asked.append(range)
                return (state.says, state.spoils)
            }
            if let status {
                (response.status, response.body) = (status, [])
                return
            }
            let ends = range.dropFirst("bytes=".count).split(separator: "-").compactMap { Int($0) }
            guard ends.count == 2, ends[0] < content.count else {
                response.status = 416
                response.headers["Content-Range"] = "bytes */\(content.count)"
                response.body = []
                return
            }
            let end = min(content.count, ends[1] + 1)
            response.status = 206
            response.headers["ETag"] = digest.entityTag
            response.headers["Content-Range"] = "bytes \(ends[0])-\(end - 1)/\(content.count)"
            response.headers["Content-Length"] = nil
            response.body = Array(content[ends[0]..<end])
            if spoils { response.body[0] ^= 1 }
            response.traffic.down = response.body.count
        }
    }

    /// An agent that has the record with the file, and a hub whose files are on a shelf.
    private static func start(
        _ settings: String = "", isUploaded: Bool = true, _ body: (AgentStand, Shelf) async throws -> Void
    ) async throws {
        let (hub, shelf) = (try LoopbackHub(), Shelf())
        let folder = try AgentStand.makeFolder()
        let files = try BlobFiles(folder + "/blobs")
        let stand = try await start(settings, hub, shelf, isUploaded: isUploaded, files, in: folder)
        try await body(stand, shelf)
        try await stand.stop()
    }

    private static func start(
        _ settings: String, _ hub: LoopbackHub, _ shelf: Shelf, isUploaded: Bool = true, _ files: BlobFiles, in folder: String
    ) async throws -> AgentStand {
        let photo = Placeholder(digest: digest, size: Int64(content.count), type: "image/jpeg", isUploaded: isUploaded)
        try hub.publish("audits", "a-1", ["photo": photo.json])
        hub.weather = .changes { shelf.answer($0, &$1) }
        let stand = try await open(settings, hub, files, in: folder)
        #expect(try await stand.sync()["result"] == "ok")
        return stand
    }

    private static func open(
        _ settings: String, _ hub: LoopbackHub, _ files: BlobFiles, in folder: String
    ) async throws -> AgentStand {
        try await AgentStand.start(settings + "entities: { audits: {} }\n", hub: hub, in: folder) { environment in
            environment.blobs = files
            environment.spread = .zero
        }
    }

    /// Waits for the thread that writes and removes files. It refuses a file whose bytes are not the announced ones, after all work that
    /// it was given before.
    private static func waitForFiles(_ stand: AgentStand) async throws {
        let refused = try await stand.send(.post, "/v1/blobs", "x", headers: [Tus.reprDigest: digest.field])
        #expect(refused.status == 422, "\(refused.text)")
    }

    @Test("A request without a wait gets the progress of the download, and one with a wait gets the whole file")
    func waitDecidesBetweenProgressAndFile() async throws {
        try await Self.start { stand, shelf in
            let first = try await stand.send(.get, Self.path)
            #expect(first.status == 503 && first.code == "blob-fetching" && first["size"] == .int(Self.content.count), "\(first.text)")
            let request = HTTPRequest(.get, "http://localhost\(Self.path)?wait=60s", socketPath: stand.socket)
            let came = try await stand.client.send(request)
            #expect(came.status == 200 && came.body == Self.content)
            #expect(came.headers[Tus.reprDigest] == Self.digest.field && came.headers["Content-Type"] == "image/jpeg")
            // From the device, in ranges, and without another question.
            let requests = shelf.asked.count
            #expect(requests >= 2, "in pieces")
            let part = try await stand.client.send(
                HTTPRequest(.get, "http://localhost" + Self.path, headers: ["Range": "bytes=5-9"], socketPath: stand.socket))
            #expect(part.status == 206 && part.body == Array(Self.content[5..<10]) && shelf.asked.count == requests)
            let item = try await stand.send(.get, "/v1/blobs?state=fetched")
            let shown = item["items"]?.array?.first?.object
            #expect(shown?["direction"] == "down" && shown?["kept"] == true && shown?["pinned"] == false)
            #expect(shown?["links"]?.array?.first?.object?["field"] == "photo")
        }
    }

    @Test("A file that no record shows, and one whose bytes are not at the hub yet, are not found and not asked for")
    func unknown() async throws {
        try await Self.start(isUploaded: false) { stand, shelf in
            let pending = try await stand.send(.get, Self.path)
            #expect(pending.code == "not-found" && pending.text.contains("not at the hub yet"), "\(pending.text)")
            let other = "/v1/blobs/sha256:" + String(repeating: "0", count: 64)
            #expect(try await stand.send(.get, other + "/content?wait=5m").code == "not-found")
            #expect(try await stand.send(.post, other + "/fetch").code == "not-found")
            #expect(try await stand.send(.post, other + "/unpin").code == "not-found")
            #expect(shelf.asked.isEmpty)
        }
    }

    @Test("The hub refuses it: the file is set aside and not asked for again until a caller has it fetched")
    func refused() async throws {
        try await Self.start { stand, shelf in
            shelf.says(404)
            let refused = try await stand.send(.get, Self.path + "?wait=60s")
            #expect(refused.status == 409 && refused.code == "blob-not-fetched", "\(refused.text)")
            #expect(try await stand.send(.get, Self.path + "?wait=60s").status == 409)
            #expect(shelf.asked.count == 1)
            shelf.says(nil)
            let again = try await stand.send(.post, "/v1/blobs/\(Self.digest)/fetch")
            #expect(again.status == 202 && again["state"] == "fetching", "\(again.text)")
            #expect(try await stand.send(.get, Self.path + "?wait=60s").status == 200)
            let pinned = try await stand.send(.post, "/v1/blobs/\(Self.digest)/pin")
            #expect(pinned.status == 200 && pinned["pinned"] == true)
            #expect(try await stand.send(.post, "/v1/blobs/\(Self.digest)/unpin")["pinned"] == false)
        }
    }

    // Fault: bytes are shown that were never compared.
    @Test("Wrong bytes are never shown: the file begins anew twice and is set aside")
    func wrong() async throws {
        try await Self.start { stand, shelf in
            shelf.spoils(true)
            let refused = try await stand.send(.get, Self.path + "?wait=5m")
            #expect(refused.status == 409 && refused.code == "blob-not-fetched" && refused["cause"] == "digest-mismatch", "\(refused.text)")
            #expect(shelf.asked.filter { $0.hasPrefix("bytes=0-") }.count == 3)
            shelf.spoils(false)
            _ = try await stand.send(.post, "/v1/blobs/\(Self.digest)/fetch")
            let request = HTTPRequest(.get, "http://localhost\(Self.path)?wait=60s", socketPath: stand.socket)
            #expect(try await stand.client.send(request).body == Self.content)
        }
    }

    // Fault: the bytes of a file stayed on flash after its record had left the share, those of a pinned one for good.
    @Test("A pinned file leaves the flash with its record, also if the agent dies after the row is written and before the file is removed")
    func revoked() async throws {
        let (hub, shelf, folder) = (try LoopbackHub(), Shelf(), try AgentStand.makeFolder())
        let files = try BlobFiles(folder + "/blobs")
        let stand = try await Self.start("", hub, shelf, files, in: folder)
        #expect(try await stand.send(.post, "/v1/blobs/\(Self.digest)/pin").status == 202)
        let request = HTTPRequest(.get, "http://localhost\(Self.path)?wait=60s", socketPath: stand.socket)
        #expect(try await stand.client.send(request).body == Self.content)
        #expect(try files.kept() == [Self.digest])
        hub.weather = ShareTests.revoking("a-1")
        try await stand.sync()
        hub.weather = .fine
        try await Self.waitForFiles(stand)
        #expect(try files.kept() == [])
        let all = try await stand.send(.get, "/v1/blobs")
        let item = try #require(all["items"]?.array?.first?.object, "\(all.text)")
        #expect(item["kept"] == false && item["pinned"] == false, "\(all.text)")
        let why = try await stand.send(.get, "/v1/why/\(item["id"]?.text ?? "")")
        #expect(why["sentence"] == "it was here, and was removed: no record on this device shows the file any more", "\(why.text)")
        try await stand.stop(keepingFolder: true)

        let part = try files.openFile(incoming: "crashed", at: 0)
        try part.append(Self.content)
        try part.keep(as: Self.digest)
        #expect(try files.kept() == [Self.digest])
        hub.weather = .gone
        let again = try await Self.open("", hub, files, in: folder)
        // The agent has read its database when a cycle has ended.
        try await again.sync()
        // Its first look at the folder may still be under way.
        while try !files.kept().isEmpty { await Task.yield() }
        let list = try await again.send(.get, "/v1/blobs")
        #expect(list["items"]?.array?.count == 1, "the bytes are not taken for a file of this device: \(list.text)")
        try await again.stop()
    }

    @Test("A file above blobs.fetch_max_size is set aside with its size")
    func tooLarge() async throws {
        try await Self.start("blobs: { fetch_max_size: 100KB }\n") { stand, _ in
            let refused = try await stand.send(.get, Self.path + "?wait=60s")
            #expect(refused.code == "blob-not-fetched" && refused["cause"] == "too-large", "\(refused.text)")
        }
    }
}
