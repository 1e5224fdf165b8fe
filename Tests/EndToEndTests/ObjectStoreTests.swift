import Foundation
import Glibc
import LocalAPI
import ObjectStand
import PostgresStand
import SyncCore
import SyncLinux
import Testing

extension EndToEnd {
    /// Files of the real hub in an object store that is not ours, and that checks what is signed.
    @Suite("Files in an object store", .enabled(if: SeaweedServer.isInstalled, "no SeaweedFS beside EDGE_SYNC_PYTHON"))
    struct ObjectStoreTests {
        private static let entities = "      audits: { kind: record }"
        private static let credentials = ["AWS_ACCESS_KEY_ID": SeaweedServer.keyID, "AWS_SECRET_ACCESS_KEY": SeaweedServer.secret]

        /// Runs with a hub that keeps its files in that server, and an agent.
        private static func with(_ server: SeaweedServer, _ body: (Stand, String) async throws -> Void) async throws {
            try await Stand.with(entities: entities, hub: false, agent: false) { stand in
                let place = server.newPlace()
                await stand.setEnvironment(agent: [:], hub: credentials)
                await stand.setHubArguments(arguments(server, place))
                try await stand.startHub()
                try await stand.startAgent()
                try await body(stand, place)
            }
        }

        private static func arguments(_ server: SeaweedServer, _ place: String) -> [String] {
            ["--blobs", place, "--s3-endpoint", server.endpoint, "--s3-region", SeaweedServer.region]
        }

        @Test(
            "The hub is killed at random moments of an upload of 20 MB: it goes on where it was, the digest is right, nothing is left over")
        func killed() async throws {
            let seed = ProcessInfo.processInfo.environment["EDGE_SYNC_SEED"].flatMap { UInt64($0) } ?? UInt64.random(in: 0 ... .max)
            print("object store kill test: EDGE_SYNC_SEED=\(seed)")
            var random = SeededGenerator(seed: seed)
            let server = try SeaweedServer.shared.get()
            try await Self.with(server) { stand, place in
                let (path, digest) = try stand.file("large.bin", bytes: 20_000_000)
                let added = try await stand.agentctl("blobs", "add", path, "--for", "audits/a-17", "--field", "photo", "--json")
                let item = try #require(BlobItem(try JSONReader.read(added.text)), "\(added.talk)")
                for _ in 0..<5 {
                    Moment.pass(milliseconds: Int32.random(in: 0...250, using: &random))
                    await stand.killHub()
                    try await stand.startHub()
                    _ = try await stand.sync()
                }
                try await stand.untilUploaded([item.id], retries: true)
                #expect(try await stand.fetch(digest) == 200, "seed \(seed)")
                #expect(try server.keys(place, "blobs/") == ["blobs/\(digest.hex.prefix(2))/\(digest.hex)"], "seed \(seed)")
                // A hub that is killed between its answer and its tidying leaves objects behind. The next start finds them.
                await stand.killHub()
                try await stand.startHub()
                try await server.untilEmpty(place, "partial/")
                #expect(try server.openUploads(place) == 0, "seed \(seed)")
                #expect(!FileManager.default.fileExists(atPath: "\(stand.folder)/hub/blobs"))
            }
        }

        @Test("The store is killed in the middle and comes back: records sync meanwhile, the hub says what is wrong, the file arrives")
        func away() async throws {
            let server = try SeaweedServer()
            defer { server.kill() }
            try await Self.with(server) { stand, _ in
                let (first, firstDigest) = try stand.file("first.bin", bytes: 300_000)
                let added = try await stand.agentctl("blobs", "add", first, "--json")
                try await stand.untilUploaded([try #require(BlobItem(try JSONReader.read(added.text))?.id)])
                server.kill()
                #expect(try await stand.fetch(firstDigest) == 503)
                let answer = try await stand.hub(.get, "/v1/blobs/\(firstDigest.hex)")
                #expect(answer.headers["Retry-After"] == "10")
                let (second, secondDigest) = try stand.file("second.bin", bytes: 7_000_000)
                let waiting = try await stand.agentctl("blobs", "add", second, "--for", "audits/a-17", "--field", "photo", "--json")
                let item = try #require(BlobItem(try JSONReader.read(waiting.text)))
                #expect(try await stand.sync() == "ok")
                let names = try await stand.hubRecords("audits").map(\.id)
                #expect(names == ["a-17"])
                #expect(
                    String(decoding: try await stand.hub(.get, "/metrics").body, as: UTF8.self).contains("agenthub_object_store_up 0\n"))
                let ready = try await stand.hub(.get, "/readyz")
                #expect(ready.status == 200 && String(decoding: ready.body, as: UTF8.self).contains("does not answer"))
                try server.start()
                _ = try await stand.sync()
                try await stand.untilUploaded([item.id], retries: true)
                #expect(try await stand.fetch(secondDigest) == 200)
                #expect(try await stand.fetch(firstDigest) == 200)
                #expect(
                    String(decoding: try await stand.hub(.get, "/metrics").body, as: UTF8.self).contains("agenthub_object_store_up 1\n"))
            }
        }

        @Test(
            "A wrong secret, key or bucket ends the start with what is wrong; no secret is shown or logged",
            arguments: [
                ("AWS_SECRET_ACCESS_KEY", "wrong-secret", "SignatureDoesNotMatch", 77),
                ("AWS_ACCESS_KEY_ID", "nobody", "InvalidAccessKeyId", 77),
                ("AWS_SECRET_ACCESS_KEY", "", "AWS_SECRET_ACCESS_KEY", 78), ("", "", "there is no bucket nowhere", 77),
            ] as [(String, String, String, Int32)])
        func refused(_ variable: String, _ value: String, _ words: String, _ status: Int32) async throws {
            let server = try SeaweedServer.shared.get()
            try await Stand.with(hub: false, agent: false) { stand in
                var environment = Self.credentials
                if !variable.isEmpty { environment[variable] = value }
                let place = variable.isEmpty ? "s3://nowhere" : server.newPlace()
                let output = try await Child.run(
                    [Programs.agenthub, "serve", "--verbose", "--data", "\(stand.folder)/hub", "--listen", "127.0.0.1:0"]
                        + Self.arguments(server, place), environment: environment, in: stand.folder)
                #expect(output.status == status, "\(output.talk)")
                #expect(output.talk.contains(words) && output.talk.contains("expected"))
                #expect(!output.talk.contains(SeaweedServer.secret) && !output.talk.contains("wrong-secret"))
            }
        }

        @Test("Credentials come from a file that no other user can read")
        func file() async throws {
            let server = try SeaweedServer.shared.get()
            try await Stand.with(hub: false, agent: false) { stand in
                let path = "\(stand.folder)/credentials"
                try Stand.write(
                    "[default]\naws_access_key_id = \(SeaweedServer.keyID)\naws_secret_access_key = \(SeaweedServer.secret)\n", to: path)
                await stand.setHubArguments(Self.arguments(server, server.newPlace()) + ["--s3-credentials", path])
                chmod(path, 0o600)
                try await stand.startHub()
                await stand.stopHub()
                chmod(path, 0o644)
                let output = try await Child.run(
                    [Programs.agenthub, "serve", "--data", "\(stand.folder)/hub", "--listen", "127.0.0.1:0", "--s3-credentials", path]
                        + Self.arguments(server, server.newPlace()), in: stand.folder)
                #expect(output.status == 78 && output.talk.contains("0600"), "\(output.talk)")
            }
        }

        @Test(
            "Two replicas share no folder: an upload begun at one goes on at the other after the first was killed",
            .enabled(if: PostgresServer.isInstalled, "no PostgreSQL server program here"))
        func replicas() async throws {
            let server = try SeaweedServer.shared.get()
            try await Stand.with(hub: false, agent: false) { stand in
                let database = try PostgresServer.shared.get().newURL()
                let place = server.newPlace()
                let added = try await Child.run(
                    [Programs.agenthub, "token", "add", Stand.device, "--database", database], in: stand.folder)
                let token = added.text.trimmingCharacters(in: .whitespacesAndNewlines)
                func start(_ name: String) async throws -> (child: Child, url: String) {
                    let pipe = try LinePipe()
                    let child = try Child(
                        [Programs.agenthub, "serve", "--database", database, "--listen", "127.0.0.1:0"] + Self.arguments(server, place),
                        environment: Self.credentials, log: "\(stand.folder)/hub.log", output: pipe.writingEnd)
                    guard let line = await pipe.line(), let address = line.components(separatedBy: "listening on ").last else {
                        throw StandError("replica \(name) did not start")
                    }
                    return (child, "http://\(address)")
                }
                let replicas = [try await start("a"), try await start("b")]
                let (path, digest) = try stand.file("large.bin", bytes: 9_000_000)
                let bytes = Array(try Data(contentsOf: URL(fileURLWithPath: path)))
                func ask(_ index: Int, _ method: HTTPRequest.Method, _ target: String, _ extra: HTTPHeaders, _ body: [UInt8] = [])
                    async throws -> HTTPResponse
                {
                    var headers: HTTPHeaders = ["Tus-Resumable": "1.0.0", "Authorization": "Bearer \(token)", "Sync-Version": "1"]
                    for field in extra.fields { headers.append(field.name, field.value) }
                    return try await stand.transport.send(
                        HTTPRequest(method, replicas[index].url + target, headers: headers, body: body.isEmpty ? .none : .bytes(body)))
                }
                func patch(_ index: Int, _ target: String, at offset: Int, upTo end: Int) async throws -> HTTPResponse {
                    try await ask(
                        index, .patch, target, [Tus.offset: "\(offset)", "Content-Type": Tus.contentType], Array(bytes[offset..<end]))
                }
                let made = try await ask(
                    0, .post, "/v1/files", [Tus.length: "\(bytes.count)", Tus.metadata: Tus.metadata([("sha256", digest.hex)])])
                let target = try #require(made.headers["Location"])
                var offset = 0
                // Each piece goes to the other replica than the one before.
                for (turn, end) in [1_000_000, 3_000_000, 6_500_000, 7_000_000].enumerated() {
                    #expect(try await patch(turn % 2, target, at: offset, upTo: end).status == 204)
                    offset = end
                }
                await replicas[0].child.stop(SIGKILL)
                #expect(try await ask(1, .head, target, []).headers[Tus.offset] == "\(offset)")
                let last = try await patch(1, target, at: offset, upTo: bytes.count)
                #expect(last.status == 204 && last.headers[Tus.reprDigest] == digest.field)
                let whole = try await ask(1, .get, "/v1/blobs/\(digest.hex)", [])
                #expect(whole.status == 200 && whole.body == bytes)
                try await server.untilEmpty(place, "partial/")
                await replicas[1].child.stop()
            }
        }
    }
}

extension Stand {
    /// As this stand's device, past the agent.
    ///
    /// - Parameter isFresh: On a connection of its own, for a test in which the hub may close the kept one at any time.
    func hub(_ method: HTTPRequest.Method, _ target: String, isFresh: Bool = false) async throws -> HTTPResponse {
        let token = (try? String(contentsOfFile: "\(folder)/token", encoding: .utf8))?.trimmingCharacters(in: .whitespacesAndNewlines) ?? ""
        return try await transport.send(
            HTTPRequest(
                method, hubURL + target, headers: ["Authorization": "Bearer \(token)", "Sync-Version": "1", "Sync-Device": Stand.device],
                maxResponseBytes: 64 << 20, keepsConnection: !isFresh))
    }

    /// Fetches a file from the hub and compares it with its name.
    ///
    /// - Returns: The status; 0 for other bytes.
    func fetch(_ digest: BlobDigest) async throws -> Int {
        let answer = try await hub(.get, "/v1/blobs/\(digest.hex)")
        return answer.status != 200 || BlobDigest(bytes: SHA256.hash(answer.body)) == digest ? answer.status : 0
    }
}
