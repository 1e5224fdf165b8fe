import Foundation
import Glibc
import LocalAPI
import SyncCore
import Testing

extension EndToEnd {
    /// Files of the state folder are removed while the agent is running.
    @Suite("A state folder that is tidied up")
    struct StateFolderTests {
        private static let orders = EntityName(trusted: "work_orders")

        private func create(_ numbers: ClosedRange<Int>, at stand: Stand) async throws {
            for number in numbers {
                let order = NewMutation(.create, Self.orders, RecordID(trusted: "wo-\(number)"), data: ["n": .int(Int64(number))])
                _ = try await stand.client.enqueue(order, key: "k-\(number)")
            }
        }

        private func alarms(_ stand: Stand) async throws -> [String: String] {
            let alarms = try await stand.client.status().value.alarms
            return Dictionary(alarms.map { ($0.code, $0.detail) }, uniquingKeysWith: { first, _ in first })
        }

        @Test("Everything in it is removed: what was acknowledged before and after is there when the agent was killed and starts again")
        func emptied() async throws {
            try await Stand.with { stand in
                await stand.stopHub()
                try await create(1...30, at: stand)
                let folder = "\(stand.folder)/agent"
                for name in try FileManager.default.contentsOfDirectory(atPath: folder) {
                    try FileManager.default.removeItem(atPath: "\(folder)/\(name)")
                }
                try await create(31...40, at: stand)
                let alarm = try #require(try await alarms(stand)["database_removed"])
                #expect(alarm.contains("nothing is lost"), "\(alarm)")
                #expect(try await stand.client.status().value.outbox.open == 40)
                let (photo, _) = try stand.file("photo.jpg", bytes: 30_000)
                let added = try await stand.agentctl("blobs", "add", photo)
                #expect(added.status == 0, "\(added.talk)")
                // A second agent cannot start with the same folder.
                let second = try Child([Programs.agentd, "--config", "\(stand.folder)/agentd.yaml"], log: "\(stand.folder)/second.log")
                #expect(await second.end() == 2)
                await stand.killAgent()
                try await stand.startAgent()
                #expect(try await stand.client.status().value.outbox.open == 40)
                #expect(try await alarms(stand).isEmpty)
                try await stand.startHub()
                #expect(try await stand.settle().outbox.count(.done) == 40)
                #expect(try await stand.hubApplied() == 40)
            }
        }

        @Test(
            "The folder is moved away: work is refused with words, nothing is answered that could get lost, and all goes on when it is back"
        )
        func moved() async throws {
            try await Stand.with(agent: false) { stand in
                await stand.setEnvironment(agent: ["AGENTD_STORE_RETRY_MS": "50"])
                try await stand.startAgent()
                await stand.stopHub()
                try await create(1...30, at: stand)
                let (folder, away) = ("\(stand.folder)/agent", "\(stand.folder)/away")
                try FileManager.default.moveItem(atPath: folder, toPath: away)
                var taken = 30
                for number in 31...33 {
                    let answer = try await stand.agentctl("enqueue", "work_orders", "wo-\(number)", "--data", "{}", "--key", "k-\(number)")
                    // Refused before it was stored: there is no doubt.
                    #expect(answer.status != 0 && answer.talk.contains("moved or removed"), "\(answer.talk)")
                }
                let alarm = try #require(try await alarms(stand)["database_removed"])
                #expect(alarm.contains("no change is accepted until it is back"), "\(alarm)")
                #expect(try await stand.client.record(RecordName(Self.orders, RecordID(trusted: "wo-1"))).status == 200)
                try FileManager.default.moveItem(atPath: away, toPath: folder)
                // Repeated under their keys; whether the first was stored was in doubt.
                for number in 31...33 {
                    while try await stand.agentctl("enqueue", "work_orders", "wo-\(number)", "--data", "{}", "--key", "k-\(number)").status
                        != 0
                    {}
                    taken += 1
                }
                #expect(try await alarms(stand)["database_removed"] == nil)
                try await stand.startHub()
                #expect(try await stand.settle().outbox.count(.done) == Int64(taken))
                #expect(try await stand.hubApplied() == Int64(taken))
            }
        }

        @Test("No place for files at the start: it is told, a file is refused with the reason, and taken when there is one")
        func files() async throws {
            try await Stand.with(agent: false) { stand in
                await stand.setEnvironment(agent: ["AGENTD_STORE_RETRY_MS": "50"])
                let place = "\(stand.folder)/agent/blobs"
                try FileManager.default.createDirectory(
                    atPath: "\(stand.folder)/agent", withIntermediateDirectories: true, attributes: [.posixPermissions: 0o700])
                try Data("not a folder".utf8).write(to: URL(fileURLWithPath: place))
                try await stand.startAgent()
                let (path, _) = try stand.file("photo.jpg", bytes: 30_000)
                let refused = try await stand.agentctl("blobs", "add", path)
                #expect(refused.status != 0 && refused.talk.contains("it is no folder"), "\(refused.talk)")
                #expect(try await alarms(stand)["no_files"]?.contains("it is no folder") == true)
                try FileManager.default.removeItem(atPath: place)
                while try await stand.agentctl("blobs", "add", path).status != 0 {}
                #expect(try await alarms(stand).isEmpty)
            }
        }
    }
}
