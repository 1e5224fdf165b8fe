import Glibc
import SyncCore
import SyncStore
import Synchronization

/// `acknowledged`: the highest mutation that was acknowledged to an app, written after every commit, outside of the database.
///
/// A log that lost its end opens without an error (FIELD section 3: after one flipped bit, 30 of 60 committed rows are gone); only a second
/// record reveals it. The file is written without fsync, 27 bytes in one page. After a power cut it may be behind the true number, but
/// never ahead of it, because the commit is on flash first. So it causes no false alarm, and costs one page of flash per write-back of the
/// kernel.
///
/// Numbers continue over every change of the replica, so the file does not name one.
///
///     <number, 20 digits> <check, 5 digits>\n
final class AcknowledgedFile: Sendable {
    private let path: String
    /// The descriptor; negative while the file cannot be written. Then every commit tries to open it.
    private let descriptor: Mutex<Int32>

    init(stateFolder: String) {
        path = stateFolder + "/acknowledged"
        descriptor = Mutex(Self.openForWriting(path))
    }

    deinit {
        descriptor.withLock { _ = close($0) }
    }

    private static func openForWriting(_ path: String) -> Int32 {
        open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0o600)
    }

    /// Opens the file again, because another file may have its name by now.
    func openAgain() {
        descriptor.withLock { descriptor in
            close(descriptor)
            descriptor = Self.openForWriting(path)
        }
    }

    /// - Returns: `nil` when the file holds no complete number.
    func read() -> Int64? {
        // A read-only disk keeps the record all the same.
        let descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)
        guard descriptor >= 0 else { return nil }
        defer { close(descriptor) }
        var bytes = [UInt8](repeating: 0, count: 64)
        var count = pread(descriptor, &bytes, bytes.count, 0)
        // A failed read mostly succeeds the second time.
        if count < 0 { count = pread(descriptor, &bytes, bytes.count, 0) }
        guard count > 0 else { return nil }
        let parts = String(decoding: bytes.prefix(count), as: UTF8.self).split(separator: "\n").first?.split(separator: " ") ?? []
        guard parts.count == 2, let number = Int64(parts[0]), let check = Int64(parts[1]), check == Self.check(number),
            (0...(1 << 53)).contains(number)
        else { return nil }
        return number
    }

    /// Writes the number. It must not block, so it writes to the page cache.
    func write(_ number: Int64) {
        let line = "\(PlainText.digits(number, 20)) \(PlainText.digits(Self.check(number), 5))\n"
        var text = line
        descriptor.withLock { descriptor in
            if descriptor < 0 { descriptor = Self.openForWriting(path) }
            text.withUTF8 { bytes in _ = pwrite(descriptor, bytes.baseAddress, bytes.count, 0) }
        }
    }

    private static func check(_ number: Int64) -> Int64 { (number & .max) % 99_991 }
}
