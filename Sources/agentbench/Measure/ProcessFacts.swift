import FoundationEssentials
import Glibc

/// The kernel's figures for a process (proc(5)).
struct ProcessFacts {
    /// `RssAnon` and `VmRSS` of `/proc/PID/status`, bytes.
    var anonymousBytes: Int
    var residentBytes: Int
    var descriptors: Int
    /// `write_bytes` of `/proc/PID/io`: bytes that the process has caused to be sent to storage since its start.
    var writtenBytes: Int
    /// Voluntary context switches of all its threads since their start: each is a sleep that ended.
    var wakeUps: Int

    /// - Returns: `nil` when there is no such process any more.
    init?(_ pid: pid_t) {
        guard let status = ProcessFacts.text("/proc/\(pid)/status"), let io = ProcessFacts.text("/proc/\(pid)/io"),
            let anonymous = ProcessFacts.number("RssAnon:", in: status),
            let resident = ProcessFacts.number("VmRSS:", in: status), let written = ProcessFacts.number("write_bytes:", in: io)
        else { return nil }
        // A thread or descriptor that ends meanwhile is not counted.
        descriptors = (try? FileManager.default.contentsOfDirectory(atPath: "/proc/\(pid)/fd").count) ?? 0
        // A process that has ended has no threads.
        let threads = (try? FileManager.default.contentsOfDirectory(atPath: "/proc/\(pid)/task")) ?? []
        wakeUps = threads.reduce(0) { sum, thread in
            let status = ProcessFacts.text("/proc/\(pid)/task/\(thread)/status") ?? ""
            return sum + (ProcessFacts.number("voluntary_ctxt_switches:", in: status) ?? 0)
        }
        anonymousBytes = anonymous * 1_024
        residentBytes = resident * 1_024
        writtenBytes = written
    }

    private static func text(_ path: String) -> String? {
        FileManager.default.contents(atPath: path).map { String(decoding: $0, as: UTF8.self) }
    }

    private static func number(_ name: String, in text: String) -> Int? {
        for line in text.split(separator: "\n") where line.hasPrefix(name) {
            return Int(line.dropFirst(name.utf8.count).filter { $0.isASCII && $0.isNumber })
        }
        return nil
    }
}

/// Bytes of a file; 0 when there is none.
func fileSize(_ path: String) -> Int {
    var status = stat()
    return stat(path, &status) == 0 ? Int(status.st_size) : 0
}
