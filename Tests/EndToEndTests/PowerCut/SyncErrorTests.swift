import Foundation
import Glibc
import LocalAPI
import PowerCutKit
import SyncCore
import Testing

extension EndToEnd {
    /// Calls of the real agent fail while it syncs with the real hub: it claims and pushes, takes verdicts, pulls what another
    /// device wrote and settles what is in doubt.
    @Suite("Disk errors while it syncs")
    struct SyncErrorTests {
        private static let entities = """
                  readings: { kind: event }
                  work_orders: { kind: record, fields: { n: counter, t: client } }
            """
        private static let orders = EntityName(trusted: "work_orders")
        private static let steps = 6

        /// The mutations that the apps handed in, by key: `true` once it was acknowledged.
        private typealias Work = [String: Bool]

        @Test(
            "With any failed call, acknowledged mutations take effect at the hub once, and both sides agree afterwards",
            arguments: [("write", EIO), ("write", ENOSPC), ("sync", EIO), ("open", EIO), ("read", EIO)])
        func sweep(_ call: String, _ error: Int32) async throws {
            let calls = try await count(call)
            #expect(calls > 0, "no such call was made")
            let stride = DiskErrorTests.takesAll ? 1 : max(1, calls / 2)
            var runs = 0
            for number in Swift.stride(from: Int.random(in: 1...stride), through: calls, by: stride) {
                for when in call == "sync" ? ["once", "dropped", "sticky"] : ["once", "sticky"] {
                    runs += 1
                    let fault = "\(call):\(number):\(error):\(when)"
                    let found = try await run(fault)
                    #expect(found == nil, "POWERCUT_FAULT=\(fault) of \(calls)")
                }
            }
            print("disk errors: agent and hub: \(call) fails with \(error == EIO ? "EIO" : "ENOSPC"): \(runs) runs over \(calls) calls")
        }

        /// Returns the number of calls of that kind in a run without faults.
        private func count(_ call: String) async throws -> Int {
            var count = 0
            try await prepared { stand in
                let file = "\(stand.folder)/count"
                await stand.setEnvironment(agent: Interposer(root: "\(stand.folder)/agent", count: file).environment)
                try await stand.startAgent()
                let work = await work(at: stand, mustGoOn: true)
                #expect(!work.values.contains(false))
                await stand.stopAgent()
                let line = try String(contentsOfFile: file, encoding: .utf8).split(separator: "\n").first { $0.hasPrefix(call + " ") }
                count = line?.split(separator: " ").dropFirst().first.flatMap { Int($0) } ?? 0
            }
            return count
        }

        /// Agent and hub know each other, and another device has written since.
        private func prepared(_ body: (Stand) async throws -> Void) async throws {
            try await Stand.with(entities: Self.entities) { stand in
                _ = try await stand.client.enqueue(change(0, .create), key: "k-0")
                _ = try await stand.settle()
                await stand.stopAgent()
                let other = try await PlainPeer("other", on: stand)
                for number in 1...3 { try await other.create("work_orders", "theirs-\(number)", #"{"n":1}"#, at: await stand.hubURL) }
                try await body(stand)
            }
        }

        private func change(_ number: Int, _ action: NewMutation.Action) -> NewMutation {
            let operations = action == .create ? [] : [FieldOperation("n", .increment, 1)]
            return NewMutation(
                action, Self.orders, RecordID(trusted: "mine"), data: action == .create ? ["n": 0] : ["t": .string("\(number)")],
                operations: operations, coalesces: false)
        }

        private func work(at stand: Stand, mustGoOn: Bool) async -> Work {
            var work: Work = [:]
            let attempts = mustGoOn ? 2_000 : 3
            for number in 1...Self.steps {
                work["k-\(number)"] = false
                for _ in 0..<attempts where work["k-\(number)"] == false {
                    // An app that gets no answer repeats the mutation with its key.
                    if (try? await stand.client.enqueue(change(number, .update), key: "k-\(number)")) != nil { work["k-\(number)"] = true }
                }
                // The end shows the outcome of the cycle.
                _ = try? await stand.sync()
            }
            for _ in 0..<attempts where mustGoOn {
                if let status = try? await stand.client.status().value, status.outbox.open == 0 { break }
                _ = try? await stand.sync()
            }
            return work
        }

        /// - Returns: The fault that was found; `nil` for none.
        private func run(_ fault: String) async throws -> String? {
            var found: String?
            try await prepared { stand in
                let fails = Interposer(root: "\(stand.folder)/agent", fault: fault).environment
                await stand.setEnvironment(agent: fails.merging(["AGENTD_STORE_RETRY_MS": "1"]) { $1 })
                let mustGoOn = !fault.hasSuffix("sticky")
                var done: Work = [:]
                // One that cannot hold its folder says so and ends, which is what the other sweep is about.
                if (try? await stand.startAgent()) != nil {
                    done = await work(at: stand, mustGoOn: mustGoOn)
                    if mustGoOn, let refused = done.first(where: { !$0.value }) {
                        found = "after one failed call \(refused.key) is not taken"
                    }
                }
                await stand.stopAgent()
                await stand.setEnvironment(agent: [:])
                try await stand.startAgent()
                let status = try await stand.settle()
                if found == nil { found = try await disagreement(status, done, at: stand) }
            }
            return found
        }

        private func disagreement(_ status: StatusDocument, _ work: Work, at stand: Stand) async throws -> String? {
            guard status.outbox.isBalanced else { return "the counters do not add up" }
            guard status.alarms.isEmpty else { return "alarms: \(status.alarms)" }
            let records = Dictionary(uniqueKeysWithValues: try await stand.hubRecords("work_orders").map { ($0.id, $0.data) })
            guard let mine = records["mine"], let count = mine["n"]?.int, records.count == 4 else { return "the hub has \(records)" }
            // Each adds one, so a loss and a second time both show.
            let sure = Int64(work.values.count { $0 }), most = Int64(work.count)
            guard (sure...most).contains(count) else { return "the hub counts \(count), \(sure) of \(most) were acknowledged" }
            for (id, data) in records {
                let shown = try await stand.client.record(RecordName(Self.orders, RecordID(trusted: id))).value
                guard try shown.data.map({ try JSONReader.read($0) }) == .object(data) else {
                    return "the mirror shows \(shown.data ?? "nothing") of \(id), the hub has \(JSON.object(data).json)"
                }
            }
            return nil
        }
    }
}
