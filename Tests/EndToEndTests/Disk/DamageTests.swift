import Foundation
import Glibc
import LocalAPI
import PowerCutKit
import SyncCore
import SyncLinux
import SyncStore
import Testing

extension EndToEnd {
    /// Flash that forgets and flips: whatever of the state folder is damaged, the agent comes up, and either all is right or it
    /// says what is not.
    @Suite("Damage")
    struct DamageTests {
        private static var environment: [String: String] { ProcessInfo.processInfo.environment }
        /// Damages of each file. DAMAGES makes more of it.
        private static let damages = environment["DAMAGES"].flatMap { Int($0) } ?? 6
        /// EDGE_SYNC_SEED repeats a run that failed.
        private static let seed = environment["EDGE_SYNC_SEED"].flatMap { UInt64($0) } ?? UInt64.random(in: 0 ... .max)

        static let files = [
            "agent.db", "agent.db-wal", "agent.db-shm", "identity.json", "acknowledged", "last-good.yaml", "trial.json", "proven.yaml",
        ]

        @Test("A damaged file of the state folder never stops the agent, and nothing is silently wrong", arguments: files)
        func damaged(_ file: String) async throws {
            let bench = try await DamageBench()
            defer { bench.remove() }
            var random = SeededRandom(seed: Self.seed)
            let damages = Damage.allCases.shuffled(using: &random)
            for number in 0..<Self.damages {
                let damage = damages[number % damages.count]
                let found = try await bench.fault(after: damage, of: file, using: &random)
                #expect(found == nil, "\(damage) of \(file), EDGE_SYNC_SEED=\(Self.seed), the \(number + 1)th")
            }
        }

        enum Damage: CaseIterable {
            case flippedBit, flippedBits, cut, emptied, zeroedPage, garbage, removed

            /// - Returns: `nil` for no file at all.
            func applied(to bytes: [UInt8], using random: inout SeededRandom) -> [UInt8]? {
                var bytes = bytes
                guard !bytes.isEmpty else { return self == .removed ? nil : [] }
                switch self {
                case .flippedBit, .flippedBits:
                    for _ in 0..<(self == .flippedBit ? 1 : 20) {
                        bytes[Int.random(in: bytes.indices, using: &random)] ^= 1 << UInt8.random(in: 0..<8, using: &random)
                    }
                case .cut: bytes.removeLast(Int.random(in: 1...bytes.count, using: &random))
                case .emptied: bytes = []
                case .zeroedPage:
                    let start = Int.random(in: bytes.indices, using: &random) / 4_096 * 4_096
                    for index in start..<min(bytes.count, start + 4_096) { bytes[index] = 0 }
                case .garbage: for index in bytes.indices { bytes[index] = UInt8.random(in: .min ... .max, using: &random) }
                case .removed: return nil
                }
                return bytes
            }
        }

        @Test("A file that changed on flash is never uploaded under its digest")
        func damagedBlob() async throws {
            try await Stand.with(entities: "      audits: { kind: record }") { stand in
                await stand.stopHub()
                let (path, digest) = try stand.file("rail.jpg", bytes: 400_000)
                let (other, otherDigest) = try stand.file("bolt.jpg", bytes: 300_000)
                let added = try await stand.agentctl("blobs", "add", path, "--json")
                let id = try #require(BlobItem(try JSONReader.read(added.text))?.id)
                let whole = try await stand.agentctl("blobs", "add", other, "--json")
                let wholeID = try #require(BlobItem(try JSONReader.read(whole.text))?.id)
                let kept = "\(stand.folder)/agent/blobs/\(digest.hex.prefix(2))/\(digest.hex)"
                let file = open(kept, O_RDWR | O_CLOEXEC)
                #expect(pwrite(file, [0xFF as UInt8, 0, 0xFF], 3, 200_000) == 3)
                close(file)
                try await stand.startHub()
                try await stand.untilUploaded([wholeID])
                // It comes to its end, and the end is not that it was uploaded.
                let watched = try await stand.agentctl("blobs", "show", id, "--watch")
                let item = try await stand.client.blob(try #require(BlobID(id))).value
                #expect(watched.status != 0 && item.state != "uploaded" && item.error != nil, "\(item)")
                #expect(try stand.hubBytes(digest) == nil)
                #expect(try stand.hubBytes(otherDigest)?.count == 300_000)
            }
        }

        @Test("A database that another process holds is waited for, with the door open")
        func locked() async throws {
            try await Stand.with { stand in
                await stand.setEnvironment(agent: ["AGENTD_STORE_RETRY_MS": "50"])
                let order = NewMutation(.create, EntityName(trusted: "work_orders"), RecordID(trusted: "wo-1"), data: ["n": 1])
                _ = try await stand.client.enqueue(order)
                await stand.stopAgent()
                let holder = try FileHolder("\(stand.folder)/agent/agent.db")
                try await stand.startAgent()
                #expect((try? await stand.client.health()) != nil)
                let second = NewMutation(.create, order.entity, RecordID(trusted: "wo-2"), data: ["n": 2])
                #expect((try? await stand.client.enqueue(second, key: "k-2")) == nil)
                holder.release()
                for _ in 0..<200_000 {
                    if (try? await stand.client.enqueue(second, key: "k-2")) != nil { break }
                }
                for number in 1...2 {
                    let record = try await stand.client.record(RecordName(order.entity, RecordID(trusted: "wo-\(number)"))).value
                    #expect(record.data == "{\"n\":\(number)}")
                }
            }
        }

        @Test("A database of another program is left as it is, and the agent says so")
        func foreign() async throws {
            try await Stand.with { stand in
                await stand.stopAgent()
                let path = "\(stand.folder)/agent/agent.db"
                var bytes = try #require(FileManager.default.contents(atPath: path))
                bytes.replaceSubrange(68..<72, with: Data([1, 2, 3, 4]))
                try bytes.write(to: URL(fileURLWithPath: path))
                try await stand.startAgent()
                let refused = try await stand.agentctl("enqueue", "work_orders", "wo-9", "--data", "{}")
                #expect(refused.status != 0 && refused.talk.contains("another program"), "\(refused.talk)")
                await stand.stopAgent()
                #expect(FileManager.default.contents(atPath: path) == bytes)
            }
        }
    }
}

/// Holds SQLite's lock of a whole database, as another process with the file open would.
private final class FileHolder {
    private let child: Process
    private let input = Pipe()

    /// - Returns: When it holds it.
    init(_ path: String) throws {
        child = Process()
        child.executableURL = URL(fileURLWithPath: "/usr/bin/env")
        // Pending byte and the rest of SQLite's range (os.h: 0x40000000 and 512 bytes), by a lock of the kernel.
        let script = """
            use Fcntl; open(F, "+<", $ARGV[0]) or die; my $l = pack("s s x4 q q l", F_WRLCK, 0, 0x40000000, 512, 0);
            fcntl(F, F_SETLK, $l) or die "lock"; $| = 1; print "held\\n"; <STDIN>;
            """
        child.arguments = ["perl", "-e", script, path]
        let output = Pipe()
        child.standardOutput = output
        child.standardInput = input
        try child.run()
        guard output.fileHandleForReading.availableData == Data("held\n".utf8) else { throw StandError("the lock was not taken") }
    }

    func release() {
        // Programs that were started since hold the other end of its input too, so it would not see the end of that.
        kill(child.processIdentifier, SIGKILL)
    }
}

/// A state folder in which an agent was killed while it worked, another in which it was ended, and what becomes of copies of them.
private final class DamageBench {
    private let folder: String
    private let transport: CurlTransport
    private let trial: AgentTrial
    private let promises: Promises
    private var count = 0

    init() async throws {
        folder = try Campaign.folder()
        transport = try CurlTransport(name: "damage", idleConnections: 2)
        trial = try AgentTrial(folder: folder, alarmsAllowed: Self.alarms)
        let base = "\(folder)/base"
        try FileManager.default.createDirectory(
            atPath: base + "/agent", withIntermediateDirectories: true, attributes: [.posixPermissions: NSNumber(value: 0o700)])
        var promises = Promises()
        // Two lives, so that there is something in the database and something in its log.
        for life in 0..<2 {
            let agent = try await LoneAgent.start(in: base, over: transport)
            for number in 1...20 {
                let data: JSONObject = ["r": .int(Int64(life * 100 + number)), "t": .string(CutLoad.text("r", life * 100 + number))]
                let reading = try await agent.client.enqueue(NewMutation(.create, EntityName(trusted: "readings"), nil, data: data)).value
                promises.mutations[reading.seq] = reading.id.text
                let id = "w\(life)-0"
                let change = NewMutation(
                    number == 1 ? .create : .update, EntityName(trusted: "work_orders"), RecordID(trusted: id),
                    data: ["n": .int(Int64(number)), "s\(number)": 1, "t": .string(CutLoad.text(id, number))], coalesces: false)
                let order = try await agent.client.enqueue(change).value
                promises.mutations[order.seq] = order.id.text
            }
            await agent.child.stop(life == 0 ? SIGTERM : SIGKILL)
        }
        self.promises = promises
        // After an end in good order, nothing is checked before a query reads it.
        try FileManager.default.createDirectory(atPath: "\(folder)/ended", withIntermediateDirectories: true)
        try FileManager.default.copyItem(atPath: base + "/agent", toPath: "\(folder)/ended/agent")
        let ended = try await LoneAgent.start(in: "\(folder)/ended", over: transport)
        await ended.child.stop()
    }

    /// The alarms that it may raise then.
    static let alarms: Set<String> = ["recovered_from_corruption", "lost_tail", "identity_damaged"]

    func remove() {
        transport.close()
        try? FileManager.default.removeItem(atPath: folder)
    }

    func fault(
        after damage: EndToEnd.DamageTests.Damage, of file: String, using random: inout SeededRandom
    ) async throws -> String? {
        count += 1
        let place = "\(folder)/d\(count)"
        defer { try? FileManager.default.removeItem(atPath: place) }
        try FileManager.default.createDirectory(atPath: place, withIntermediateDirectories: true)
        try FileManager.default.copyItem(atPath: "\(folder)/\(count % 2 == 0 ? "base" : "ended")/agent", toPath: "\(place)/agent")
        let path = "\(place)/agent/\(file)"
        let bytes = FileManager.default.contents(atPath: path).map { Array($0) } ?? []
        unlink(path)
        if let damaged = damage.applied(to: bytes, using: &random) {
            guard
                FileManager.default.createFile(
                    atPath: path, contents: Data(damaged), attributes: [.posixPermissions: NSNumber(value: 0o600)])
            else { throw StandError("cannot write \(path)") }
        }
        return try await trial.fault(in: place, promises, mayLose: true)
    }
}
