import Foundation
import Glibc
import LocalAPI
import ProcessStand
import SyncCore
import SyncLinux
import Testing

extension EndToEnd {
    /// Uploads over links that are slow, cut, dear or on a battery that runs out.
    @Suite("Blobs over links", .disabled(if: Namespaces.shapingObstacle != nil, Comment(rawValue: Namespaces.shapingObstacle ?? "")))
    struct BlobLinkTests {
        private static let wan = Namespaces.Cable.wan, modem = Namespaces.Cable.modem
        private static let isLong = ProcessInfo.processInfo.environment["EDGE_SYNC_LONG"] != nil

        /// EDGE_SYNC_LONG: 200 MB and 20 cuts, about eleven minutes.
        private static let bytes = isLong ? 200_000_000 : 20_000_000
        private static let cuts = isLong ? 20 : 4

        @Test("Over a link of 2 MB/s that is cut again and again a file arrives whole, and less than 5 % of it is sent twice")
        func cut() async throws {
            try await FieldStand.with([Self.wan]) { stand in
                let (path, digest) = try stand.file("large.bin", bytes: Self.bytes)
                try await stand.network.shape(Self.wan, megabits: 16)
                let before = try await stand.network.sent(Self.wan), twice = try await stand.network.payloadTwice(into: .yard)
                let id = try await stand.addFile(path)
                for number in 1...Self.cuts {
                    try await stand.until(id, has: Int64(Self.bytes) * Int64(number) / Int64(Self.cuts + 1))
                    try await stand.network.pull(Self.wan)
                    try await stand.until("offline") { $0.connectivity.state == "offline" }
                    try await stand.network.plug(Self.wan)
                }
                try await stand.untilUploaded(id)
                let sent = try await stand.network.sent(Self.wan) - before
                // Ethernet, IP and TCP with its time stamps around each packet.
                let payload = try await sent.bytes - 66 * sent.packets - (stand.network.payloadTwice(into: .yard) - twice)
                print("blobs: \(Self.bytes) bytes, \(Self.cuts) cuts: \(payload) sent, \(Int64(Self.bytes) * 105 / 100) allowed")
                #expect(payload < Int64(Self.bytes) * 105 / 100)
                #expect(try stand.hubDigest(digest) == digest)
            }
        }

        @Test("A metered link, and then a low battery, stop an upload within one piece; it goes on where it stopped")
        func rules() async throws {
            try await FieldStand.with([Self.wan, Self.modem]) { stand in
                let (path, digest) = try stand.file("large.bin", bytes: 30_000_000)
                try await stand.network.shape(Self.wan, megabits: 16)
                let id = try await stand.addFile(path)
                try await stand.until(id, has: 4_000_000)
                let modem = try await stand.network.sent(Self.modem)
                try await stand.network.route(over: Self.modem)
                try await stand.until("the modem as uplink") { $0.connectivity.uplink == Self.modem.name && $0.blobs?.uploading == 0 }
                #expect(try await stand.ask("why", id).object?["reason"]?.text == "metered")
                let status = try await stand.status()
                #expect(status.blobs?.reason == "metered")
                let stopped = try await stand.blob(id).offset
                // At most one piece: it began after the kernel's event about the new route and before the agent had read that event.
                #expect(try await stand.network.sent(Self.modem).bytes - modem.bytes < Int64(ChunkSizer.largest))

                try await stand.network.route(over: Self.wan)
                try await stand.until(id, has: max(stopped, 4_000_000) + 2_000_000)
                try await stand.power(charge: 10, isPlugged: false)
                try await stand.until("nothing on its way") { $0.blobs?.uploading == 0 && $0.blobs?.reason == "low_battery" }
                let resting = try await stand.blob(id)
                #expect(resting.state == "pending" && resting.offset < 30_000_000)
                let wan = try await stand.network.sent(Self.wan), twice = try await stand.network.payloadTwice(into: .yard)
                try await stand.power(charge: 10, isPlugged: true)
                try await stand.untilUploaded(id)
                let rest = try await stand.network.sent(Self.wan) - wan
                let payload = try await rest.bytes - 66 * rest.packets - (stand.network.payloadTwice(into: .yard) - twice)
                #expect(payload < (30_000_000 - resting.offset) * 105 / 100 + 100_000)
                #expect(try stand.hubDigest(digest) == digest)
            }
        }
    }
}

extension FieldStand {
    nonisolated func file(_ name: String, bytes: Int) throws -> (path: String, digest: BlobDigest) {
        var random = SeededGenerator(seed: UInt64(bytes))
        let hash = FileHash()
        let path = "\(folder)/\(name)"
        guard FileManager.default.createFile(atPath: path, contents: nil), let file = FileHandle(forWritingAtPath: path) else {
            throw StandError("cannot write \(path)")
        }
        var left = bytes
        while left > 0 {
            let piece = random.bytes(min(left, 1 << 20))
            hash.update(piece)
            try file.write(contentsOf: Data(piece))
            left -= piece.count
        }
        try file.close()
        return (path, hash.blobDigest)
    }

    func addFile(_ path: String) async throws -> String {
        guard let item = BlobItem(try await ask("blobs", "add", path)) else { throw StandError("no blob was made of \(path)") }
        return item.id
    }

    nonisolated func blob(_ id: String) async throws -> BlobItem {
        guard let name = BlobID(id) else { throw StandError("\(id) is no id of a file") }
        return try await client.blob(name).value
    }

    /// Asks until the hub has that much of it.
    func until(_ id: String, has offset: Int64) async throws {
        let end = ContinuousClock.now + .seconds(1_200)
        while try await blob(id).offset < offset {
            guard ContinuousClock.now < end else { throw StandError("\(id) does not get on: \(try await blob(id))") }
            await Pause.long()
        }
    }

    func untilUploaded(_ id: String) async throws {
        let watched = try await agentctl("blobs", "show", id, "--watch")
        guard watched.status == 0 else { throw StandError("\(id) was not uploaded: \(watched.text) \(watched.talk)") }
    }

    nonisolated func hubDigest(_ digest: BlobDigest) throws -> BlobDigest {
        let reader = try BlobFiles("\(folder)/hub/blobs").read(digest)
        let hash = FileHash()
        var offset: Int64 = 0
        while offset < reader.size {
            let bytes = try reader.read(at: offset, count: 1 << 20)
            hash.update(bytes)
            offset += Int64(bytes.count)
        }
        return hash.blobDigest
    }
}

extension Namespaces {
    /// The obstacle to slow links on this machine, in a word.
    static let shapingObstacle: String? = {
        if let obstacle { return obstacle }
        let places: [String] = ["/usr/sbin/tc", "/sbin/tc"]
        guard let tc = places.first(where: { access($0, X_OK) == 0 }) else { return "tc is missing" }
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/usr/bin/unshare")
        process.arguments = [
            "-Urn", tc, "qdisc", "add", "dev", "lo", "root", "tbf", "rate", "1mbit", "burst", "32kbit", "latency", "400ms",
        ]
        process.standardOutput = FileHandle.nullDevice
        process.standardError = FileHandle.nullDevice
        guard (try? process.run()) != nil else { return "tc does not run" }
        process.waitUntilExit()
        return process.terminationStatus == 0 ? nil : "the kernel has no tbf for this user"
    }()

    /// Lets no more than that leave the field over a cable.
    func shape(_ cable: Cable, megabits: Int) async throws {
        let tc = access("/usr/sbin/tc", X_OK) == 0 ? "/usr/sbin/tc" : "/sbin/tc"
        let command =
            entering(.field) + [
                tc, "qdisc", "replace", "dev", cable.name, "root", "tbf", "rate", "\(megabits)mbit", "burst", "64kb", "latency", "100ms",
            ]
        let output = try await Child.run(command, in: folder)
        guard output.status == 0 else { throw StandError("tc: \(output.talk)") }
    }

    /// The bytes that left the field over a cable.
    func sent(_ cable: Cable) async throws -> Counters {
        let text = try await ip("-s -j link show dev \(cable.name)")
        let up = try JSONReader.read(text).array?.first?.object?["stats64"]?.object?["tx"]?.object
        guard let bytes = up?["bytes"]?.int, let packets = up?["packets"]?.int else { throw StandError("no counters: \(text)") }
        return Counters(bytes: bytes, packets: packets)
    }
}
