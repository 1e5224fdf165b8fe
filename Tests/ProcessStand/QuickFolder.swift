import Foundation
import Glibc

/// Where tests put databases that they open and throw away by the hundred: in memory, where that can be had.
///
/// What a sync is for cannot be seen by a program that goes on running: the power cuts of `PowerCutKit` prove it, and the programs of
/// `EndToEndTests` work on the disk. So a database of a test need not wait for a medium at each of its commits, some milliseconds.
package enum QuickFolder {
    private static let memory = "/dev/shm"

    /// For databases of SQLite, of which the tests of a store never have nearly a gigabyte at once. A path without a slash at its end.
    package static let parent = folder(free: 1_000_000_000)

    /// A path without a slash at its end: memory where so much is free there, and the usual folder for temporary files otherwise.
    package static func folder(free bytes: UInt64) -> String {
        var facts = statvfs()
        guard access(memory, W_OK | X_OK) == 0, statvfs(memory, &facts) == 0, UInt64(facts.f_bavail) * UInt64(facts.f_frsize) > bytes else {
            let usual = NSTemporaryDirectory()
            return usual.hasSuffix("/") ? String(usual.dropLast()) : usual
        }
        return memory
    }
}
