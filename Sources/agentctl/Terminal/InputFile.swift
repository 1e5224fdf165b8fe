import Glibc
import LocalAPI
import SyncCore

/// A file, or standard input for `-`, which is read in pieces.
final class InputFile: Sendable {
    private let file: Int32
    /// Descriptor of a regular file, to pass it on.
    var descriptor: Int32? { size == nil ? nil : file }
    /// Size, bytes; `nil` when it is no regular file.
    let size: Int64?

    init(_ path: String) throws(CommandFailure) {
        if path == "-" {
            file = STDIN_FILENO
        } else {
            file = open(path, O_RDONLY | O_CLOEXEC)
            if file < 0 { throw InputFile.failure("open", path) }
        }
        var facts = stat()
        let isRegular = fstat(file, &facts) == 0 && facts.st_mode & S_IFMT == S_IFREG
        size = isRegular ? Int64(facts.st_size) : nil
    }

    deinit {
        if file != STDIN_FILENO { close(file) }
    }

    /// - Parameter patience: Time without data after which a pipe or terminal returns `nothingYet`.
    func read(upTo count: Int, patience: Duration? = nil) -> ImportPiece {
        if let patience, size == nil {
            var poller = pollfd(fd: file, events: Int16(POLLIN), revents: 0)
            let milliseconds =
                patience.components.seconds * 1_000 + patience.components.attoseconds / 1_000_000_000_000_000
            if poll(&poller, 1, Int32(clamping: milliseconds)) == 0 { return .nothingYet }
        }
        while true {
            var buffer = [UInt8](repeating: 0, count: count)
            let got = buffer.withUnsafeMutableBytes { Glibc.read(file, $0.baseAddress, $0.count) }
            if got > 0 { return .bytes(Array(buffer.prefix(got))) }
            if got == 0 { return .end }
            if errno != EINTR { return .failed(String(cString: strerror(errno))) }
        }
    }

    /// The whole file.
    static func contents(of path: String, max: Int) throws(CommandFailure) -> [UInt8] {
        let file = try InputFile(path)
        var contents: [UInt8] = []
        while true {
            switch file.read(upTo: 64 << 10) {
            case .bytes(let bytes): contents += bytes
            case .nothingYet: continue
            case .end: return contents
            case .failed: throw failure("read", path)
            }
            guard contents.count <= max else {
                throw CommandFailure.failed("too-large", "\(path) is larger than \(SizeText.exact(Int64(max)))")
            }
        }
    }

    private static func failure(_ verb: String, _ path: String) -> CommandFailure {
        CommandFailure.failed("file", "cannot \(verb) \(path): " + String(cString: strerror(errno)))
    }
}
