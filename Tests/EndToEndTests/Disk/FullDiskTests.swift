import Foundation
import Glibc
import LocalAPI
import SyncCore
import SyncLinux
import Testing

extension EndToEnd {
    /// A real file system that is full, of bytes or of inodes, or that became read-only, under the running programs.
    @Suite("Full disk", .enabled(if: SmallDisk.obstacle == nil, "needs to mount: \(SmallDisk.obstacle ?? "")"))
    struct FullDiskTests {
        private static let orders = EntityName(trusted: "work_orders")
        /// Settings that leave room for a ballast on a small disk.
        private static let settings = "min_free: 6MB, ballast: 1MB"

        private func order(_ number: Int) -> NewMutation {
            NewMutation(.create, Self.orders, RecordID(trusted: "wo-\(number)"), data: ["n": .int(Int64(number))])
        }

        private func create(_ range: ClosedRange<Int>, at stand: Stand) async throws {
            for number in range { #expect(try await stand.client.enqueue(order(number), key: "k-\(number)").status == 201) }
        }

        /// The code of the refusal; `nil` when it was taken.
        private func refusal(_ number: Int, at stand: Stand) async throws -> String? {
            do throws(AgentError) {
                _ = try await stand.client.enqueue(order(number), key: "k-\(number)")
                return nil
            } catch {
                guard error.code == .refused else { throw error }
                return error.problem.code
            }
        }

        /// Asks until it is taken: the agent looks at its disk once in a second, and after a failure every so often.
        private func untilTaken(_ number: Int, at stand: Stand) async throws {
            for _ in 0..<200_000 {
                if try await refusal(number, at: stand) == nil { return }
            }
            Issue.record("room has come back, and nothing is taken")
        }

        /// Enqueues until it is refused for want of room: pages of the log that are there already may take some more.
        ///
        /// - Returns: The number of the last one that was taken.
        private func untilFull(after number: Int, at stand: Stand) async throws -> Int {
            for last in number..<number + 100_000 {
                guard let code = try await refusal(last + 1, at: stand) else { continue }
                #expect(code == "disk-full")
                return last
            }
            Issue.record("there is no room, and everything is taken")
            return number
        }

        private func checkQuestions(_ stand: Stand) async throws {
            let record = try await stand.client.record(RecordName(Self.orders, RecordID(trusted: "wo-1"))).value
            #expect(record.data == #"{"n":1}"#)
            #expect(try await stand.client.mutations(MutationListQuery()).value.items.isEmpty == false)
            #expect(try await stand.agentctl("status").text.isEmpty == false)
        }

        private func ballast(_ stand: Stand) -> Bool { access("\(stand.folder)/agent/ballast", F_OK) == 0 }

        @Test("At 0 bytes work is refused with disk-full, questions are answered, what waits still goes out, and room heals it")
        func bytes() async throws {
            try await Stand.with(agent: false) { stand in
                let disk = try SmallDisk("\(stand.folder)/agent", bytes: 16 << 20, inodes: 1_000)
                defer { disk.remove() }
                await stand.setStore(Self.settings)
                try await stand.startAgent()
                await stand.stopHub()
                try await create(1...40, at: stand)
                #expect(ballast(stand))
                disk.fill()
                var last = try await untilFull(after: 40, at: stand)
                try await checkQuestions(stand)
                let state = try await stand.client.status().value.database.state
                #expect(state == .diskFull)
                let (path, _) = try stand.file("photo.jpg", bytes: 300_000)
                let added = try await stand.agentctl("blobs", "add", path)
                #expect(added.status != 0 && added.talk.contains("min_free"), "\(added.talk)")

                // To note what the hub says takes room as well: the ballast is for this.
                try await stand.startHub()
                let status = try await stand.settle()
                #expect(status.outbox.isBalanced && status.outbox.count(.done) == last)
                #expect(try await stand.hubApplied() == last)
                disk.fill()
                last = try await untilFull(after: last, at: stand)

                // Killed in this state, it comes back and answers.
                await stand.killAgent()
                try await stand.startAgent()
                try await checkQuestions(stand)
                disk.fill()
                last = try await untilFull(after: last, at: stand)

                disk.empty()
                try await untilTaken(last + 1, at: stand)
                try await create(last + 2...last + 20, at: stand)
                #expect(try await stand.settle().outbox.count(.done) == last + 20)
                #expect(try await stand.hubApplied() == last + 20)
                #expect(ballast(stand), "it is kept again for the next time")
                // A condition that has passed is no news any more.
                let after = try await stand.client.status().value
                #expect(after.database.recovery == nil && !after.overall.reasons.contains("recovered"), "\(after.overall)")
            }
        }

        @Test("A new state folder on a full disk: status names the disk, and all goes on when there is room")
        func newFolder() async throws {
            try await Stand.with(agent: false) { stand in
                let disk = try SmallDisk("\(stand.folder)/agent", bytes: 16 << 20, inodes: 1_000)
                defer { disk.remove() }
                await stand.setStore(Self.settings)
                await stand.setEnvironment(agent: ["AGENTD_STORE_RETRY_MS": "50"])
                disk.fill()
                try await stand.startAgent()
                #expect(try await refusal(1, at: stand) == "disk-full")
                let status = try await stand.client.status().value
                #expect(status.database.state == .diskFull)
                let alarm = try #require(status.alarms.first(where: { $0.code == "database_unreadable" }))
                #expect(alarm.detail.contains("is full") && !alarm.detail.contains("no such table"), "\(alarm.detail)")
                disk.empty()
                try await untilTaken(1, at: stand)
                let after = try await stand.settle()
                #expect(after.alarms.isEmpty && after.database.recovery == nil && after.outbox.count(.done) == 1, "\(after.overall)")
            }
        }

        @Test("At 0 inodes mutations go on, files are refused, and a start waits for room with its door open")
        func inodes() async throws {
            try await Stand.with(agent: false) { stand in
                let disk = try SmallDisk("\(stand.folder)/agent", bytes: 16 << 20, inodes: 60)
                defer { disk.remove() }
                await stand.setStore(Self.settings)
                await stand.setEnvironment(agent: ["AGENTD_STORE_RETRY_MS": "50"])
                try await stand.startAgent()
                try await create(1...10, at: stand)
                disk.fillInodes()
                try await create(11...20, at: stand)
                let (path, _) = try stand.file("photo.jpg", bytes: 300_000)
                let added = try await stand.agentctl("blobs", "add", path)
                #expect(added.status != 0 && added.talk.contains("min_free"), "\(added.talk)")
                #expect(try await stand.settle().outbox.count(.done) == 20)

                // A log and its index are files that a start makes.
                await stand.stopAgent()
                disk.fillInodes()
                unlink("\(stand.folder)/agent/ballast")
                disk.fillInodes()
                try await stand.startAgent()
                #expect(try await refusal(21, at: stand) == "disk-full")
                #expect((try? await stand.client.health()) != nil)
                disk.emptyInodes()
                try await untilTaken(21, at: stand)
                #expect(try await stand.settle().outbox.count(.done) == 21)
                try await checkQuestions(stand)
            }
        }

        /// The agent on a flash card of its own, with 20 orders that wait for the hub, which is away.
        private func withWaitingWork(_ body: (Stand, SmallDisk) async throws -> Void) async throws {
            try await Stand.with(agent: false) { stand in
                let disk = try SmallDisk(ext4: "\(stand.folder)/agent")
                defer { disk.remove() }
                await stand.setStore(Self.settings)
                await stand.setEnvironment(agent: ["AGENTD_STORE_RETRY_MS": "50"])
                try await stand.startAgent()
                await stand.stopHub()
                try await create(1...20, at: stand)
                try await body(stand, disk)
            }
        }

        @Test(
            "A disk that became read-only: nothing is taken, questions are answered, and nothing is lost when it is back",
            .enabled(if: SmallDisk.obstacleOfExt4 == nil, "needs an ext4 of its own: \(SmallDisk.obstacleOfExt4 ?? "")"))
        func readOnly() async throws {
            try await withWaitingWork { stand, disk in
                try disk.breakDown()
                // It is not known whether the first one was stored; the refusals after it are certain.
                let first = try #require(try await refusal(21, at: stand))
                #expect(["outcome-unknown", "read-only"].contains(first), "\(first)")
                #expect(try await refusal(22, at: stand) == "read-only")
                try await checkQuestions(stand)
                #expect(try await stand.client.status().value.database.state == .readOnly)
                await stand.stopAgent()

                try disk.mountAgain()
                try await stand.startAgent()
                try await stand.startHub()
                try await create(22...30, at: stand)
                _ = try await stand.client.enqueue(order(21), key: "k-21")
                #expect(try await stand.settle().outbox.count(.done) == 30)
                #expect(try await stand.hubApplied() == 30)
            }
        }

        @Test(
            "A disk that is read-only from the start: the door opens, questions are answered, and work goes on when it can be written",
            .enabled(if: SmallDisk.obstacleOfExt4 == nil, "needs an ext4 of its own: \(SmallDisk.obstacleOfExt4 ?? "")"),
            arguments: [true, false])
        func readOnlyStart(endsWell: Bool) async throws {
            try await withWaitingWork { stand, disk in
                // With a log to read, or without one that could be made.
                if endsWell { await stand.stopAgent() } else { await stand.killAgent() }
                try disk.remount(isReadOnly: true)
                try await stand.startAgent()
                #expect(try await refusal(21, at: stand) == "read-only")
                try await checkQuestions(stand)
                let status = try await stand.client.status().value
                #expect(status.database.state == .readOnly && status.outbox.open == 20)
                #expect(try await stand.agentctl("doctor").status != 0)

                try disk.remount(isReadOnly: false)
                try await untilTaken(21, at: stand)
                try await stand.startHub()
                #expect(try await stand.settle().outbox.count(.done) == 21)
                #expect(try await stand.hubApplied() == 21)
            }
        }
    }
}
