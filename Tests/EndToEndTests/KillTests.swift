import Foundation
import Glibc
import LocalAPI
import SyncCore
import Testing

extension EndToEnd {
    @Suite("Kill")
    struct KillTests {
        /// Kills and restarts, about half a second each. EDGE_SYNC_LONG makes ten minutes of it.
        private static let rounds = environment["EDGE_SYNC_LONG"] == nil ? 30 : 1_000

        /// EDGE_SYNC_SEED repeats the choices of a run that failed; the moments within a millisecond are the machine's.
        private static let seed = environment["EDGE_SYNC_SEED"].flatMap { UInt64($0) } ?? UInt64.random(in: 0 ... .max)

        private static var environment: [String: String] { ProcessInfo.processInfo.environment }

        /// The device's value of `n` stands as it arrives: had two changes of a record changed places, the last one to
        /// arrive would leave its number.
        private static let entities = """
              readings: { kind: event }
              work_orders: { kind: record, fields: { n: client } }
            """

        @Test("Agent and hub are killed under load: all that was acknowledged takes effect once, in order per record")
        func killed() async throws {
            let seed = KillTests.seed
            print("kill test: EDGE_SYNC_SEED=\(seed)")
            try await Stand.with(entities: KillTests.entities) { stand in
                let load = Workload(stand, recordsOfWriter: 12)
                let observer = try await PlainPeer("observer", on: stand)
                try await withThrowingTaskGroup(of: Void.self) { group in
                    for writer in 0..<3 { group.addTask { try await load.writeRecords(writer: writer) } }
                    group.addTask { try await load.writeReadings() }
                    do {
                        try await kill(stand, under: load, observer, seed: seed)
                        load.end()
                        try await group.waitForAll()
                    } catch {
                        // The writers may wait for an agent that does not come back.
                        load.end()
                        group.cancelAll()
                        await stand.wakeWaiting()
                        throw error
                    }
                }
                print("kill test: \(load.count) mutations acknowledged in \(KillTests.rounds) rounds")
                try await checkCounts(stand, load, "seed \(seed)")
                try await checkContent(stand, load.told, "seed \(seed)")
            }
        }

        /// Kills one of the two or both, again and again, each time after some more work was acknowledged.
        private func kill(_ stand: Stand, under load: Workload, _ observer: PlainPeer, seed: UInt64) async throws {
            var random = SeededGenerator(seed: seed)
            var seen: [String: Int64] = [:]
            for round in 1...KillTests.rounds {
                await load.advance(by: Int.random(in: 10...120, using: &random))
                Moment.pass(milliseconds: Int32.random(in: 0...15, using: &random))
                let killsAgent = Int.random(in: 0..<5, using: &random) != 0
                let killsHub = !killsAgent || Bool.random(using: &random)
                if killsAgent { await stand.killAgent() }
                if killsHub { await stand.killHub() }
                // Sometimes the agent comes back to a hub that is not there yet.
                let agentFirst = Bool.random(using: &random)
                if killsAgent, agentFirst { try await stand.startAgent() }
                if killsHub { try await stand.startHub() }
                if killsAgent, !agentFirst { try await stand.startAgent() }
                for change in try await observer.pull(["work_orders"], from: await stand.hubURL) {
                    check(change, &seen, "round \(round), seed \(seed)")
                }
            }
        }

        /// Checks a shown record. It holds the first changes of the record, each once and none skipped, and never fewer than before: with
        /// `n` at 3 it has `s1`, `s2` and `s3`, and no other.
        private func check(_ change: PlainPeer.Change, _ seen: inout [String: Int64], _ context: String) {
            let number = change.data["n"]?.int ?? 0
            #expect(steps(of: change.data) == Array(1...max(1, Int(number))), "\(change.id), \(context)")
            #expect(number >= seen[change.id] ?? 0, "\(change.id) went back, \(context)")
            seen[change.id] = number
        }

        private func checkCounts(_ stand: Stand, _ load: Workload, _ context: String) async throws {
            let status = try await stand.settle()
            #expect(status.outbox.isBalanced, "\(context)")
            #expect(status.outbox.enqueued == load.count, "\(context)")
            #expect(status.outbox.count(.done) == load.count, "\(context)")
            #expect(try await stand.hubApplied() == load.count, "\(context)")
        }

        private func checkContent(_ stand: Stand, _ told: Workload.Told, _ context: String) async throws {
            let readings = try await stand.hubRecords("readings").compactMap { $0.data["name"]?.text }
            #expect(readings.sorted() == told.readings.sorted(), "\(context)")

            let records = try await stand.hubRecords("work_orders")
            #expect(Set(records.map(\.id)) == Set(told.records.keys), "\(context)")
            for (id, data) in records {
                let count = told.records[id] ?? 0
                #expect(data["n"]?.int == Int64(count), "\(id), \(context)")
                #expect(steps(of: data) == Array(1...max(1, count)), "\(id), \(context)")
                let name = RecordName(EntityName(trusted: "work_orders"), RecordID(trusted: id))
                let mirrored = try await stand.client.record(name).value
                #expect(mirrored.status == "synced", "\(id), \(context)")
                #expect(try JSONReader.read(mirrored.data ?? "null") == .object(data), "\(id), \(context)")
            }
        }

        private func steps(of data: JSONObject) -> [Int] {
            data.names.filter { $0 != "n" }.compactMap { Int($0.dropFirst()) }.sorted()
        }
    }
}

/// splitmix64.
struct SeededGenerator: RandomNumberGenerator {
    private var state: UInt64

    init(seed: UInt64) {
        state = seed
    }

    mutating func next() -> UInt64 {
        state &+= 0x9e37_79b9_7f4a_7c15
        var mixed = state
        mixed = (mixed ^ (mixed >> 30)) &* 0xbf58_476d_1ce4_e5b9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94d0_49bb_1331_11eb
        return mixed ^ (mixed >> 31)
    }

    /// Whole words are put down, and copied once: tests are not optimised, and an append for each number took ten seconds of a large file.
    mutating func bytes(_ count: Int) -> [UInt8] {
        var words: [UInt64] = []
        words.reserveCapacity(count / 8 + 1)
        while words.count * 8 < count { words.append(next()) }
        return words.withUnsafeBytes { Array(UnsafeRawBufferPointer(rebasing: $0.prefix(count))) }
    }
}

/// Shifts a fault within the work that goes on around it. Never used to wait for anything.
enum Moment {
    static func pass(milliseconds: Int32) {
        _ = poll(nil, 0, milliseconds)
    }
}
