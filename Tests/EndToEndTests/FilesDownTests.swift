import Foundation
import LocalAPI
import SyncCore
import SyncLinux
import Testing

extension EndToEnd {
    /// Files that one gateway brings and another one has come down.
    @Suite("Files come down")
    struct FilesDownTests {
        private static let entities = "      audits: { kind: record }"

        /// Runs `body` with a neighbour that has brought a file, and with its record on the stand's own gateway.
        private static func with(
            bytes: Int, entities: String = Self.entities, _ body: (Stand, Neighbour, BlobDigest) async throws -> Void
        ) async throws {
            try await Stand.with(entities: entities) { stand in
                let neighbour = try await Neighbour("gw-2", on: stand)
                do {
                    let (path, digest) = try stand.file("door.jpg", bytes: bytes)
                    let added = try await neighbour.agentctl("blobs", "add", path, "--for", "audits/a-1", "--field", "photo", "--watch")
                    #expect(added.status == 0, "\(added.talk)")
                    // If the record came after its file, the hub's change of the placeholder comes with the next pull.
                    try await neighbour.sync()
                    try await neighbour.sync()
                    #expect(try await stand.sync() == "ok")
                    try await body(stand, neighbour, digest)
                } catch {
                    let log = neighbour.log
                    await neighbour.stop()
                    throw StandError("\(error)\nthe end of the neighbour's log:\n\(log)")
                }
                await neighbour.stop()
            }
        }

        @Test("A photo that one gateway has brought is fetched by another that shows its record, and by no other one")
        func twoGateways() async throws {
            try await Self.with(bytes: 3_000_000) { stand, neighbour, digest in
                let asked = try await stand.get(digest, wait: nil)
                let problem = Problem(try JSONReader.read(asked.body))
                #expect(asked.status == 503 && problem.code == "blob-fetching")
                let came = try await stand.get(digest, wait: "1m")
                #expect(came.status == 200 && SHA256.hash(came.body) == digest.bytes)
                #expect(came.headers["Content-Type"] == "image/jpeg" && came.headers[Tus.reprDigest] == digest.field)

                let target = "\(stand.folder)/fetched.jpg"
                let fetched = try await stand.agentctl("blobs", "fetch", digest.description, "--wait", "1m", "--output", target)
                #expect(fetched.status == 0 && fetched.text.contains("fetched"), "\(fetched.talk)")
                #expect(SHA256.hash(Array(try Data(contentsOf: URL(fileURLWithPath: target)))) == digest.bytes)
                let listed = try await stand.client.blobs(BlobListQuery(states: ["fetched"])).value.items
                #expect(listed.map(\.digest) == [digest.description] && listed.first?.direction == .down && listed.first?.isKept == true)
                #expect(try stand.incoming("agent").isEmpty)

                let pinned = try await stand.agentctl("blobs", "pin", digest.description)
                #expect(pinned.status == 0 && pinned.text.contains("pinned"), "\(pinned.talk)")
                let unknown = try await stand.agentctl("blobs", "fetch", "sha256:" + String(repeating: "0", count: 64))
                #expect(unknown.status == 1 && unknown.talk.contains("no record shows it"), "\(unknown.talk)")
                _ = neighbour
            }
        }

        @Test("With files: ahead a gateway has the file before a request for it")
        func ahead() async throws {
            try await Self.with(bytes: 400_000, entities: "      audits: { kind: record, files: ahead }") { stand, _, digest in
                let came = try await stand.get(digest, wait: "1m")
                #expect(came.status == 200 && SHA256.hash(came.body) == digest.bytes)
            }
        }

        // Fault: after a kill, bytes that were never compared are shown, or the file never comes.
        @Test("The agent is killed at random moments of a fetch: no wrong byte is ever shown, and the file comes")
        func killed() async throws {
            let seed = ProcessInfo.processInfo.environment["EDGE_SYNC_SEED"].flatMap { UInt64($0) } ?? UInt64.random(in: 0 ... .max)
            print("fetch kill test: EDGE_SYNC_SEED=\(seed)")
            var random = SeededGenerator(seed: seed)
            let rounds = ProcessInfo.processInfo.environment["EDGE_SYNC_LONG"] == nil ? 8 : 60
            try await Self.with(bytes: 40_000_000) { stand, _, digest in
                for _ in 0..<rounds {
                    _ = try await stand.agentctl("blobs", "fetch", digest.description)
                    Moment.pass(milliseconds: Int32.random(in: 0...200, using: &random))
                    await stand.killAgent()
                    try stand.checkNames()
                    try await stand.startAgent()
                    let shown = try await stand.get(digest, wait: nil)
                    #expect(shown.status == 503 || shown.status == 200 && SHA256.hash(shown.body) == digest.bytes, "seed \(seed)")
                }
                let came = try await stand.get(digest, wait: "2m")
                #expect(came.status == 200 && SHA256.hash(came.body) == digest.bytes, "seed \(seed)")
                try stand.checkNames()
                #expect(try stand.incoming("agent").isEmpty)
            }
        }
    }

    @Suite(
        "Files come down over links", .disabled(if: Namespaces.shapingObstacle != nil, Comment(rawValue: Namespaces.shapingObstacle ?? "")))
    struct FilesDownLinkTests {
        private static let wan = Namespaces.Cable.wan
        private static let isLong = ProcessInfo.processInfo.environment["EDGE_SYNC_LONG"] != nil

        /// EDGE_SYNC_LONG: 200 MB and 20 cuts, about eleven minutes.
        private static let bytes = isLong ? 200_000_000 : 20_000_000
        private static let cuts = isLong ? 20 : 4

        // The gateway brings the file itself, and forgets it: what comes down then is the same as from another one.
        @Test("Over a link of 2 MB/s that is cut again and again a file comes whole, and less than 5 % of it comes twice")
        func cut() async throws {
            try await FieldStand.with([Self.wan]) { stand in
                let (path, digest) = try stand.file("large.bin", bytes: Self.bytes)
                let added = try await stand.agentctl("blobs", "add", path, "--for", "work_orders/w-1", "--field", "film", "--watch")
                #expect(added.status == 0, "\(added.talk)")
                // If the record came after its file, the hub's change of the placeholder comes with the next pull.
                for _ in 0..<2 {
                    let synced = try await stand.agentctl("sync", "--wait", "--force")
                    #expect(synced.status == 0, "\(synced.talk)")
                }
                let listed = try await stand.client.blobs(BlobListQuery()).value.items
                let removed = try await stand.agentctl("blobs", "remove", try #require(listed.first?.id))
                #expect(removed.status == 0, "\(removed.talk)")

                try await stand.network.shapeDown(Self.wan, megabits: 16)
                let before = try await stand.network.received(Self.wan), twice = try await stand.network.payloadTwice(into: .field)
                guard let item = BlobItem(try await stand.ask("blobs", "fetch", digest.description)) else {
                    throw StandError("nothing is fetched")
                }
                for number in 1...Self.cuts {
                    try await stand.until(item.id, has: Int64(Self.bytes) * Int64(number) / Int64(Self.cuts + 1))
                    try await stand.network.pull(Self.wan)
                    try await stand.until("offline") { $0.connectivity.state == "offline" }
                    try await stand.network.plug(Self.wan)
                }
                let target = "\(stand.folder)/fetched.bin"
                let fetched = try await stand.agentctl("blobs", "fetch", digest.description, "--wait", "10m", "--output", target)
                #expect(fetched.status == 0, "\(fetched.talk)")
                let came = try await stand.network.received(Self.wan) - before
                let payload = try await came.bytes - 66 * came.packets - (stand.network.payloadTwice(into: .field) - twice)
                print("files down: \(Self.bytes) bytes, \(Self.cuts) cuts: \(payload) received, \(Int64(Self.bytes) * 105 / 100) allowed")
                #expect(payload < Int64(Self.bytes) * 105 / 100)
                let hash = FileHash()
                let file = try FileHandle(forReadingFrom: URL(fileURLWithPath: target))
                while let part = try file.read(upToCount: 1 << 20), !part.isEmpty { hash.update(Array(part)) }
                try file.close()
                #expect(hash.blobDigest == digest)
            }
        }
    }
}

extension Stand {
    /// Asks for the bytes of a file, as an app does.
    func get(_ digest: BlobDigest, wait: String?) async throws -> HTTPResponse {
        var request = HTTPRequest(
            .get, "http://localhost/v1/blobs/\(digest)/content" + (wait.map { "?wait=\($0)" } ?? ""), socketPath: socketPath,
            maxResponseBytes: 1 << 30)
        request.deadlines.firstByte = .seconds(300)
        request.deadlines.idle = .seconds(300)
        request.deadlines.total = nil
        return try await transport.send(request)
    }
}

extension Namespaces {
    /// Lets no more than that come into the field over a cable.
    func shapeDown(_ cable: Cable, megabits: Int) async throws {
        let tc = FileManager.default.isExecutableFile(atPath: "/usr/sbin/tc") ? "/usr/sbin/tc" : "/sbin/tc"
        let command =
            entering(.yard) + [
                tc, "qdisc", "replace", "dev", cable.far, "root", "tbf", "rate", "\(megabits)mbit", "burst", "64kb", "latency", "100ms",
            ]
        let output = try await Child.run(command, in: folder)
        guard output.status == 0 else { throw StandError("tc: \(output.talk)") }
    }

    /// The bytes that came into the field over a cable.
    func received(_ cable: Cable) async throws -> Counters {
        let text = try await ip("-s -j link show dev \(cable.name)")
        let down = try JSONReader.read(text).array?.first?.object?["stats64"]?.object?["rx"]?.object
        guard let bytes = down?["bytes"]?.int, let packets = down?["packets"]?.int else { throw StandError("no counters: \(text)") }
        return Counters(bytes: bytes, packets: packets)
    }
}
