import CSQLite
import Foundation
import Glibc
import Synchronization

/// Lets calls of SQLite on one file fail, below everything that is ours. Other files and other tests feel nothing of it.
final class FailingMedium: Sendable {
    enum Call: Sendable { case read, write }

    struct Rule: Sendable {
        var call: Call
        /// End of the path of the file.
        var file: String
        var error: Int32
        /// The first call that fails, from 1 on, and how many after it do.
        var first: Int
        var count: Int
    }

    private static let state = Mutex<(rule: Rule, made: Int)?>(nil)

    /// Rules one test at a time; the end of the instance is the end of the fault.
    init(_ rule: Rule) {
        _ = Self.isInPlace
        Self.state.withLock { $0 = (rule, 0) }
    }

    deinit { Self.state.withLock { $0 = nil } }

    /// Number of calls on the file so far.
    var made: Int { Self.state.withLock { $0?.made ?? 0 } }

    /// - Returns: `errno` of the failure.
    fileprivate static func failure(_ call: Call, _ descriptor: Int32) -> Int32? {
        state.withLock { state in
            guard let rule = state?.rule, rule.call == call, path(of: descriptor).hasSuffix(rule.file) else { return nil }
            state?.made += 1
            let made = state?.made ?? 0
            return made >= rule.first && made - rule.first < rule.count ? rule.error : nil
        }
    }

    private static func path(of descriptor: Int32) -> String {
        (try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/fd/\(descriptor)")) ?? ""
    }

    /// SQLite lets tests put calls of their own in the place of the system's (sqlite3.h, `xSetSystemCall`).
    private static let isInPlace: Bool = {
        guard let unix = sqlite3_vfs_find("unix"), let set = unix.pointee.xSetSystemCall else { return false }
        let read: @convention(c) (Int32, UnsafeMutableRawPointer, Int, off_t) -> Int = { descriptor, bytes, count, place in
            guard let error = FailingMedium.failure(.read, descriptor) else { return pread(descriptor, bytes, count, place) }
            errno = error
            return -1
        }
        let write: @convention(c) (Int32, UnsafeRawPointer, Int, off_t) -> Int = { descriptor, bytes, count, place in
            guard let error = FailingMedium.failure(.write, descriptor) else { return pwrite(descriptor, bytes, count, place) }
            errno = error
            return -1
        }
        for name in ["pread", "pread64"] { _ = set(unix, name, unsafeBitCast(read, to: sqlite3_syscall_ptr.self)) }
        for name in ["pwrite", "pwrite64"] { _ = set(unix, name, unsafeBitCast(write, to: sqlite3_syscall_ptr.self)) }
        return true
    }()
}
