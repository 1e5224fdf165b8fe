import Foundation
import Glibc
import ProcessStand

/// The resources of a program at its first quiet moment, and their growth since then.
///
/// Each stand asks before it ends a program in good order. So every test also checks that the program gives back what it took: descriptors
/// by kind, threads by name, processes that it started, memory, and temporary files. ``Allowance`` has the numbers of growth that belongs
/// to the work of a program.
struct ResourceWatch: Sendable {
    /// The resources that may have grown since the first quiet moment.
    struct Allowance: Sendable {
        /// Descriptors by kind; a path counts for all that begin with it.
        var descriptors: [(prefix: String, more: Int)]
        /// Threads that may begin after the program said that it listens, one of each name.
        var threads: Set<String> = ["signals", "uevents", "store lists", "store reader"]
        /// Memory that a program keeps for its next work, and what the allocator cannot give back between live blocks, bytes.
        var memory = 64 << 20

        /// - Parameter state: The agent's state folder.
        static func agent(state: String) -> Allowance {
            Allowance(descriptors: [
                // Connections to the hub that wait for the next request: four (`CurlTransport`), and as many that are being
                // closed, on either side. Nothing of this kind is a client's.
                ("tcp socket", 8),
                // The first file that goes to the hub makes one, which stays.
                ("anon_inode:[eventfd]", 2),
                // Two readers, of which the one for lists opens the database when it is first asked, and both do so anew after trouble.
                ("\(state)/agent.db", 9),
                // Two files at once are on their way to the hub.
                ("\(state)/blobs/", 2),
                // An agent whose disk fails at its start opens these later: the folder, the file beside the database, and what
                // watches links and power.
                (state, 3), ("netlink socket", 3), ("unix socket", 2),
                // The same on a disk of its own, which is mounted for the agent alone.
                ("/agent.db", 8), ("/lock", 1), ("/acknowledged", 1), ("/", 3),
            ])
        }

        /// - Parameter data: The hub's folder.
        static func hub(data: String) -> Allowance {
            Allowance(descriptors: [
                // Devices keep theirs open for 75 s after their last request.
                ("tcp socket", 16), ("\(data)/hub.db", 8),
            ])
        }
    }

    let name: String
    let process: pid_t
    private let baseline: ProcessResources
    private let allowance: Allowance
    /// Folders in which a program makes temporary files.
    private let folders: [String]

    /// - Throws: When there is no such process.
    init(_ name: String, _ process: pid_t, _ allowance: Allowance, temporaryFilesIn folders: [String]) throws {
        self.name = name
        self.process = process
        self.allowance = allowance
        self.folders = folders
        baseline = try ProcessResources(of: process)
    }

    /// Far above what anything takes; only ends a test that would otherwise ask for ever.
    private static let patience: Duration = .seconds(120)

    /// Asks until nothing is left over.
    ///
    /// - Parameter part: Words of a leftover that may stay. Nothing waits for its end.
    /// - Returns: The leftover resources, in words; empty when all was given back.
    func leftOver(except part: String? = nil) async throws -> [String] {
        let end = ContinuousClock.now + Self.patience
        while true {
            let left: [String]
            do {
                left = try look().filter { line in part.map { !line.contains($0) } ?? true }
            } catch is ProcessResources.Ended {
                // Ended by itself since it was asked for.
                return []
            }
            if left.isEmpty || ContinuousClock.now > end { return left }
            await Pause.short()
        }
    }

    /// A sanitizer keeps what was freed, to notice when it is used.
    private static let isSanitized = ProcessInfo.processInfo.environment["EDGE_SYNC_SANITIZER"] != nil

    /// The resources that are left over at this moment.
    func look() throws -> [String] {
        let now = try ProcessResources(of: process)
        var allowed = allowance.descriptors
        var left: [String] = []
        for (kind, count) in ProcessResources.leftOver(now.descriptors, since: baseline.descriptors).sorted(by: { $0.key < $1.key }) {
            var more = count
            if let index = allowed.firstIndex(where: { kind.hasPrefix($0.prefix) }) {
                let used = min(more, allowed[index].more)
                allowed[index].more -= used
                more -= used
            }
            if more > 0 { left.append("\(more) of \(kind) beyond what may be open") }
        }
        for (thread, count) in ProcessResources.leftOver(now.threads, since: baseline.threads).sorted(by: { $0.key < $1.key }) {
            if count > 1 || !allowance.threads.contains(thread) { left.append("\(count) threads \(thread)") }
        }
        if now.children > 0 { left.append("\(now.children) child processes") }
        let grown = now.anonymousBytes - baseline.anonymousBytes
        if grown > allowance.memory, !Self.isSanitized {
            left.append("\(grown >> 20) MiB of memory, \(allowance.memory >> 20) are allowed")
        }
        left += folders.flatMap(Self.temporaryFiles)
        return left.map { "\(name): \($0)" }
    }

    /// Files that a program is writing and that have no name yet (`.NAME.0123456789abcdef.tmp`), and files that are coming in.
    private static func temporaryFiles(in folder: String) -> [String] {
        // A folder that the test has removed holds none.
        let names = (try? FileManager.default.contentsOfDirectory(atPath: folder)) ?? []
        let coming = (try? FileManager.default.contentsOfDirectory(atPath: folder + "/blobs/incoming")) ?? []
        return names.filter { $0.hasPrefix(".") && $0.hasSuffix(".tmp") }.map { "the temporary file \(folder)/\($0)" }
            + coming.map { "the incoming file \(folder)/blobs/incoming/\($0)" }
    }
}

extension ResourceWatch {
    /// Returns whether the process runs the program itself. With a wrapper in between, their resources cannot be told apart.
    static func isProgram(_ process: pid_t, _ path: String) -> Bool {
        let target = try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/\(process)/exe")
        let same = try? FileManager.default.destinationOfSymbolicLink(atPath: path)
        return target == path || target == same || target == URL(fileURLWithPath: path).resolvingSymlinksInPath().path
    }
}
