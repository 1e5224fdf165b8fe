import Foundation
import LocalAPI
import SyncCore
import Testing

extension EndToEnd {
    /// Older copies of a hub that are put in its place without a word, by the built programs. The mark beside the database may
    /// tell, or what devices show; which of the two it is does not matter here.
    @Suite("A hub that is an older copy of itself")
    struct HubHistoryTests {
        private static let orders = EntityName(trusted: "work_orders")

        private func create(_ ids: [String], with client: AgentClient) async throws {
            for id in ids {
                let order = NewMutation(.create, Self.orders, RecordID(trusted: id), data: ["by": .string(id)])
                #expect(try await client.enqueue(order, key: id).status == 201)
            }
        }

        enum Replacement: String, CaseIterable, Sendable {
            /// `hub.db` alone: the mark of the newer one stands beside it.
            case file
            /// Everything, as an image of the machine.
            case folder
        }

        @Test(
            "The hub is killed under traffic and replaced by an older copy, and later by a still older one: what was acknowledged is there once",
            arguments: Replacement.allCases)
        func replaced(_ replacement: Replacement) async throws {
            try await Stand.with { stand in
                let other = try await Neighbour("other", on: stand)
                do {
                    let files = FileManager.default
                    let data = "\(stand.folder)/hub"
                    func rounds() async throws {
                        for _ in 0..<3 {
                            _ = try await stand.settle()
                            // The neighbour may meet the change of history in the middle of a cycle; the next one goes on.
                            try? await other.sync()
                        }
                        try await other.sync()
                    }
                    func copyHub(to name: String) async throws {
                        await stand.stopHub()
                        try files.copyItem(atPath: data, toPath: "\(stand.folder)/\(name)")
                        try await stand.startHub()
                    }
                    func putBack(_ name: String) async throws {
                        await stand.killHub()
                        if replacement == .folder {
                            try files.removeItem(atPath: data)
                            try files.copyItem(atPath: "\(stand.folder)/\(name)", toPath: data)
                        } else {
                            for ending in ["", "-wal", "-shm"] where files.fileExists(atPath: "\(data)/hub.db\(ending)") {
                                try files.removeItem(atPath: "\(data)/hub.db\(ending)")
                            }
                            try files.copyItem(atPath: "\(stand.folder)/\(name)/hub.db", toPath: "\(data)/hub.db")
                        }
                        try await stand.startHub()
                    }

                    try await create((1...3).map { "one-\($0)" }, with: stand.client)
                    try await create((1...3).map { "two-\($0)" }, with: other.client)
                    try await rounds()
                    try await copyHub(to: "oldest")
                    try await create((4...6).map { "one-\($0)" }, with: stand.client)
                    try await create((4...6).map { "two-\($0)" }, with: other.client)
                    try await rounds()
                    try await copyHub(to: "older")
                    // Acknowledged, and the hub dies at once.
                    try await create((7...9).map { "one-\($0)" }, with: stand.client)
                    _ = try await stand.settle()
                    try await create((7...9).map { "two-\($0)" }, with: other.client)
                    try await other.sync()
                    let epoch = try await stand.hubStats().object?["epoch"]?.text
                    try await putBack("older")
                    // The commit numbers that were lost are given out again before the other device has a chance to tell.
                    try await create((10...15).map { "one-\($0)" }, with: stand.client)
                    try await rounds()
                    let second = try await stand.hubStats().object
                    #expect(second?["epoch"]?.text != epoch)
                    #expect(second?["history"]?.object?["restarts"]?.int ?? 0 >= 1)
                    try await putBack("oldest")
                    try await create(["one-16"], with: stand.client)
                    try await rounds()

                    let all = Set((1...16).map { "one-\($0)" } + (1...9).map { "two-\($0)" })
                    let records = try await stand.hubRecords("work_orders").map(\.id)
                    #expect(Set(records) == all && records.count == all.count)
                    #expect(try await stand.hubApplied() == Int64(all.count), "each took effect once")
                    for client in [stand.client, other.client] {
                        for id in all {
                            #expect(
                                try await client.record(RecordName(Self.orders, RecordID(trusted: id))).value.status == "synced", "\(id)")
                        }
                        #expect(try await client.status().value.outbox.isBalanced)
                    }
                } catch {
                    await other.stop()
                    throw error
                }
                await other.stop()
            }
        }

        @Test(
            "A dump of the server's database is put back while all replicas are stopped, without --new-epoch: the device proves it, and nothing is lost",
            .enabled(if: ReplicaYard.obstacle == nil, "PostgreSQL or HAProxy is not installed here"))
        func dumped() async throws {
            try await Stand.with(agent: false) { stand in
                try await ReplicaYard.with(stand) { yard in
                    func write(_ numbers: ClosedRange<Int>) async throws {
                        for number in numbers {
                            let reading = NewMutation(.create, EntityName(trusted: "readings"), nil, data: ["n": .int(Int64(number))])
                            #expect(try await stand.client.enqueue(reading).status == 201)
                            try await create(["one-\(number)"], with: stand.client)
                        }
                        _ = try await stand.settle()
                    }
                    try await write(1...10)
                    let dump = try yard.dump()
                    try await write(11...20)
                    try await yard.putBack(dump)
                    try await write(21...23)
                    for _ in 0..<2 { _ = try await stand.settle() }
                    let numbers = try await yard.command(["export", "readings"]).split(separator: "\n").map { line in
                        try JSONReader.read(String(line)).object?["data"]?.object?["n"]?.int ?? -1
                    }
                    #expect(numbers.sorted() == (1...23).map { $0 })
                    #expect(try await yard.command(["export", "work_orders"]).split(separator: "\n").count == 23)
                    let stats = try JSONReader.read(try await yard.command(["stats", "--json"])).object
                    #expect(stats?["mutations"]?.object?["applied"]?.int == 46)
                    #expect(stats?["history"]?.object?["restarts"] == 1, "two replicas, one new history")
                }
            }
        }
    }
}
