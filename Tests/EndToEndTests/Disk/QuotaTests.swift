import Foundation
import Glibc
import LocalAPI
import PowerCutKit
import SyncCore
import Testing

extension EndToEnd {
    /// The room ends, and the file system does not know: a quota, or the largest size of a file.
    @Suite("Quota")
    struct QuotaTests {
        private static let orders = EntityName(trusted: "work_orders")

        private func order(_ number: Int) -> NewMutation {
            NewMutation(
                .create, Self.orders, RecordID(trusted: "wo-\(number)"),
                data: ["n": .int(Int64(number)), "t": .string(String(repeating: "x", count: 2_000))])
        }

        /// The code of the refusal; `nil` when it was taken.
        private func refusal(_ number: Int, at stand: Stand) async throws -> String? {
            do throws(AgentError) {
                _ = try await stand.client.enqueue(order(number), key: "k-\(number)")
                return nil
            } catch {
                guard error.code == .refused else { throw error }
                return "\(error.problem.status) \(error.problem.code)"
            }
        }

        @Test("The largest size of a file is a full disk: 507, ballast, status, and all goes on when there is room again")
        func fileSize() async throws {
            try await Stand.with(agent: false) { stand in
                await stand.setStore("min_free: 6MB, ballast: 1MB")
                await stand.setEnvironment(agent: ["AGENTD_STORE_RETRY_MS": "50"])
                try await stand.startAgent()
                await stand.stopHub()
                for number in 1...20 { #expect(try await refusal(number, at: stand) == nil) }
                let ballast = "\(stand.folder)/agent/ballast"
                #expect(access(ballast, F_OK) == 0)
                let pid = try #require(await stand.agentProcess)
                var facts = stat()
                #expect(stat("\(stand.folder)/agent/agent.db-wal", &facts) == 0)
                try await limit(pid, "\(facts.st_size + 100_000)", stand)
                var last = 20
                while last < 2_000 {
                    guard let code = try await refusal(last + 1, at: stand) else {
                        last += 1
                        continue
                    }
                    #expect(code == "507 disk-full")
                    break
                }
                #expect(last < 2_000)
                // A measurement that was made before may take the room again, and call the disk well. Then the next refusal corrects both.
                var isFull = false
                for _ in 0..<100 where !isFull {
                    if try await refusal(last + 1, at: stand) == nil { last += 1 }
                    let state = try await stand.client.status().value.database.state
                    isFull = access(ballast, F_OK) != 0 && state == .diskFull
                }
                #expect(isFull)
                #expect(try await stand.client.record(RecordName(Self.orders, RecordID(trusted: "wo-1"))).status == 200)
                try await limit(pid, "unlimited", stand)
                #expect(try await refusal(last + 1, at: stand) == nil)
                #expect(try await stand.client.status().value.database.state == .ok)
                try await stand.startHub()
                let status = try await stand.settle()
                #expect(status.outbox.isBalanced && status.outbox.count(.done) == Int64(last + 1))
                #expect(await stand.agentProcess == pid)
            }
        }

        @Test(
            "A quota that is used up: no doubt about any outcome, no exit at a start, and nothing is lost",
            arguments: [EDQUOT, EFBIG, ENOSPC])
        func quota(_ error: Int32) async throws {
            try await Stand.with(agent: false) { stand in
                await stand.setStore("min_free: 6MB, ballast: 1MB")
                let folder = "\(stand.folder)/agent"
                try await stand.startAgent()
                #expect(try await refusal(1, at: stand) == nil)
                await stand.stopAgent()
                // The first writes of a start, and those of later work.
                for first in [1, 12, 40] {
                    let fault = Interposer(root: folder, fault: "write:\(first):\(error):sticky").environment
                    await stand.setEnvironment(agent: fault.merging(["AGENTD_STORE_RETRY_MS": "50"]) { $1 })
                    try await stand.startAgent()
                    var code: String?
                    for number in 2..<200 where code == nil { code = try await refusal(number, at: stand) }
                    #expect(code == "507 disk-full", "from write \(first) on")
                    #expect((try? await stand.client.health()) != nil)
                    await stand.stopAgent()
                }
                await stand.setEnvironment(agent: [:])
                try await stand.startAgent()
                for number in 1..<200 { #expect(try await refusal(number, at: stand) == nil) }
                #expect(try await stand.settle().outbox.count(.done) == 199)
                #expect(try await stand.hubApplied() == 199)
            }
        }

        private func limit(_ pid: pid_t, _ bytes: String, _ stand: Stand) async throws {
            let output = try await Child.run(["/usr/bin/prlimit", "--pid", "\(pid)", "--fsize=\(bytes):unlimited"], in: stand.folder)
            #expect(output.status == 0, "\(output.talk)")
        }
    }
}
