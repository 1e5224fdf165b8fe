import Foundation
package import Glibc

/// What a process holds, as the kernel tells (proc(5)).
package struct ProcessResources: Sendable {
    /// Open descriptors by kind: `socket`, `pipe`, `anon_inode:[eventfd]`, or the path of a file. The numbers that tell two sockets
    /// or pipes apart are left out.
    package var descriptors: [String: Int]
    /// Threads by name.
    package var threads: [String: Int]
    /// Memory in use that is no file's (`RssAnon`), bytes.
    package var anonymousBytes: Int

    /// - Throws: When there is no such process, or not any more.
    package init(of process: pid_t) throws {
        descriptors = try Self.descriptors(of: process)
        threads = [:]
        for thread in try FileManager.default.contentsOfDirectory(atPath: "/proc/\(process)/task") {
            // A thread may end while it is looked at; that is what an absent name means.
            guard let name = try? String(contentsOfFile: "/proc/\(process)/task/\(thread)/comm", encoding: .utf8) else { continue }
            threads[name.trimmingCharacters(in: .whitespacesAndNewlines), default: 0] += 1
        }
        let status = try String(contentsOfFile: "/proc/\(process)/status", encoding: .utf8)
        let line = status.split(separator: "\n").first { $0.hasPrefix("RssAnon:") }
        guard let kibibytes = line?.split(separator: " ", omittingEmptySubsequences: true).dropFirst().first.flatMap({ Int($0) }) else {
            throw CocoaError(.fileReadCorruptFile)
        }
        anonymousBytes = kibibytes << 10
    }

    /// Of this process, when `process` is not given.
    package static func descriptors(of process: pid_t = getpid()) throws -> [String: Int] {
        let folder = "/proc/\(process)/fd"
        var found: [String: Int] = [:]
        for name in try FileManager.default.contentsOfDirectory(atPath: folder) {
            var buffer = [UInt8](repeating: 0, count: 4_096)
            let count = buffer.withUnsafeMutableBytes { bytes in
                bytes.baseAddress.map { readlink("\(folder)/\(name)", $0, bytes.count) } ?? -1
            }
            // The one that lists a folder of this very process is closed by now, and others may be as well.
            guard count > 0 else { continue }
            let target = String(decoding: buffer.prefix(count), as: UTF8.self)
            let isNumbered = target.hasPrefix("socket:") || target.hasPrefix("pipe:")
            found[isNumbered ? String(target.prefix { $0 != ":" }) : target, default: 0] += 1
        }
        return found
    }

    /// What there is more of than before, by kind.
    package static func leftOver(_ now: [String: Int], since before: [String: Int]) -> [String: Int] {
        now.reduce(into: [:]) { left, entry in
            let more = entry.value - before[entry.key, default: 0]
            if more > 0 { left[entry.key] = more }
        }
    }
}

/// A file that nothing else opens, so that each descriptor on it is counted and no other.
package final class MarkedFile {
    package let path: String
    package let descriptor: Int32

    package init(in directory: String) throws {
        path = directory + "/marked-\(UInt32.random(in: 0 ... .max))"
        descriptor = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { throw CocoaError(.fileWriteUnknown) }
    }

    deinit {
        close(descriptor)
    }

    /// Descriptors of this process on this file, beside the one of this object.
    package func othersOpen() throws -> Int {
        try ProcessResources.descriptors()[path, default: 0] - 1
    }
}
