import Glibc
import HubServer
import SyncLinux
import Synchronization

/// The book of tokens on disk. Commands replace it as a whole; the server detects this and reads it again.
struct TokenFile: Sendable {
    let path: String

    static let maxBytes = 64 << 20

    func read() throws(Failure) -> TokenBook {
        do throws(LinuxError) {
            let bytes = try DurableFiles(calls: LinuxFileCalls()).read(path, maxBytes: TokenFile.maxBytes)
            return try Self.parse(bytes)
        } catch {
            if error.code == .missing { return TokenBook() }
            throw Failure(error)
        }
    }

    private static func parse(_ bytes: [UInt8]) throws(LinuxError) -> TokenBook {
        do throws(HubError) {
            return try TokenBook(reading: String(decoding: bytes, as: UTF8.self))
        } catch {
            throw LinuxError(.malformed, doing: error.doing, expected: error.detail)
        }
    }

    /// Reads, changes and writes the book under a lock against other commands.
    func update<T>(_ change: (inout TokenBook) throws(Failure) -> T) throws(Failure) -> T {
        let lock = open(path + ".lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0o600)
        guard lock >= 0 else { throw Failure(73, "open \(path).lock: \(String(cString: strerror(errno)))") }
        defer { close(lock) }
        // Another command holds it for milliseconds only.
        while flock(lock, LOCK_EX) != 0 {
            guard errno == EINTR else { throw Failure(73, "lock \(path).lock: \(String(cString: strerror(errno)))") }
        }
        // Commands write the book under this lock alone. `try?`: leftovers do no harm, and the next command tries it again.
        _ = try? DurableFiles(calls: LinuxFileCalls()).removeLeftovers(of: path, owner: geteuid())
        var book = try read()
        let result = try change(&book)
        do throws(LinuxError) {
            try DurableFiles(calls: LinuxFileCalls()).write(Array(book.text.utf8), to: path, mode: 0o600)
        } catch {
            throw Failure(error)
        }
        return result
    }
}

/// The book as the server sees it: each query costs one `stat`, and a read only when the file has changed.
final class TokenWatch: Sendable {
    private struct Facts: Equatable {
        var device: UInt64
        var inode: UInt64
        var size: Int64
        var seconds: Int
        var nanoseconds: Int
    }

    private struct State {
        var facts: Facts?
        var book = TokenBook()
    }

    private let file: TokenFile
    private let report: @Sendable (String) -> Void
    private let state: Mutex<State>

    /// - Throws: When the present book cannot be read. Later, a damaged one is reported and the last good one stays in force.
    init(_ file: TokenFile, report: @escaping @Sendable (String) -> Void) throws(Failure) {
        self.file = file
        self.report = report
        let facts = Self.facts(of: file.path)
        state = Mutex(State(facts: facts, book: try file.read()))
    }

    func current() -> TokenBook {
        let facts = Self.facts(of: file.path)
        return state.withLock { state in
            if facts != state.facts {
                state.facts = facts
                do throws(Failure) {
                    state.book = try file.read()
                } catch {
                    report(error.text)
                }
            }
            return state.book
        }
    }

    private static func facts(of path: String) -> Facts? {
        var status = stat()
        guard stat(path, &status) == 0 else { return nil }
        return Facts(
            device: UInt64(status.st_dev), inode: UInt64(status.st_ino), size: Int64(status.st_size),
            seconds: status.st_mtim.tv_sec, nanoseconds: status.st_mtim.tv_nsec)
    }
}
