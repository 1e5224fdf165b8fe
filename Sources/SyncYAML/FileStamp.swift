// Either of these two modules declares the times of stat(2), depending on which one the compiler reads first.
import CYAML
package import Glibc

/// The time of a file's last write by the file system (stat(2)). Every write changes the file's `ctime`, which no program can set.
/// Different content under the same stamp therefore comes from no program: the medium has changed it.
package struct FileStamp: Hashable, Sendable {
    package var inode: UInt64
    package var sizeBytes: Int64
    /// Nanoseconds since 1970-01-01 UTC.
    package var modified: Int64
    package var changed: Int64

    package init(inode: UInt64, sizeBytes: Int64, modified: Int64, changed: Int64) {
        self.inode = inode
        self.sizeBytes = sizeBytes
        self.modified = modified
        self.changed = changed
    }

    /// - Parameter now: Nanoseconds since 1970-01-01 UTC.
    /// - Returns: `nil` for a file that was written just now: within one tick of the file system's clock a second write leaves the same
    ///   stamp (10 ms at most with ext4, 2 s with FAT, which has no fractions of a second).
    package init?(_ facts: stat, now: Int64) {
        self.init(
            inode: UInt64(facts.st_ino), sizeBytes: Int64(facts.st_size), modified: Self.nanoseconds(facts.st_mtim),
            changed: Self.nanoseconds(facts.st_ctim))
        let isCoarse = facts.st_mtim.tv_nsec == 0 && facts.st_ctim.tv_nsec == 0
        let tick: Int64 = isCoarse ? 2_000_000_000 : 20_000_000
        let last = max(modified, changed)
        guard now < last || last < now - tick else { return nil }
    }

    private static func nanoseconds(_ time: timespec) -> Int64 {
        // Beyond the year 2262 all times count as the same.
        let (seconds, overflow) = Int64(time.tv_sec).multipliedReportingOverflow(by: 1_000_000_000)
        return overflow ? .max : seconds.addingReportingOverflow(Int64(time.tv_nsec)).partialValue
    }
}
