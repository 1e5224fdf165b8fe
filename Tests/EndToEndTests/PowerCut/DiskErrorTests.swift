import Foundation
import LocalAPI
import PowerCutKit
import SyncCore
import SyncLinux
import Testing

extension EndToEnd {
    /// The first, the second, … the last call of a kind fails, once or from then on, while the real agent starts, works and ends.
    @Suite("Disk errors")
    struct DiskErrorTests {
        struct Kind: CustomTestStringConvertible {
            var call: String
            var error: Int32

            var testDescription: String { "\(call) fails with \(error == EIO ? "EIO" : "ENOSPC")" }
        }

        static let kinds = ["open", "write", "sync", "rename", "remove", "truncate"].flatMap { call in
            [Kind(call: call, error: EIO)] + (call == "remove" ? [] : [Kind(call: call, error: ENOSPC)])
        }

        private static var environment: [String: String] { ProcessInfo.processInfo.environment }
        /// Calls of each kind that are let fail; DISK_ERRORS=all takes every one.
        private static let tried = environment["DISK_ERRORS"] == "all" ? Int.max : 6

        @Test("Whichever call fails, nothing crashes, nothing acknowledged is lost, and no answer is wrong", arguments: kinds)
        func fails(_ kind: Kind) async throws {
            let bench = try ErrorBench()
            defer { bench.remove() }
            let calls = try await bench.count(kind)
            #expect(calls > 0, "no such call was made")
            let stride = max(1, calls / Self.tried)
            var runs = 0
            // A different part of them each time: over many runs all are met.
            for number in Swift.stride(from: calls <= Self.tried ? 1 : Int.random(in: 1...stride), through: calls, by: stride) {
                for when in ["once", "sticky"] {
                    runs += 1
                    let fault = "\(kind.call):\(number):\(kind.error):\(when)"
                    let found = try await bench.run(fault)
                    #expect(found == nil, "POWERCUT_FAULT=\(fault) of \(calls)")
                }
            }
            print("disk errors: \(kind.testDescription): \(runs) runs over \(calls) calls")
        }
    }
}

/// A state folder that has been in use, and what an agent does on a copy of it while calls fail.
private final class ErrorBench {
    private let folder: String
    private let transport: CurlTransport
    private let trial: AgentTrial
    private var count = 0

    init() throws {
        folder = try Campaign.folder()
        transport = try CurlTransport(name: "errors", idleConnections: 2)
        trial = try AgentTrial(folder: folder)
    }

    func remove() {
        transport.close()
        try? FileManager.default.removeItem(atPath: folder)
    }

    /// How many calls of that kind a run without faults makes.
    func count(_ kind: EndToEnd.DiskErrorTests.Kind) async throws -> Int {
        let place = try await freshPlace()
        let (promises, status) = try await work(in: place, Interposer(root: "\(place)/agent", count: "\(place)/count"), mustGoOn: true)
        guard status == 0, promises.mutations.count == Self.steps else { throw StandError("a run without faults fails: \(status)") }
        let text = try String(contentsOfFile: "\(place)/count", encoding: .utf8)
        let line = text.split(separator: "\n").first { $0.hasPrefix(kind.call + " ") }?.split(separator: " ") ?? []
        return line.count == 3 ? Int(line[kind.error == ENOSPC ? 2 : 1]) ?? 0 : 0
    }

    /// - Returns: What is wrong; `nil` when all is well.
    func run(_ fault: String) async throws -> String? {
        let place = try await freshPlace()
        defer { try? FileManager.default.removeItem(atPath: place) }
        let log = "\(place)/io.log"
        let promises: Promises
        do {
            let (found, status) = try await work(
                in: place, Interposer(root: "\(place)/agent", log: log, fault: fault), mustGoOn: fault.hasSuffix("once"))
            promises = found
            // 73: it says that it cannot use the folder, and whoever supervises it starts it again.
            guard status == 0 || status == 73 || status == 70 else { return "it ended with \(status): \(LoneAgent.log(of: place).suffix(600))" }
        } catch let ended as LoneAgent.Ended {
            guard ended.status == 73 || ended.status == 70 else { return "at its start \(ended)" }
            promises = Promises()
        }
        if let found = try await trial.fault(in: place, promises) { return "afterwards: \(found)" }
        // What a failed sync was to write may be gone although a later one succeeds (fsync(2)): the power goes as well.
        let calls = try IOLog(path: log)
        var disk = Disk(calls)
        disk.advance(to: calls.records.count)
        for policy in [CutPolicy.nothing, .subset] {
            let cut = Cut(place: calls.records.count, policy: policy, names: .strict, seed: UInt64(count))
            if let found = try await trial.fault(of: disk.state(after: cut), promises) { return "after a power cut as well (\(cut)): \(found)" }
        }
        return nil
    }

    /// A copy of a folder in which an agent has worked and ended in good order.
    private func freshPlace() async throws -> String {
        let base = "\(folder)/base"
        if !FileManager.default.fileExists(atPath: base) {
            try FileManager.default.createDirectory(
                atPath: base + "/agent", withIntermediateDirectories: true, attributes: [.posixPermissions: NSNumber(value: 0o700)])
            let agent = try await LoneAgent.start(in: base, over: transport)
            await agent.child.stop()
        }
        count += 1
        let place = "\(folder)/e\(count)"
        try FileManager.default.createDirectory(atPath: place, withIntermediateDirectories: true)
        try FileManager.default.copyItem(atPath: base + "/agent", toPath: place + "/agent")
        return place
    }

    static let steps = 8

    /// Starts an agent, hands work to it, and ends it.
    ///
    /// - Parameter mustGoOn: One call fails at most: then the last work is taken again.
    /// - Returns: What it has acknowledged, and its exit status.
    private func work(in place: String, _ watched: Interposer, mustGoOn: Bool) async throws -> (Promises, Int32) {
        var promises = Promises()
        let agent = try await LoneAgent.start(in: place, over: transport, environment: watched.environment)
        var number = 1
        var isTaken = true
        for _ in 0..<Self.steps {
            let data: JSONObject = ["n": .int(Int64(number)), "s\(number)": 1, "t": .string(CutLoad.text("w0-0", number))]
            let change = NewMutation(
                number == 1 ? .create : .update, EntityName(trusted: "work_orders"), RecordID(trusted: "w0-0"), data: data,
                coalesces: false)
            // Whoever gets no answer repeats it with its key.
            isTaken = false
            for _ in 0..<3 where !isTaken {
                guard let reply = try? await agent.client.enqueue(change, key: "w0-0/\(number)") else { continue }
                promises.mutations[reply.value.seq] = reply.value.id.text
                isTaken = true
            }
            if !isTaken { break }
            number += 1
        }
        let digest = try await addFile(agent)
        if let digest { promises.files.insert(digest.hex) }
        // It is there for questions, whatever has become of its disk.
        let isThere = (try? await agent.client.health()) != nil
        let status = await agent.child.stop()
        if mustGoOn, !isTaken, status == 0 { throw StandError("one failed call, and nothing more is taken: \(LoneAgent.log(of: place).suffix(600))") }
        if status == 0, !isThere { throw StandError("it does not answer any more: \(LoneAgent.log(of: place).suffix(600))") }
        return (promises, status)
    }

    private func addFile(_ agent: LoneAgent) async throws -> BlobDigest? {
        let bytes = Array(CutLoad.text("file", count).utf8)
        let answer = try? await transport.send(
            HTTPRequest(
                .post, "http://localhost/v1/blobs", headers: ["Content-Type": "image/png"], body: .bytes(bytes),
                socketPath: agent.client.socketPath))
        return answer?.status == 201 ? BlobDigest(bytes: SHA256.hash(bytes)) : nil
    }
}
