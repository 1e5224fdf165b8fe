import CProcessStand
import Foundation
package import Glibc

/// The resources of a process, as the kernel tells them (proc(5)).
package struct ProcessResources: Sendable {
    /// Open descriptors by kind: `unix socket`, `tcp socket`, `pipe`, `anon_inode:[eventfd]`, or the path of a file. The numbers
    /// that tell two sockets or pipes apart are left out.
    package var descriptors: [String: Int]
    /// Threads by name.
    package var threads: [String: Int]
    /// Processes that it has started and that have not ended or were not collected.
    package var children: Int
    /// Memory in use that is no file's (`RssAnon`), bytes.
    package var anonymousBytes: Int

    /// The process has ended, collected or not, and holds no resources.
    package struct Ended: Error {}

    /// - Throws: ``Ended``, or why the kernel does not tell.
    package init(of process: pid_t) throws {
        do {
            try self.init(asking: process)
        } catch {
            if Self.memory(of: process) == nil { throw Ended() }
            throw error
        }
    }

    /// The lines about memory, which a process that has ended has none of.
    private static func memory(of process: pid_t) -> Int? {
        let status = try? String(contentsOfFile: "/proc/\(process)/status", encoding: .utf8)
        let line = status?.split(separator: "\n").first { $0.hasPrefix("RssAnon:") }
        return line?.split(separator: " ", omittingEmptySubsequences: true).dropFirst().first.flatMap { Int($0) }.map { $0 << 10 }
    }

    private init(asking process: pid_t) throws {
        descriptors = try Self.descriptors(of: process)
        threads = [:]
        children = 0
        for thread in try FileManager.default.contentsOfDirectory(atPath: "/proc/\(process)/task") {
            // A thread may end while it is looked at; that is what an absent name means.
            guard let name = try? String(contentsOfFile: "/proc/\(process)/task/\(thread)/comm", encoding: .utf8) else { continue }
            threads[name.trimmingCharacters(in: .whitespacesAndNewlines), default: 0] += 1
            let list = try? String(contentsOfFile: "/proc/\(process)/task/\(thread)/children", encoding: .utf8)
            children += list?.split(separator: " ").count ?? 0
        }
        guard let bytes = Self.memory(of: process) else { throw Ended() }
        anonymousBytes = bytes
    }

    /// The descriptors of `process`; by default of this one.
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
            if target.hasPrefix("socket:") {
                guard let kind = try Self.socketKind("\(folder)/\(name)") else { continue }
                found["\(kind) socket", default: 0] += 1
            } else {
                found[target.hasPrefix("pipe:") ? "pipe" : target, default: 0] += 1
            }
        }
        return found
    }

    /// `tcp`, `udp`, `unix` or `netlink`, for IPv6 as well; `nil` when the descriptor is closed meanwhile.
    ///
    /// The kernel tells it of each descriptor. Its tables in `/proc/PID/net` tell it as well, but to make that of TCP the kernel looks at
    /// each place of a table with room for all connections of the machine, which takes a thousand times as long.
    private static func socketKind(_ descriptor: String) throws -> String? {
        var name = [CChar](repeating: 0, count: 64)
        let length = stand_socket_protocol(descriptor, &name, UInt(name.count))
        if length == -Int(ENOENT) { return nil }
        guard length > 0 else { throw POSIXError(POSIXErrorCode(rawValue: Int32(-length)) ?? .EIO) }
        let letters = name.prefix { $0 != 0 && $0 != CChar(UInt8(ascii: "v")) && $0 != CChar(UInt8(ascii: "-")) }
        return String(decoding: letters.map(UInt8.init), as: UTF8.self).lowercased()
    }

    /// The resources that there are more of than before, by kind.
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
