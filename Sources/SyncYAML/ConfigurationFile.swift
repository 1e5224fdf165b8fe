import CYAML
import Glibc
import SyncCore

/// The bytes of a configuration file, or the error that prevented reading it.
package struct ConfigurationFile: Sendable {
    package var name: String
    package var contents: Result<[UInt8], ConfigurationError>
    /// The time of writing by the file system; `nil` where that proves nothing.
    package var stamp: FileStamp?

    package init(name: String, contents: Result<[UInt8], ConfigurationError>, stamp: FileStamp? = nil) {
        self.name = name
        self.contents = contents
        self.stamp = stamp
    }

    package init(name: String, text: String) {
        self.init(name: name, contents: .success(Array(text.utf8)))
    }

    /// Reads a regular file of at most ``YAMLDocument/maxBytes``. Never waits: a FIFO or device is refused unopened.
    package static func read(_ path: String) -> ConfigurationFile {
        do throws(Failure) {
            let (bytes, stamp) = try bytes(of: path)
            return ConfigurationFile(name: path, contents: .success(bytes), stamp: stamp)
        } catch {
            return ConfigurationFile(path, error)
        }
    }

    /// The files `*.yaml` in a folder, in the order of the bytes of their names. Hidden files are left out: editors and package managers
    /// put their copies there.
    ///
    /// - Returns: Nothing when the folder does not exist; the error as a file when it cannot be read, because settings must not vanish
    ///   silently.
    package static func readAll(in folder: String) -> [ConfigurationFile] {
        guard let directory = opendir(folder) else {
            if errno == ENOENT { return [] }
            return [ConfigurationFile(folder, Failure(errno))]
        }
        defer { closedir(directory) }
        var names: [String] = []
        errno = 0
        while let entry = readdir(directory) {
            let name = String(cString: cyaml_entry_name(entry))
            if name.hasSuffix(".yaml"), !name.hasPrefix(".") { names.append(name) }
            errno = 0
        }
        if errno != 0 { return [ConfigurationFile(folder, Failure(errno))] }
        return names.sorted { precedesInBytes($0, $1) }.map { read(folder + "/" + $0) }
    }

    private init(_ path: String, _ failure: Failure) {
        let error = ConfigurationError(file: path, problem: failure.problem, expected: failure.expected)
        self.init(name: path, contents: .failure(error))
    }

    private static func bytes(of path: String) throws(Failure) -> ([UInt8], FileStamp?) {
        // C would cut the name at a NUL.
        guard !path.utf8.contains(0) else { throw Failure(EINVAL) }
        // Checked before it is opened, because opening alone wakes some devices (a watchdog counts from then on). It is checked again
        // afterwards, because it may have been replaced in between.
        var status = stat()
        guard stat(path, &status) == 0 else { throw Failure(errno) }
        try checkKind(status)
        let descriptor = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY)
        guard descriptor >= 0 else { throw Failure(errno) }
        defer { close(descriptor) }
        guard fstat(descriptor, &status) == 0 else { throw Failure(errno) }
        try checkKind(status)
        // Taken before the content: a write in between has a later stamp.
        let stamp = FileStamp(status, now: now())
        return (try bytes(of: descriptor), stamp)
    }

    private static func now() -> Int64 {
        var now = timespec()
        clock_gettime(CLOCK_REALTIME, &now)
        return Int64(now.tv_sec) * 1_000_000_000 + Int64(now.tv_nsec)
    }

    /// Reads up to one byte more than allowed; the parser then reports that it is too large. The size from `stat` is not used, because a
    /// file may grow meanwhile.
    private static func bytes(of descriptor: Int32) throws(Failure) -> [UInt8] {
        let limit = YAMLDocument.maxBytes + 1
        var bytes: [UInt8] = []
        while bytes.count < limit {
            var code: Int32 = 0
            let piece = [UInt8](unsafeUninitializedCapacity: min(65_536, limit - bytes.count)) { buffer, initialized in
                var count = 0
                repeat {
                    count = Glibc.read(descriptor, buffer.baseAddress, buffer.count)
                } while count < 0 && errno == EINTR
                if count < 0 { code = errno }
                initialized = max(0, count)
            }
            if code != 0 { throw Failure(code) }
            if piece.isEmpty { break }
            bytes += piece
        }
        return bytes
    }

    private static func checkKind(_ status: stat) throws(Failure) {
        switch status.st_mode & S_IFMT {
        case S_IFREG: return
        case S_IFDIR: throw Failure(notAFile: "a directory")
        case S_IFIFO: throw Failure(notAFile: "a FIFO")
        case S_IFSOCK: throw Failure(notAFile: "a socket")
        default: throw Failure(notAFile: "a device")
        }
    }

    private struct Failure: Error {
        var code: Int32
        var problem: String
        var expected: String?

        init(_ code: Int32) {
            self.code = code
            switch code {
            case ENOENT: problem = "no such file"
            case EACCES, EPERM: problem = "not allowed to read it"
            case ENOTDIR: problem = "a part of the path is not a directory"
            case ELOOP: problem = "too many symbolic links"
            default: problem = String(cString: strerror(code))
            }
        }

        init(notAFile kind: String) {
            code = 0
            problem = kind
            expected = "a file"
        }
    }
}
