import Foundation
import Glibc
import PowerCutKit
import SyncCore
import Testing

extension EndToEnd {
    /// The power goes at any moment: what the medium may hold then is built from what the real programs asked of it, opened
    /// by the real programs, and judged by what they had said before (`Tests/powercut`, `Tests/PowerCutKit`).
    @Suite("Power cut")
    struct PowerCutTests {
        private static var environment: [String: String] { ProcessInfo.processInfo.environment }
        /// States of each kind. POWERCUT_STATES makes more of it.
        private static let states = environment["POWERCUT_STATES"].flatMap { Int($0) } ?? 300
        /// EDGE_SYNC_SEED repeats the choices of a run that failed; the recording is the machine's.
        private static let seed = environment["EDGE_SYNC_SEED"].flatMap { UInt64($0) } ?? UInt64.random(in: 0 ... .max)
        /// A recording is good for so many states; then another one is made.
        private static let statesOfOne = 5_000

        @Test("After any power cut agent and hub open their data, and every answer that had left before holds")
        func cut() async throws {
            print("power cut test: EDGE_SYNC_SEED=\(Self.seed) POWERCUT_STATES=\(Self.states)")
            var random = SeededRandom(seed: Self.seed)
            var done = Campaign.Count()
            while done.states < Self.states {
                let recording = try await Recording.make(seed: random.next(), lives: 2, rounds: Self.states > 1_000 ? 60 : 24)
                let wanted = min(Self.statesOfOne, Self.states - done.states)
                let agent = try await Campaign.run(recording.agent, wanted * 2 / 3, .agent, &random)
                let hub = try await Campaign.run(recording.hub, wanted - wanted * 2 / 3, .hub, &random)
                for count in [agent, hub] {
                    done.add(count)
                    #expect(count.faults.isEmpty, "seed \(Self.seed): \(count.faults.prefix(5).joined(separator: "\n"))")
                }
                if !done.faults.isEmpty { break }
                print("power cut test: \(done.states) states, \(done.promises) promises in them, \(done.faults.count) broken")
            }
        }

        @Test(
            "A commit that is not synced, and an answer before its commit, are noticed",
            arguments: ["commitUnsynced", "answerBeforeCommit"])
        func noticed(_ rule: String) async throws {
            var random = SeededRandom(seed: Self.seed)
            let recording = try await Recording.make(seed: random.next(), lives: 1, rounds: 16, ablations: rule)
            let count = try await Campaign.run(recording.agent, 200, .agent, &random, stopsAfter: 1)
            #expect(!count.faults.isEmpty, "\(rule) went unnoticed in \(count.states) states of the agent")
            print("power cut test: \(rule) noticed after \(count.states) states of the agent: \(count.faults.first?.prefix(160) ?? "")")
            guard rule == "commitUnsynced" else { return }
            let atHub = try await Campaign.run(recording.hub, 200, .hub, &random, stopsAfter: 1)
            #expect(!atHub.faults.isEmpty, "\(rule) went unnoticed in \(atHub.states) states of the hub")
            print("power cut test: \(rule) noticed after \(atHub.states) states of the hub: \(atHub.faults.first?.prefix(160) ?? "")")
        }
    }
}

/// Many cuts of the logs of one side, two at a time.
enum Campaign {
    enum Side { case agent, hub }

    struct Count: Sendable {
        var states = 0
        /// Answers that had left before the cuts, of all states together.
        var promises = 0
        var faults: [String] = []

        mutating func add(_ other: Count) {
            states += other.states
            promises += other.promises
            faults += other.faults
        }
    }

    private struct Case: Sendable {
        var name: String
        var state: Disk.State
        var promises: Promises
    }

    /// - Parameter stopsAfter: So many faults are enough.
    static func run(
        _ logs: [IOLog], _ states: Int, _ side: Side, _ random: inout SeededRandom, stopsAfter: Int = 20,
        alarmsAllowed: Set<String> = []
    ) async throws -> Count {
        let folder = try Self.folder()
        defer { try? FileManager.default.removeItem(atPath: folder) }
        var count = Count()
        var promises = Promises()
        let trials = try (0..<2).map { worker in
            side == .agent
                ? Trial.agent(try AgentTrial(folder: "\(folder)/\(worker)", alarmsAllowed: alarmsAllowed))
                : .hub(try HubTrial(folder: "\(folder)/\(worker)"))
        }
        for (life, log) in logs.enumerated() {
            promises.beginNextLog()
            var disk = Disk(log)
            var cuts = Cut.draw(states / logs.count, from: log, using: &random)[...]
            // One after the other in the order of the log; two of them are open at a time.
            func next() -> Case? {
                guard let cut = cuts.popFirst() else { return nil }
                disk.advance(to: cut.place)
                promises.advance(to: cut.place, in: log)
                return Case(name: "\(side) life \(life + 1), cut \(cut)", state: disk.state(after: cut), promises: promises)
            }
            while count.faults.count < stopsAfter {
                let pair = trials.compactMap { trial in next().map { (trial, $0) } }
                if pair.isEmpty { break }
                count.states += pair.count
                for (_, found) in pair { count.promises += found.promises.count }
                count.faults += try await withThrowingTaskGroup(of: String?.self) { group in
                    for (trial, example) in pair {
                        group.addTask { try await trial.fault(of: example.state, example.promises).map { "\(example.name): \($0)" } }
                    }
                    return try await group.reduce(into: []) { if let fault = $1 { $0.append(fault) } }
                }
            }
            promises.advance(to: log.records.count, in: log)
        }
        return count
    }

    private enum Trial: Sendable {
        case agent(AgentTrial)
        case hub(HubTrial)

        func fault(of state: Disk.State, _ promises: Promises) async throws -> String? {
            switch self {
            case .agent(let trial): try await trial.fault(of: state, promises)
            case .hub(let trial): try await trial.fault(of: state, promises)
            }
        }
    }

    /// In memory where that can be had: thousands of disks are made and thrown away.
    static func folder() throws -> String {
        let memory = "/dev/shm"
        let parent = access(memory, W_OK) == 0 && (freeBytes(memory) ?? 0) > 200_000_000 ? memory : "/tmp"
        return try NewFolder.make("\(parent)/edge-cut")
    }

    private static func freeBytes(_ path: String) -> UInt64? {
        var facts = statvfs()
        return statvfs(path, &facts) == 0 ? UInt64(facts.f_bavail) * UInt64(facts.f_frsize) : nil
    }
}
