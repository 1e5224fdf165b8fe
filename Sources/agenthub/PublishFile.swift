import Glibc
import HubServer
import SyncCore

/// A file of records to publish, read piece by piece: it may be larger than memory.
final class PublishFile {
    /// Whole lines of the file.
    struct Piece {
        var bytes: [UInt8]
        /// Numbers of its lines in the file, from 1.
        var firstLine: Int
        var lastLine: Int
    }

    let path: String
    private let descriptor: Int32
    /// Bytes that were read, and belong to no piece yet.
    private var rest: [UInt8] = []
    private var isAtEnd = false
    private var nextLine = 1

    private static let readBytes = 1 << 20

    init(_ path: String) throws(Failure) {
        self.path = path
        // A FIFO would wait for its writer, and cannot be read twice.
        descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)
        guard descriptor >= 0 else { throw Self.failure(path, "open") }
        var facts = stat()
        guard fstat(descriptor, &facts) == 0, facts.st_mode & S_IFMT == S_IFREG else {
            close(descriptor)
            throw Failure(74, "\(path) is no file. Write the records into a file first: it is read twice")
        }
    }

    deinit {
        close(descriptor)
    }

    private static func failure(_ path: String, _ doing: String) -> Failure {
        Failure(74, "\(doing) \(path): \(String(cString: strerror(errno)))")
    }

    /// Begins again with the first line.
    func rewind() throws(Failure) {
        guard lseek(descriptor, 0, SEEK_SET) == 0 else { throw Self.failure(path, "read") }
        (rest, isAtEnd, nextLine) = ([], false, 1)
    }

    /// The next lines: up to the limits of a transaction, and at least one. `nil` at the end.
    func next() throws(Failure) -> Piece? {
        while !isAtEnd, rest.count < PublishedLines.bytesAtOnce { try read() }
        guard !rest.isEmpty else { return nil }
        var (end, lines) = (0, 0)
        while lines < PublishedLines.recordsAtOnce, end < rest.count {
            let feed = rest[end...].firstIndex(of: UInt8(ascii: "\n"))
            // A line that is not complete yet: it waits for its rest, or is too long to be one.
            guard feed != nil || isAtEnd || lines == 0 else { break }
            let next = feed.map { $0 + 1 } ?? rest.count
            if lines > 0, next > PublishedLines.bytesAtOnce { break }
            (end, lines) = (next, lines + 1)
        }
        let piece = Piece(bytes: Array(rest[..<end]), firstLine: nextLine, lastLine: nextLine + lines - 1)
        rest.removeFirst(end)
        nextLine += lines
        return piece
    }

    /// The whole file, of at most so many bytes.
    func whole(atMost limit: Int) throws(Failure) -> Piece {
        while !isAtEnd, rest.count <= limit { try read() }
        guard rest.count <= limit else {
            throw Failure(
                65,
                "\(path) has more than \(limit >> 20) MiB, which is the limit of --atomic. Publish it without --atomic, or in several files"
            )
        }
        let lines = rest.count { $0 == UInt8(ascii: "\n") } + (rest.isEmpty || rest.last == UInt8(ascii: "\n") ? 0 : 1)
        defer { rest = [] }
        return Piece(bytes: rest, firstLine: 1, lastLine: lines)
    }

    private func read() throws(Failure) {
        var code: Int32 = 0
        let piece = [UInt8](unsafeUninitializedCapacity: Self.readBytes) { buffer, initialized in
            var count = 0
            repeat { count = Glibc.read(descriptor, buffer.baseAddress, buffer.count) } while count < 0 && errno == EINTR
            if count < 0 { code = errno }
            initialized = max(0, count)
        }
        guard code == 0 else { throw Failure(74, "read \(path): \(String(cString: strerror(code)))") }
        if piece.isEmpty { isAtEnd = true }
        rest += piece
    }
}
