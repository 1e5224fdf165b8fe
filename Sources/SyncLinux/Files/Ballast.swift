import CSyncLinux
import Glibc
import Synchronization

/// A file that is kept only to be removed when the disk is full, because deleting rows takes room as well: SQLite cannot
/// delete at zero free bytes.
///
/// Its loss costs nothing but that comfort, so nothing here throws.
package final class Ballast: Sendable {
    private let path: String
    private let bytes: Int64
    private let isThere: Mutex<Bool>

    /// - Parameter bytes: 0 for none; one that is there from before is removed then.
    package init(_ path: String, bytes: Int64) {
        self.path = path
        self.bytes = bytes
        var facts = stat()
        let isWhole = lstat(path, &facts) == 0 && Int64(facts.st_size) == bytes
        // One that was cut off while it was made is made again.
        if !isWhole || bytes == 0 { unlink(path) }
        isThere = Mutex(isWhole && bytes > 0)
    }

    /// Gives the room back.
    ///
    /// - Returns: Whether there was any.
    package func release() -> Bool {
        isThere.withLock { isThere in
            defer { isThere = false }
            return isThere && unlink(path) == 0
        }
    }

    /// Makes it where there is room for twice as much above what must stay free.
    package func restore(freeBytes: Int64?, above floor: Int64) {
        guard let freeBytes, bytes > 0, freeBytes - floor > 2 * bytes else { return }
        isThere.withLock { isThere in
            guard !isThere else { return }
            isThere = make()
            if !isThere { unlink(path) }
        }
    }

    private func make() -> Bool {
        let descriptor = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0o600)
        guard descriptor >= 0 else { return false }
        defer { close(descriptor) }
        // Written, not only reserved: a file system that compresses or shares blocks would keep nothing for zeros.
        var generator = SystemRandomNumberGenerator()
        var piece = [UInt8](repeating: 0, count: 64 << 10)
        var left = bytes
        while left > 0 {
            for index in stride(from: 0, to: piece.count, by: 512) { piece[index] = UInt8.random(in: .min ... .max, using: &generator) }
            let count = write(descriptor, piece, Int(min(left, Int64(piece.count))))
            guard count > 0 else { return false }
            left -= Int64(count)
        }
        return fsync(descriptor) == 0
    }
}
