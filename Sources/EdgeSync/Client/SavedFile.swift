import Glibc

/// A new file beside its final name. ``commit()`` makes it durable and gives it that name, in place of a file that has it.
///
/// Sendable without a check of the compiler: one thread uses it, one call at a time. Without ``commit()`` it is removed with this object.
final class SavedFile: @unchecked Sendable {
    private let path: String
    private let folder: String
    private let part: String
    private var descriptor: Int32 = -1

    init(_ path: String) {
        self.path = path
        folder = path.utf8.lastIndex(of: UInt8(ascii: "/")).map { String(decoding: path.utf8[...$0], as: UTF8.self) } ?? "./"
        part = folder + ".edgesync-\(String(UInt64.random(in: 0 ... .max), radix: 16)).part"
    }

    deinit {
        guard descriptor >= 0 else { return }
        close(descriptor)
        unlink(part)
    }

    func open() throws(EdgeSyncError) {
        guard !path.utf8.contains(0) else { throw .localFile(path, EINVAL) }
        // The permissions are those of any new file of this process.
        descriptor = Glibc.open(part, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o666)
        guard descriptor >= 0 else { throw .localFile(path, errno) }
    }

    func write(_ piece: [UInt8]) throws(EdgeSyncError) {
        try Self.write(piece, to: descriptor, path)
    }

    func commit() throws(EdgeSyncError) {
        guard fsync(descriptor) == 0, rename(part, path) == 0 else { throw .localFile(path, errno) }
        close(descriptor)
        descriptor = -1
        // The name is durable when its folder is.
        let directory = Glibc.open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        guard directory >= 0 else { throw .localFile(path, errno) }
        defer { close(directory) }
        guard fsync(directory) == 0 else { throw .localFile(path, errno) }
    }

    /// Writes all of a piece.
    ///
    /// - Parameter name: Name of the file for the error.
    static func write(_ piece: [UInt8], to descriptor: Int32, _ name: String) throws(EdgeSyncError) {
        var rest = piece[...]
        while !rest.isEmpty {
            let count = rest.withUnsafeBytes { Glibc.write(descriptor, $0.baseAddress, $0.count) }
            if count < 0 {
                if errno == EINTR { continue }
                throw .localFile(name, errno)
            }
            rest = rest.dropFirst(count)
        }
    }
}
