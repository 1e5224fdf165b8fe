import Glibc
import SyncCore
import SyncLinux

/// The few things done to files and folders for a backup, each with an error that names the file.
enum FileWork {
    static func exists(_ path: String) -> Bool {
        var facts = stat()
        return lstat(path, &facts) == 0
    }

    static func makeFolder(_ path: String) throws(Failure) {
        guard mkdir(path, 0o700) == 0 else { throw failure("make the folder \(path)") }
    }

    static func rename(_ path: String, to target: String) throws(Failure) {
        guard Glibc.rename(path, target) == 0 else { throw failure("rename \(path) to \(target)") }
    }

    /// - Returns: `false` when it was not there.
    @discardableResult
    static func renameIfThere(_ path: String, to target: String) throws(Failure) -> Bool {
        if Glibc.rename(path, target) == 0 { return true }
        guard errno == ENOENT else { throw failure("rename \(path) to \(target)") }
        return false
    }

    /// Names in it are on the disk when this returns.
    static func syncFolder(_ path: String) throws(Failure) {
        let descriptor = Glibc.open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        guard descriptor >= 0 else { throw failure("open the folder \(path)") }
        defer { close(descriptor) }
        guard fsync(descriptor) == 0 else { throw failure("sync the folder \(path)") }
    }

    /// On the disk when this returns; mode 0600.
    ///
    /// - Parameter target: Must not be there.
    /// - Returns: What was copied.
    static func copy(_ path: String, to target: String) throws(Failure) -> BlobDigest {
        let source = Glibc.open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW)
        guard source >= 0 else { throw failure("open \(path)") }
        defer { close(source) }
        let copy = Glibc.open(target, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
        guard copy >= 0 else { throw failure("make \(target)") }
        defer { close(copy) }
        let hash = FileHash()
        try read(source, path) { (bytes) throws(Failure) in
            hash.update(bytes)
            var rest = bytes
            while !rest.isEmpty {
                let count = write(copy, rest.baseAddress, rest.count)
                if count < 0, errno == EINTR { continue }
                guard count > 0 else { throw failure("write \(target)") }
                rest = UnsafeRawBufferPointer(rebasing: rest[count...])
            }
        }
        guard fsync(copy) == 0 else { throw failure("sync \(target)") }
        return hash.blobDigest
    }

    /// SHA-256 of its content, which is on the disk when this returns.
    static func digestAndSync(_ path: String) throws(Failure) -> BlobDigest {
        let source = Glibc.open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW)
        guard source >= 0 else { throw failure("open \(path)") }
        defer { close(source) }
        guard fsync(source) == 0 else { throw failure("sync \(path)") }
        let hash = FileHash()
        try read(source, path) { (bytes) throws(Failure) in hash.update(bytes) }
        return hash.blobDigest
    }

    private static func read(
        _ descriptor: Int32, _ path: String, _ body: (UnsafeRawBufferPointer) throws(Failure) -> Void
    ) throws(Failure) {
        let room = UnsafeMutableRawBufferPointer.allocate(byteCount: 1 << 20, alignment: 16)
        defer { room.deallocate() }
        while true {
            let count = Glibc.read(descriptor, room.baseAddress, room.count)
            if count < 0, errno == EINTR { continue }
            guard count >= 0 else { throw failure("read \(path)") }
            if count == 0 { return }
            try body(UnsafeRawBufferPointer(rebasing: room[..<count]))
        }
    }

    /// Removes a folder with what is in it: files, and folders of files. Follows no link.
    static func removeTree(_ path: String) throws(Failure) {
        if unlink(path) == 0 || errno == ENOENT { return }
        let names: [String]
        do throws(Errno) {
            names = try LinuxFileCalls().names(in: path, for: .listDirectory)
        } catch {
            throw Failure(74, "list \(path): \(error.description)")
        }
        for name in names { try removeTree("\(path)/\(name)") }
        guard rmdir(path) == 0 else { throw failure("remove \(path)") }
    }

    static func failure(_ doing: String) -> Failure { Failure(74, "\(doing): \(String(cString: strerror(errno)))") }
}
