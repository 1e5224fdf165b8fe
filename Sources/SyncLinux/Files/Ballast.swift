import CSyncLinux
import Glibc
import Synchronization

/// A file that exists only to be removed when the disk is full. Deleting rows needs room as well: SQLite cannot delete at zero free bytes.
///
/// No method throws, because losing the file costs only this reserve.
package final class Ballast: Sendable {
    private let path: String
    private let bytes: Int64
    private let isThere: Mutex<Bool>

    /// - Parameter bytes: Size of the file; 0 for no file, and then an existing one is removed.
    package init(_ path: String, bytes: Int64) {
        self.path = path
        self.bytes = bytes
        var facts = stat()
        let isWhole = lstat(path, &facts) == 0 && Int64(facts.st_size) == bytes
        // A file that was cut off while it was written is made again.
        if !isWhole || bytes == 0 { unlink(path) }
        isThere = Mutex(isWhole && bytes > 0)
    }

    /// Removes the file and frees its room.
    ///
    /// - Returns: `true` when there was a file to remove.
    package func release() -> Bool {
        isThere.withLock { isThere in
            defer { isThere = false }
            return isThere && unlink(path) == 0
        }
    }

    /// Makes the file again when more than twice its size is free above `floor`.
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
        // Random bytes are written. A reservation or zeros would take no room on a file system that compresses or shares blocks.
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
