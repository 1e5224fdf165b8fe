import Glibc
import SyncCore
import SyncLinux

/// The operations on files and folders for a backup, each with an error that names the file.
enum BackupFiles {
    private static let calls = LinuxFileCalls()
    private static let pieceBytes = 1 << 20

    static func exists(_ path: String) -> Bool {
        (try? calls.facts(at: path, for: .inspectFile)) != nil  // a path that cannot be inspected cannot be used either
    }

    static func makeFolder(_ path: String) throws(Failure) {
        try tried("make the folder \(path)") { () throws(Errno) in
            try calls.makeDirectory(path, mode: 0o700, for: .makeState)
        }
    }

    static func rename(_ path: String, to target: String) throws(Failure) {
        try tried("rename \(path) to \(target)") { () throws(Errno) in try calls.rename(path, to: target, for: .rename) }
    }

    /// - Returns: `false` when it did not exist.
    @discardableResult
    static func renameIfThere(_ path: String, to target: String) throws(Failure) -> Bool {
        try tried("rename \(path) to \(target)") { () throws(Errno) in
            do throws(Errno) {
                try calls.rename(path, to: target, for: .rename)
                return true
            } catch {
                guard error.number == ENOENT else { throw error }
                return false
            }
        }
    }

    /// Syncs a folder: the names in it are on disk when this returns.
    static func syncFolder(_ path: String) throws(Failure) {
        try withFile("open the folder \(path)", path, O_RDONLY | O_DIRECTORY) { (folder) throws(Failure) in
            try tried("sync the folder \(path)") { () throws(Errno) in try calls.sync(folder, for: .syncDirectory) }
        }
    }

    /// Copies a file. The copy is on disk when this returns, with mode 0600.
    ///
    /// - Parameter target: Must not exist.
    /// - Returns: SHA-256 of the copied content.
    static func copy(_ path: String, to target: String) throws(Failure) -> BlobDigest {
        try withFile("open \(path)", path, O_RDONLY | O_NOFOLLOW) { (source) throws(Failure) in
            try withFile("make \(target)", target, O_WRONLY | O_CREAT | O_EXCL) { (copy) throws(Failure) in
                let digest = try read(source, path) { (bytes) throws(Failure) in
                    var rest = bytes[...]
                    while !rest.isEmpty {
                        let count = try tried("write \(target)") { () throws(Errno) in
                            try calls.write(copy, rest, for: .writeTemporary)
                        }
                        rest = rest.dropFirst(count)
                    }
                }
                try tried("sync \(target)") { () throws(Errno) in try calls.sync(copy, for: .syncTemporary) }
                return digest
            }
        }
    }

    /// SHA-256 of the file's content, which is on disk when this returns.
    static func digestAndSync(_ path: String) throws(Failure) -> BlobDigest {
        try withFile("open \(path)", path, O_RDONLY | O_NOFOLLOW) { (source) throws(Failure) in
            try tried("sync \(path)") { () throws(Errno) in try calls.sync(source, for: .syncTemporary) }
            return try read(source, path)
        }
    }

    /// Removes a folder with its content: files, and folders of files. Follows no link.
    static func removeTree(_ path: String) throws(Failure) {
        if unlink(path) == 0 || errno == ENOENT { return }
        let names = try tried("list \(path)") { () throws(Errno) in try calls.names(in: path, for: .listDirectory) }
        for name in names { try removeTree("\(path)/\(name)") }
        try tried("remove \(path)") { () throws(Errno) in
            if rmdir(path) != 0 { throw Errno(number: errno) }
        }
    }

    // MARK: Parts

    /// - Returns: SHA-256 of the bytes that were read.
    private static func read(
        _ descriptor: Int32, _ path: String, _ body: ([UInt8]) throws(Failure) -> Void = { _ in }
    ) throws(Failure) -> BlobDigest {
        let hash = FileHash()
        while true {
            let bytes = try tried("read \(path)") { () throws(Errno) in
                try calls.read(descriptor, upTo: pieceBytes, for: .readFile)
            }
            if bytes.isEmpty { return hash.blobDigest }
            hash.update(bytes)
            try body(bytes)
        }
    }

    private static func withFile<T>(
        _ doing: String, _ path: String, _ flags: Int32, _ body: (Int32) throws(Failure) -> T
    ) throws(Failure) -> T {
        let descriptor = try tried(doing) { () throws(Errno) in try calls.open(path, flags: flags, mode: 0o600, for: .openFile) }
        defer { try? calls.close(descriptor, for: .closeFile) }  // the content was synced before
        return try body(descriptor)
    }

    private static func tried<T>(_ doing: String, _ call: () throws(Errno) -> T) throws(Failure) -> T {
        do throws(Errno) {
            return try call()
        } catch {
            throw Failure(74, "\(doing): \(error.description)")
        }
    }
}
