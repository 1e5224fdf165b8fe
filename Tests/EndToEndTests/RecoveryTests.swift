import Foundation
import LocalAPI
import SyncCore
import SyncStore
import Testing

extension EndToEnd {
    /// Databases that are damaged, old, or of another version, under the built programs.
    @Suite("Recovery")
    struct RecoveryTests {
        private static let orders = EntityName(trusted: "work_orders")

        private func create(_ range: ClosedRange<Int>, at stand: Stand) async throws {
            for number in range {
                let order = NewMutation(.create, Self.orders, RecordID(trusted: "wo-\(number)"), data: ["n": .int(Int64(number))])
                #expect(try await stand.client.enqueue(order, key: "k-\(number)").status == 201)
            }
        }

        private func alarms(_ stand: Stand) async throws -> [String] {
            try await stand.client.status().value.alarms.map(\.code)
        }

        enum Damage: String, CaseIterable {
            case header, cut, garbage, overwritten
        }

        @Test("A damaged database is put aside, what it held is salvaged, and everything takes effect once", arguments: Damage.allCases)
        func damaged(_ damage: Damage) async throws {
            try await Stand.with { stand in
                try await create(1...20, at: stand)
                _ = try await stand.settle()
                await stand.stopHub()
                try await create(21...60, at: stand)
                await stand.stopAgent()
                let path = "\(stand.folder)/agent/agent.db"
                var bytes = try #require(FileManager.default.contents(atPath: path))
                switch damage {
                case .header: bytes.replaceSubrange(0..<100, with: Data(count: 100))
                case .cut: bytes = bytes.prefix(bytes.count / 2)
                case .garbage: bytes = Data((0..<30_000).map { UInt8(truncatingIfNeeded: $0 &* 31) })
                case .overwritten: bytes.replaceSubrange(4_096..<12_288, with: Data(repeating: 0xA5, count: 8_192))
                }
                try bytes.write(to: URL(fileURLWithPath: path))
                // Only a file that SQLite was not done with is looked at before the first answer.
                if damage == .overwritten { try Self.markUnclean(path) }
                try await stand.startAgent()
                #expect(try await alarms(stand) == ["recovered_from_corruption"])
                let shown = try await stand.agentctl("status")
                #expect(shown.status == 3 && shown.text.contains("recovered_from_corruption"), "\(shown.text)")
                let kept = try FileManager.default.contentsOfDirectory(atPath: "\(stand.folder)/agent/quarantine")
                #expect(kept.count == 1)

                try await stand.startHub()
                let status = try await stand.settle()
                #expect(status.outbox.isBalanced)
                let records = try await stand.hubRecords("work_orders").map(\.id)
                #expect(Set(records).count == records.count)
                #expect(try await stand.hubApplied() == Int64(records.count), "nothing took effect twice")
                if damage == .header { #expect(records.count == 60, "nothing was in the part that is lost") }
                // It goes on as ever, and what the hub had is here again.
                let order = NewMutation(.create, Self.orders, RecordID(trusted: "wo-61"), data: ["n": 61])
                #expect(try await stand.client.enqueue(order, wait: .seconds(60)).value.state == "done")
                let first = try await stand.client.record(RecordName(Self.orders, RecordID(trusted: "wo-1"))).value
                #expect(first.status == "synced")
            }
        }

        /// A page that is wrong is noticed at the start only after a crash; the mark of a good end is in the table `meta`.
        private static func markUnclean(_ path: String) throws {
            var bytes = try #require(FileManager.default.contents(atPath: path))
            // The row: key "clean", value "1".
            while let found = bytes.range(of: Data("clean1".utf8)) { bytes[found.upperBound - 1] = UInt8(ascii: "0") }
            try bytes.write(to: URL(fileURLWithPath: path))
        }

        @Test("A log that lost its end is noticed by what stands beside the database")
        func lostTail() async throws {
            try await Stand.with { stand in
                await stand.stopHub()
                try await create(1...30, at: stand)
                await stand.killAgent()
                let log = "\(stand.folder)/agent/agent.db-wal"
                let bytes = try #require(FileManager.default.contents(atPath: log))
                try bytes.prefix(bytes.count * 2 / 3).write(to: URL(fileURLWithPath: log))
                try await stand.startAgent()
                #expect(try await alarms(stand) == ["lost_tail"])
                try await stand.startHub()
                _ = try await stand.settle()
                let records = try await stand.hubRecords("work_orders").count
                #expect(records > 0 && records < 30)
                #expect(try await stand.hubApplied() == Int64(records))
            }
        }

        @Test("A database of a newer agent is shown and left alone: reads and status work, nothing is taken or sent")
        func newer() async throws {
            try await Stand.with { stand in
                try await create(1...3, at: stand)
                _ = try await stand.settle()
                await stand.stopAgent()
                let path = "\(stand.folder)/agent/agent.db"
                // A newer agent would also write the seals of its pages.
                _ = try Database.open(path: path).pragma("user_version = 99")
                let bytes = try #require(FileManager.default.contents(atPath: path))
                try await stand.startAgent()
                #expect(try await alarms(stand) == ["newer_schema"])
                let record = try await stand.client.record(RecordName(Self.orders, RecordID(trusted: "wo-2"))).value
                #expect(record.data == #"{"n":2}"#)
                let refused = try await stand.agentctl("enqueue", "work_orders", "wo-9", "--data", "{}")
                #expect(refused.status != 0 && refused.talk.contains("newer agentd"), "\(refused.talk)")
                #expect(try await stand.agentctl("sync").status != 0)
                await stand.stopAgent()
                #expect(FileManager.default.contents(atPath: path) == bytes)
            }
        }

        @Test("A hub that was put back from a backup gets again what it had forgotten, once")
        func hubRestored() async throws {
            try await Stand.with { stand in
                try await create(1...5, at: stand)
                _ = try await stand.settle()
                await stand.stopHub()
                let hub = "\(stand.folder)/hub/hub.db"
                let backup = try #require(FileManager.default.contents(atPath: hub))
                try await stand.startHub()
                try await create(6...12, at: stand)
                _ = try await stand.settle()
                #expect(try await stand.hubApplied() == 12)
                await stand.stopHub()
                for ending in ["-wal", "-shm"] { try? FileManager.default.removeItem(atPath: hub + ending) }
                try backup.write(to: URL(fileURLWithPath: hub))
                // It finds out by itself that it is older than it was; the other way is `serve --new-epoch`.
                try await stand.startHub()
                try await create(13...14, at: stand)
                for _ in 0..<3 { _ = try await stand.settle() }
                let records = try await stand.hubRecords("work_orders").map(\.id)
                #expect(Set(records) == Set((1...14).map { "wo-\($0)" }))
                #expect(try await stand.hubApplied() == 14)
                let status = try await stand.client.status().value
                #expect(status.sync.isCaughtUp && status.outbox.isBalanced)
                #expect(try await stand.agentctl("get", "work_orders", "--json").status == 0)
            }
        }

        @Test("A state folder that was put back from an old copy neither loses nor repeats anything")
        func agentRestored() async throws {
            try await Stand.with { stand in
                try await create(1...4, at: stand)
                await stand.stopHub()
                try await create(5...8, at: stand)
                await stand.stopAgent()
                let files = FileManager.default
                try files.copyItem(atPath: "\(stand.folder)/agent", toPath: "\(stand.folder)/image")
                try await stand.startHub()
                try await stand.startAgent()
                try await create(9...12, at: stand)
                let before = try await stand.settle()
                await stand.stopAgent()
                try files.removeItem(atPath: "\(stand.folder)/agent")
                try files.copyItem(atPath: "\(stand.folder)/image", toPath: "\(stand.folder)/agent")
                try await stand.startAgent()
                let after = try await stand.settle()
                #expect(after.agent.replica != before.agent.replica)
                try await create(13...14, at: stand)
                _ = try await stand.settle()
                #expect(try await stand.hubApplied() == 14)
                #expect(try await stand.hubRecords("work_orders").count == 14)
                // The changes that the old copy did not know have come back from the hub.
                let name = RecordName(Self.orders, RecordID(trusted: "wo-11"))
                #expect(try await stand.client.record(name).value.status == "synced")
            }
        }
    }
}
