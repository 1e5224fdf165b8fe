import Foundation
import Glibc
import LocalAPI
import SyncCore
import SyncLinux
import Testing

extension EndToEnd {
    /// Files over the built programs: from `agentctl` to the disk of the hub.
    @Suite("Blobs")
    struct BlobTests {
        private static let entities = "      audits: { kind: record }"

        @Test("A photo of an inspection taken while the hub is away arrives later, whole, and its record says so everywhere")
        func offline() async throws {
            try await Stand.with(entities: Self.entities) { stand in
                await stand.stopHub()
                let (path, digest) = try stand.file("rail.jpg", bytes: 3_000_000)
                let added = try await stand.agentctl("blobs", "add", path, "--for", "audits/a-17", "--field", "photo", "--json")
                #expect(added.status == 0, "\(added.talk)")
                let item = try #require(BlobItem(try JSONReader.read(added.text)))
                #expect(item.digest == digest.description && item.size == 3_000_000 && item.type == "image/jpeg")
                #expect(try await stand.photo("pending"))
                // The original may go: the agent has its own.
                try FileManager.default.removeItem(atPath: path)
                let status = try #require(try await stand.client.status().value.blobs)
                #expect(status.pending == 1 && status.bytesPending == 3_000_000)

                try await stand.startHub()
                try await stand.untilUploaded([item.id])
                #expect(try stand.hubBytes(digest).map { SHA256.hash($0) } == digest.bytes)
                _ = try await stand.settle()
                // If the record came after its file, the hub's change of the placeholder comes with the next pull.
                #expect(try await stand.sync() == "ok")
                #expect(try await stand.photo("uploaded"))
                let record = try #require(try await stand.hubRecords("audits").first)
                #expect(record.data["photo"]?.object?["state"]?.text == "uploaded")
                let shown = try await stand.client.blob(try #require(BlobID(item.id))).value
                #expect(shown.isVerified && shown.percent == 100)
                let text = try await stand.agentctl("blobs", "list")
                #expect(text.text.contains("uploaded") && text.text.contains("100 %"))
                let why = try await stand.agentctl("why", item.id)
                #expect(why.status == 0 && why.text.contains("it is at the server"))
            }
        }

        @Test("The same bytes by stream, by descriptor and by path are one blob; the content comes back in ranges")
        func ways() async throws {
            try await Stand.with(entities: Self.entities) { stand in
                let (path, digest) = try stand.file("p.bin", bytes: 300_000)
                let first = try await stand.agentctl("blobs", "add", path, "--json")
                let id = try #require(BlobItem(try JSONReader.read(first.text))?.id)
                let bytes = try Data(contentsOf: URL(fileURLWithPath: path))
                func post(_ headers: HTTPHeaders, _ body: [UInt8], query: String = "") async throws -> HTTPResponse {
                    let request = HTTPRequest(
                        .post, "http://localhost/v1/blobs" + query, headers: headers, body: .bytes(body), socketPath: stand.socketPath)
                    return try await stand.transport.send(request)
                }
                let streamed = try await post(["Content-Type": "image/png", Tus.reprDigest: digest.field], Array(bytes))
                #expect(streamed.status == 200)
                #expect(BlobItem(try JSONReader.read(streamed.body))?.id == id)
                // Refusals leave nothing behind.
                let other = BlobDigest(bytes: SHA256.hash([1]))
                #expect(try await post([Tus.reprDigest: other?.field ?? ""], Array(bytes)).status == 422)
                #expect(try await post([:], []).status == 422)
                #expect(try await post(["Blob-Source": "fd"], []).status == 400)
                #expect(try await post(["Blob-Source": "path"], Array("{\"path\":\"/etc/passwd\"}".utf8)).status == 422)
                #expect(try await post(["Blob-Source": "path"], Array("{\"pth\":1}".utf8)).status == 400)
                #expect(try await post([:], [1], query: "?filename=a%2Fb").status == 400)
                #expect(try await post(["Content-Encoding": "gzip"], [1]).status == 415)
                #expect(try await stand.client.blobs(BlobListQuery()).value.items.count == 1)
                #expect(try stand.incoming("agent").isEmpty)

                func get(_ range: String?) async throws -> HTTPResponse {
                    var headers: HTTPHeaders = []
                    headers["Range"] = range
                    return try await stand.transport.send(
                        HTTPRequest(.get, "http://localhost/v1/blobs/\(id)/content", headers: headers, socketPath: stand.socketPath))
                }
                #expect(try await get(nil).body == Array(bytes))
                #expect(try await get("bytes=10-19").body == Array(bytes[10..<20]))
                #expect(try await get("bytes=-5").body == Array(bytes.suffix(5)))
                #expect(try await get("bytes=300000-").status == 416)
            }
        }

        @Test(
            "A sparse file of 2 GB goes through agent and hub without growing either by more than a few MB",
            .disabled(
                if: ProcessInfo.processInfo.environment["EDGE_SYNC_SANITIZER"] == "address",
                "the address sanitizer holds back what is freed, to notice who uses it"))
        func memory() async throws {
            try await Stand.with(entities: Self.entities) { stand in
                let path = stand.folder + "/large.bin"
                let descriptor = open(path, O_RDWR | O_CREAT, 0o600)
                #expect(ftruncate(descriptor, off_t(Self.largeBytes)) == 0)
                close(descriptor)
                // The first file makes what every later one uses.
                let (small, _) = try stand.file("small.bin", bytes: 2_000_000)
                let warm = try await stand.agentctl("blobs", "add", small, "--json")
                try await stand.untilUploaded([try #require(BlobItem(try JSONReader.read(warm.text))?.id)])
                let before = try await stand.memory()
                let added = try await stand.agentctl("blobs", "add", path, "--json")
                #expect(added.status == 0, "\(added.talk)")
                let item = try #require(BlobItem(try JSONReader.read(added.text)))
                #expect(item.size == Self.largeBytes)
                let taken = try await stand.memory()
                try await stand.untilUploaded([item.id])
                let after = try await stand.memory()
                print("blobs: private memory of agent and hub, KB: before \(before), taken in \(taken), uploaded \(after)")
                #expect(max(taken.agent, after.agent) - before.agent < 8_192)
                #expect(after.hub - before.hub < 12_288)
            }
        }

        /// EDGE_SYNC_LONG takes the largest file that there may be.
        private static var largeBytes: Int64 {
            ProcessInfo.processInfo.environment["EDGE_SYNC_LONG"] == nil ? 300_000_000 : 2_000_000_000
        }

        @Test(
            "Agent and hub are killed at random moments of many uploads: every file arrives whole, and never half of one under a final name"
        )
        func killed() async throws {
            let seed = ProcessInfo.processInfo.environment["EDGE_SYNC_SEED"].flatMap { UInt64($0) } ?? UInt64.random(in: 0 ... .max)
            print("blob kill test: EDGE_SYNC_SEED=\(seed)")
            var random = SeededGenerator(seed: seed)
            try await Stand.with(entities: Self.entities) { stand in
                var ids: [String] = []
                var digests: [BlobDigest] = []
                for number in 0..<Self.files {
                    let (path, digest) = try stand.file("f\(number).bin", bytes: 6_000_000 + number)
                    let added = try await stand.agentctl(
                        "blobs", "add", path, "--for", "audits/a-\(number)", "--field", "photo", "--json")
                    ids.append(try #require(BlobItem(try JSONReader.read(added.text))?.id, "\(added.talk)"))
                    digests.append(digest)
                    if number % 2 == 1 {
                        // Anywhere in the upload, or before it begins.
                        Moment.pass(milliseconds: Int32.random(in: 0...400, using: &random))
                        let killsHub = Bool.random(using: &random)
                        if killsHub { await stand.killHub() }
                        if !killsHub || Bool.random(using: &random) {
                            await stand.killAgent()
                            try stand.checkNames()
                            try await stand.startAgent()
                        }
                        try stand.checkNames()
                        if killsHub { try await stand.startHub() }
                    }
                }
                try await stand.untilUploaded(ids)
                try stand.checkNames()
                _ = try await stand.settle()
                for digest in digests { #expect(try stand.hubBytes(digest).map { SHA256.hash($0) } == digest.bytes, "seed \(seed)") }
                let states = try await stand.hubRecords("audits").map { $0.data["photo"]?.object?["state"]?.text }
                #expect(states.count == Self.files && states.allSatisfy { $0 == "uploaded" }, "seed \(seed)")
                #expect(try stand.incoming("agent").isEmpty)
            }
        }

        private static var files: Int { ProcessInfo.processInfo.environment["EDGE_SYNC_LONG"] == nil ? 10 : 200 }
    }
}

extension Stand {
    /// A file with bytes that nothing else has.
    nonisolated func file(_ name: String, bytes: Int) throws -> (path: String, digest: BlobDigest) {
        var random = SeededGenerator(seed: UInt64(bytes) &+ UInt64(name.utf8.reduce(0) { $0 &* 31 &+ Int($1) }))
        let content = random.bytes(bytes)
        let path = "\(folder)/\(name)"
        guard FileManager.default.createFile(atPath: path, contents: Data(content)) else { throw StandError("cannot write \(path)") }
        let hash = FileHash()
        hash.update(content)
        return (path, hash.blobDigest)
    }

    nonisolated func hubBytes(_ digest: BlobDigest) throws -> [UInt8]? {
        FileManager.default.contents(atPath: "\(folder)/hub/blobs/\(digest.hex.prefix(2))/\(digest.hex)").map { Array($0) }
    }

    nonisolated func incoming(_ side: String) throws -> [String] {
        try FileManager.default.contentsOfDirectory(atPath: "\(folder)/\(side)/blobs/incoming")
    }

    /// Every file with a final name, on either side, has the content that its name says.
    nonisolated func checkNames() throws {
        for side in ["agent", "hub"] {
            let files = try BlobFiles("\(folder)/\(side)/blobs")
            for digest in try files.kept() {
                let reader = try files.read(digest)
                let hash = FileHash()
                var offset: Int64 = 0
                while offset < reader.size {
                    let bytes = try reader.read(at: offset, count: 1 << 20)
                    hash.update(bytes)
                    offset += Int64(bytes.count)
                }
                guard hash.blobDigest == digest else { throw StandError("half a file under the name \(digest) of the \(side)") }
            }
        }
    }

    /// Lets `agentctl` wait for each of them.
    ///
    /// - Parameter retries: The server was away. All attempts of an agent on a slow machine may fall into that time. Then it has given up,
    ///   as it should, and is asked to begin again.
    func untilUploaded(_ ids: [String], retries: Bool = false) async throws {
        for id in ids {
            var watched = try await agentctl("blobs", "show", id, "--watch")
            for _ in 0..<10 where retries && watched.status != 0 {
                let state = try BlobItem(JSONReader.read(try await agentctl("blobs", "show", id, "--json").text))?.state
                guard state == "failed", try await agentctl("blobs", "retry", id).status == 0 else { break }
                watched = try await agentctl("blobs", "show", id, "--watch")
            }
            guard watched.status == 0 else { throw StandError("\(id) was not uploaded: \(watched.text) \(watched.talk)") }
        }
    }

    func photo(_ state: String) async throws -> Bool {
        let name = RecordName(EntityName(trusted: "audits"), RecordID(trusted: "a-17"))
        let data = try await client.record(name).value.data ?? "null"
        return try JSONReader.read(data).object?["photo"]?.object?["state"]?.text == state
    }

    /// Anonymous memory, KB.
    func memory() throws -> (agent: Int, hub: Int) {
        func anonymous(_ pid: pid_t?) throws -> Int {
            guard let pid else { throw StandError("it does not run") }
            let text = try String(contentsOfFile: "/proc/\(pid)/status", encoding: .utf8)
            let line = text.split(separator: "\n").first { $0.hasPrefix("RssAnon:") }
            return line.flatMap { Int($0.filter(\.isNumber)) } ?? 0
        }
        return (try anonymous(agentProcess), try anonymous(hubProcess))
    }
}
