import Foundation
import HubPostgres
import HubServer
import PostgresStand
import SyncCore
import Testing

/// Commit numbers over several replicas: their order is the order in which readers can see them (PROTOCOL A3).
@Suite("Order of visibility", .needsPostgres)
struct VisibilityTests {
    /// Two replicas write at the same time; the first, which locks before it decides, stops just before its commit, and goes on when `body`
    /// is through.
    ///
    /// - Returns: The versions that the slow one and the quick one were told.
    private func race(_ bench: ReplicaBench, meanwhile body: () throws -> Void) throws -> [Int64?] {
        let (opened, begin) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
        let (reached, goOn) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
        let quick = Worker {
            defer { opened.signal() }
            let hub = try bench.hub { $0.patience.lockMilliseconds = 0 }
            _ = hub.push([])
            opened.signal()
            begin.wait()
            return try hub.verdict(Sent("k", .create, id: "quick"), device: .two).version
        }
        opened.wait()
        // Each names its opening before, in a transaction of its own: the race is about numbers of commits.
        let slow = Worker {
            defer { reached.signal() }
            let hub = try bench.hub()
            _ = hub.push([])
            hub.hub.locksFirst = true
            hub.hub.beforeCommit = {
                reached.signal()
                goOn.wait()
                return true
            }
            return try hub.verdict(Sent("k", .create, id: "slow")).version
        }
        reached.wait()
        begin.signal()
        // The second one waits for the first now, whatever for.
        try bench.server.waitForWaiters(1)
        let outcome = Result { try body() }
        goOn.signal()
        let versions = [try slow.join(), try quick.join()]
        try outcome.get()
        return versions
    }

    @Test("A slow transaction holds up the writers behind it and no reader; what a reader has passed stays passed")
    func slowTransaction() throws {
        let bench = try ReplicaBench()
        let hubs = try Self.hubs(bench)
        var cursors: [String?] = []
        let versions = try race(bench) {
            for hub in hubs {
                let seen = try hub.follow("audits")
                #expect(seen.pages.flatMap(\.records).isEmpty && hub.hub.head == 0)
                cursors.append(seen.cursor)
            }
        }
        #expect(versions == [1, 2])
        for (hub, cursor) in zip(hubs, cursors) {
            let records = try hub.follow("audits", from: cursor).pages.flatMap(\.records)
            #expect(records.map(\.id.text) == ["slow", "quick"] && records.map(\.record.version) == [1, 2])
        }
        #expect(hubs.map { $0.readerAnswers > 0 } == [false, true])
    }

    /// A hub that answers pulls itself, and another replica whose reader does, as in service.
    private static func hubs(_ bench: ReplicaBench) throws -> [HubBench] {
        let hubs = [try bench.hub(), try bench.hub(seed: 2)]
        hubs[1].reader = try hubs[1].hub.reader()
        return hubs
    }

    @Test("With many writers on several replicas, some of them slow, a reader gets every number, once and in order")
    func manyWriters() throws {
        let bench = try ReplicaBench()
        let hubs = try Self.hubs(bench)
        let (writers, pushes, size) = (5, 12, 3)
        let running = (0..<writers).map { index in
            Worker {
                let hub = try bench.hub()
                var random = SeededRandom(seed: UInt64(index))
                // Slow transactions are part of the case; nothing waits for the time to pass.
                hub.hub.beforeCommit = {
                    if index % 2 == 0, random.fraction() < 0.3 { usleep(3_000) }
                    return true
                }
                let device = DeviceID(trusted: "gw-\(index)")
                for push in 0..<pushes {
                    let mutations = (0..<size).map { place in
                        Sent("k-\(push)-\(place)", seq: Int64(push * size + place + 1), .create, id: "a-\(index)-\(push)-\(place)")
                    }
                    let verdicts = try hub.verdicts(mutations, device: device)
                    guard verdicts.allSatisfy({ $0.verdict.version != nil }) else { throw HubBench.Unexpected(HubResponse(status: 0)) }
                }
            }
        }
        var seen: [[Int64]] = [[], []]
        var cursors: [String?] = [nil, nil]
        func look() throws {
            for (index, hub) in hubs.enumerated() {
                let part = try hub.follow("audits", from: cursors[index], limit: 7)
                seen[index] += part.pages.flatMap(\.records).map(\.record.version)
                cursors[index] = part.cursor
            }
        }
        while seen.contains(where: { $0.count < writers * pushes * size / 2 }) { try look() }
        for writer in running { try writer.join() }
        try look()
        let all = (1...Int64(writers * pushes * size)).map { $0 }
        #expect(seen == [all, all])
        #expect(hubs.map { $0.readerAnswers > 0 } == [false, true])
    }
}
