import CSyncLinux
import Glibc

/// The file of a Unix socket. It is created without ever being accessible to more users than wanted. An existing file is replaced only when
/// it is an unused socket of the same user. The file is removed only while it is still the created one.
struct UnixListener {
    /// Listening, non-blocking; the caller must close it.
    let descriptor: Int32
    private let path: String
    private let identity: FileIdentity

    /// The longest path that fits `sun_path` with its NUL (unix(7)).
    static let longestPath = 107

    init(path: String, mode: UInt16, group: UInt32?) throws(HTTPServerError) {
        let doing = "listen on \(path)"
        guard (1...Self.longestPath).contains(path.utf8.count), !path.utf8.contains(0) else {
            throw HTTPServerError(
                .badPath, doing: doing,
                detail: "a socket path has 1 to \(Self.longestPath) bytes, this one has \(path.utf8.count)")
        }
        try Self.checkDirectory(of: path, doing: doing)
        try Self.clear(path, doing: doing)

        // The group's part of the mode comes last: until the file has its group, that part would apply to another group.
        let descriptor = sync_unix_listen(path, UInt32(mode) & 0o700, Int32(HTTPServer.backlog))
        guard descriptor >= 0 else { throw Self.failure(doing, "bind") }
        var made = stat()
        let isReady =
            lstat(path, &made) == 0
            && (group.map { lchown(path, uid_t.max, $0) == 0 } ?? true)
            && chmod(path, mode_t(mode)) == 0
        guard isReady else {
            let failure = Self.failure(doing, "set group and mode")
            unlink(path)
            close(descriptor)
            throw failure
        }
        self.descriptor = descriptor
        self.path = path
        identity = FileIdentity(made)
    }

    /// Removes the file unless another process has put another one in its place.
    func removeFile() {
        if isInPlace { unlink(path) }
    }

    /// `true` when clients find the socket by its name.
    var isInPlace: Bool { FileIdentity(at: path) == identity }

    /// Any user with write access to the directory could replace the socket and impersonate the agent. The directory must therefore belong
    /// to this user or root, and must be sticky, like `/tmp`, if others may write to it.
    private static func checkDirectory(of path: String, doing: String) throws(HTTPServerError) {
        let directory = directory(of: path)
        var found = stat()
        guard stat(directory, &found) == 0 else { throw failure(doing, "look at \(directory)", code: .badDirectory) }
        guard found.st_uid == geteuid() || found.st_uid == 0 else {
            throw HTTPServerError(
                .badDirectory, doing: doing,
                detail: "\(directory) belongs to uid \(found.st_uid), who could replace the socket")
        }
        guard found.st_mode & S_IWOTH == 0 || found.st_mode & S_ISVTX != 0 else {
            throw HTTPServerError(
                .badDirectory, doing: doing, detail: "all users may write to \(directory) and could replace the socket")
        }
    }

    /// Makes room at `path`, if the file there is a socket of this user without a listener.
    private static func clear(_ path: String, doing: String) throws(HTTPServerError) {
        var found = stat()
        guard lstat(path, &found) == 0 else {
            if errno == ENOENT { return }
            throw failure(doing, "look at it")
        }
        guard found.st_mode & S_IFMT == S_IFSOCK else {
            throw HTTPServerError(.notASocket, doing: doing, detail: "there already is a \(kind(found)), not a socket")
        }
        guard found.st_uid == geteuid() else {
            throw HTTPServerError(
                .foreignSocket, doing: doing, detail: "the socket there belongs to uid \(found.st_uid)")
        }
        // Any result except a refusal (a full backlog, a socket of another type) means that a process holds it.
        guard sync_unix_probe(path) != 0, errno == ECONNREFUSED else {
            throw HTTPServerError(.addressInUse, doing: doing, detail: "another process listens there")
        }
        guard unlink(path) == 0 || errno == ENOENT else { throw failure(doing, "remove the stale socket") }
    }

    static func directory(of path: String) -> String {
        guard let slash = path.utf8.lastIndex(of: UInt8(ascii: "/")) else { return "." }
        return slash == path.startIndex ? "/" : String(path[..<slash])
    }

    private static func kind(_ found: stat) -> String {
        switch found.st_mode & S_IFMT {
        case S_IFREG: "regular file"
        case S_IFDIR: "directory"
        case S_IFLNK: "symbolic link"
        case S_IFIFO: "FIFO"
        default: "device"
        }
    }

    private static func failure(
        _ doing: String, _ step: String, code: HTTPServerError.Code = .system
    ) -> HTTPServerError {
        let words = String(cString: strerror(errno))
        return HTTPServerError(code, doing: doing, detail: "\(step): \(words)")
    }
}

/// The identity of a file, independent of its name.
struct FileIdentity: Equatable, Sendable {
    private let device: UInt64
    private let inode: UInt64

    /// The file with this name, a link itself; `nil` when there is none, or it cannot be inspected.
    init?(at path: String) {
        var found = stat()
        guard lstat(path, &found) == 0 else { return nil }
        self.init(found)
    }

    init(_ found: stat) {
        device = UInt64(found.st_dev)
        inode = UInt64(found.st_ino)
    }
}
