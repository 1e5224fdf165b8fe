import Foundation
import Glibc
import PowerCutKit
import Testing

extension EndToEnd {
    /// The first, the second, … the last call of a kind fails, once or from then on, while the real agent or the real
    /// hub starts, works and ends.
    @Suite("Disk errors")
    struct DiskErrorTests {
        struct Kind: CustomTestStringConvertible {
            var call: String
            var error: Int32

            var testDescription: String { "\(call) fails with \(error == EIO ? "EIO" : "ENOSPC")" }
        }

        static let kinds = ["open", "write", "sync", "rename", "remove", "truncate", "read"].flatMap { call in
            [Kind(call: call, error: EIO)] + (call == "remove" || call == "read" ? [] : [Kind(call: call, error: ENOSPC)])
        }

        private static var environment: [String: String] { ProcessInfo.processInfo.environment }
        /// DISK_FAULT=read:1:5:sticky, as a failure has named it: that one alone, 50 times.
        private static let only = environment["DISK_FAULT"]
        /// DISK_ERRORS=all lets every call fail.
        static let takesAll = environment["DISK_ERRORS"] == "all"

        @Test("With any failed call of the agent, nothing crashes, nothing acknowledged is lost, and no answer is wrong", arguments: kinds)
        func agent(_ kind: Kind) async throws {
            try await sweep(kind, 6) { try AgentUnderErrors(folder: $0) }
        }

        @Test(
            "With any failed call of the hub, nothing crashes, every verdict and file stays, and a repeated mutation counts once",
            arguments: kinds)
        func hub(_ kind: Kind) async throws {
            try await sweep(kind, 3) { try HubUnderErrors(folder: $0) }
        }

        /// - Parameter tried: Calls that are let fail.
        private func sweep(_ kind: Kind, _ tried: Int, _ make: (String) throws -> any UnderErrors) async throws {
            let folder = try Campaign.folder()
            defer { try? FileManager.default.removeItem(atPath: folder) }
            let bench = ErrorBench(try make(folder), folder)
            defer { bench.program.close() }
            let calls = try await bench.count(kind)
            if let only = Self.only {
                let parts = only.split(separator: ":")
                guard parts.count == 4, parts[0] == kind.call, parts[2] == "\(kind.error)" else { return }
                for turn in 1...50 {
                    let found = try await bench.run(only)
                    #expect(found == nil, "POWERCUT_FAULT=\(only) of \(calls), turn \(turn)")
                }
                return print("disk errors: \(bench.program.name): \(only): 50 runs")
            }
            // A kind that meets nothing tests nothing, and is not to be passed over in silence.
            #expect(calls > 0, "no such call was made")
            let stride = Self.takesAll ? 1 : max(1, calls / tried)
            var runs = 0
            // A different part of them each time: over many runs all are met.
            for number in Swift.stride(from: Int.random(in: 1...stride), through: calls, by: stride) {
                // A sync that fails once may take what was written with it, and the next one says that all is well.
                for when in kind.call == "sync" && kind.error == EIO ? ["once", "dropped", "sticky"] : ["once", "sticky"] {
                    runs += 1
                    let fault = "\(kind.call):\(number):\(kind.error):\(when)"
                    let found = try await bench.run(fault)
                    #expect(found == nil, "POWERCUT_FAULT=\(fault) of \(calls)")
                }
            }
            print("disk errors: \(bench.program.name): \(kind.testDescription): \(runs) runs over \(calls) calls")
        }
    }
}

/// A program that works while calls fail.
protocol UnderErrors: Sendable {
    /// Its own, and that of its folder in a place.
    var name: String { get }

    /// Works in a new folder, and ends in good order.
    func begin(in place: String) async throws

    /// Starts it, hands work to it, and ends it.
    ///
    /// - Parameter mustGoOn: One call fails at most: then everything is taken in the end.
    /// - Throws: ``EndedAtStart`` when it does not get ready.
    func work(in place: String, _ environment: [String: String], mustGoOn: Bool) async throws -> ErrorBench.Work

    /// Returns the fault afterwards, in a folder or with a state of the disk; `nil` for none.
    func fault(in place: String, _ promises: Promises) async throws -> String?
    func fault(of state: Disk.State, _ promises: Promises) async throws -> String?

    func close()
}

/// A folder that has been in use, and what a program does on a copy of it while calls fail.
final class ErrorBench {
    struct Work {
        var promises = Promises()
        /// All of it was taken.
        var isDone = false
        /// It answered to the end, whatever has become of its disk.
        var isThere = false
        /// Status of the end, as ``Child/end()`` returns it.
        var status: Int32 = 0
    }

    let program: any UnderErrors
    private let folder: String
    private var count = 0

    init(_ program: any UnderErrors, _ folder: String) {
        self.program = program
        self.folder = folder
    }

    /// Returns the number of calls of that kind in a run without faults.
    func count(_ kind: EndToEnd.DiskErrorTests.Kind) async throws -> Int {
        let place = try await freshPlace()
        let watched = Interposer(root: "\(place)/\(program.name)", count: "\(place)/count")
        let work = try await program.work(in: place, watched.environment, mustGoOn: true)
        guard work.status == 0, work.isDone else {
            throw StandError("a run without faults fails: \(work.status) \(EndedAtStart.log(of: place))")
        }
        let text = try String(contentsOfFile: "\(place)/count", encoding: .utf8)
        let line = text.split(separator: "\n").first { $0.hasPrefix(kind.call + " ") }?.split(separator: " ") ?? []
        return line.count == 3 ? Int(line[kind.error == ENOSPC ? 2 : 1]) ?? 0 : 0
    }

    /// The program exits because it cannot use the folder (73, 74), or to begin anew (70), and the service manager starts it again.
    private static let ends: Set<Int32> = [70, 73, 74]

    /// - Returns: The fault that was found; `nil` for none.
    func run(_ fault: String) async throws -> String? {
        let place = try await freshPlace()
        defer { try? FileManager.default.removeItem(atPath: place) }
        let log = "\(place)/io.log"
        let watched = Interposer(root: "\(place)/\(program.name)", log: log, fault: fault)
        var promises = Promises()
        do {
            let mustGoOn = !fault.hasSuffix("sticky")
            let work = try await program.work(in: place, watched.environment, mustGoOn: mustGoOn)
            guard work.status == 0 || Self.ends.contains(work.status) else {
                return "it ended with \(work.status): \(EndedAtStart.log(of: place))"
            }
            if work.status == 0, mustGoOn, !work.isDone {
                return "one failed call, and nothing more is taken: \(EndedAtStart.log(of: place))"
            }
            if work.status == 0, !work.isThere { return "it does not answer any more: \(EndedAtStart.log(of: place))" }
            promises = work.promises
        } catch let ended as EndedAtStart {
            guard Self.ends.contains(ended.status) else { return "at its start \(ended)" }
            // The first two calls of `open` cannot be done without: they make sure that no other process uses the folder.
            let isNeeded = fault.hasPrefix("open:1:") || fault.hasPrefix("open:2:")
            if !fault.hasSuffix("sticky"), program.name == "agent", !isNeeded { return "one failed call at its start: \(ended)" }
        }
        let calls = try IOLog(path: log)
        if let found = try await program.fault(in: place, promises) { return "afterwards: \(found)" }
        // The data of a failed sync may be gone although a later one succeeds (fsync(2)): the power goes as well.
        var disk = Disk(calls)
        disk.advance(to: calls.records.count)
        for policy in [CutPolicy.nothing, .subset] {
            let cut = Cut(place: calls.records.count, policy: policy, names: .strict, seed: UInt64(count))
            if let found = try await program.fault(of: disk.state(after: cut), promises) {
                return "after a power cut as well (\(cut)): \(found)"
            }
        }
        return nil
    }

    /// A copy of a folder in which the program has worked and ended in good order.
    private func freshPlace() async throws -> String {
        let base = "\(folder)/base"
        if !FileManager.default.fileExists(atPath: base) {
            try FileManager.default.createDirectory(
                atPath: "\(base)/\(program.name)", withIntermediateDirectories: true,
                attributes: [.posixPermissions: NSNumber(value: 0o700)])
            try await program.begin(in: base)
        }
        count += 1
        let place = "\(folder)/e\(count)"
        try FileManager.default.createDirectory(atPath: place, withIntermediateDirectories: true)
        try FileManager.default.copyItem(atPath: "\(base)/\(program.name)", toPath: "\(place)/\(program.name)")
        return place
    }
}
