import CSyncLinux
import Glibc
package import SyncCore
import Synchronization

/// Blobs in a folder of the state directory or of the hub's data (``BlobFolder``).
///
/// The steps that end an intake have an order in which a crash is harmless after each of them: bytes, `fsync`, `rename`, `fsync` of the
/// folder, answer to the caller. A crash before the rename leaves a file in `incoming/` that nothing refers to.
package final class BlobFiles: BlobFolder {
    let path: String
    /// Folders whose names are known to be on the medium, because this object has synced them.
    private let durableFolders = Mutex<Set<String>>([])
    /// See ``prepare()``.
    private let isPrepared = Mutex(false)

    /// Size of one read or copy, bytes.
    fileprivate static let piece = 256 << 10
    /// Interval of syncs while bytes are written. It keeps the last `fsync` short, and with it the wait of every other `fsync`.
    fileprivate static let syncEvery: Int64 = 16 << 20

    /// - Parameter path: The folder `blobs`. It is made when it is missing and its parent exists.
    package convenience init(_ path: String) throws(BlobError) {
        self.init(at: path)
        try prepare()
    }

    /// Does not touch the disk: the folder is made at its first use. A disk that refuses at the start may take files a minute later.
    package init(at path: String) {
        self.path = path
    }

    /// Makes the folder, if that was not done. Every method that lists or takes files calls it first.
    package func prepare() throws(BlobError) {
        if isPrepared.withLock({ $0 }) { return }
        try Self.makeFolder(path)
        try Self.makeFolder(path + "/incoming")
        // The process that made them may have lost the power before they were on the medium.
        try Self.syncFolder(path)
        try Self.syncFolder(path.lastIndex(of: "/").map { $0 == path.startIndex ? "/" : String(path[..<$0]) } ?? ".")
        isPrepared.withLock { $0 = true }
    }

    // MARK: - Incoming files

    package func openFile(incoming name: String, at offset: Int64) throws(BlobError) -> any IncomingCopy {
        try prepare()
        let file = try incomingPath(name)
        do throws(BlobError) {
            return try IncomingFile(folder: self, path: file, at: offset)
        } catch {
            // Another program may have removed the folder since it was made.
            guard access(path + "/incoming", F_OK) != 0 else { throw error }
            isPrepared.withLock { $0 = false }
            durableFolders.withLock { $0 = [] }
            try prepare()
            return try IncomingFile(folder: self, path: file, at: offset)
        }
    }

    package func discard(incoming name: String) {
        guard let path = try? incomingPath(name) else { return }  // `try?`: an impossible name belongs to no file
        unlink(path)
    }

    package func incoming() throws(BlobError) -> [(name: String, changedAt: Timestamp)] {
        try prepare()
        var found: [(name: String, changedAt: Timestamp)] = []
        for name in try Self.names(in: path + "/incoming") {
            var facts = stat()
            guard lstat("\(path)/incoming/\(name)", &facts) == 0, facts.st_mode & S_IFMT == S_IFREG else { continue }
            found.append((name, Self.changedAt(facts)))
        }
        return found
    }

    // MARK: - Whole files

    package func kept() throws(BlobError) -> [BlobDigest] {
        try prepare()
        var found: [BlobDigest] = []
        for folder in try Self.names(in: path) where folder.utf8.count == 2 {
            for name in try Self.names(in: "\(path)/\(folder)") {
                guard let digest = BlobDigest(hex: name), digest.hex == name, name.hasPrefix(folder) else { continue }
                found.append(digest)
            }
        }
        return found
    }

    package func size(of digest: BlobDigest) throws(BlobError) -> Int64? {
        var facts = stat()
        guard lstat(keptPath(digest), &facts) == 0 else {
            // A failure of the look-up itself does not mean that the blob is absent.
            guard errno == ENOENT || errno == ENOTDIR else { throw BlobError.system("look at the blob \(digest)") }
            return nil
        }
        return facts.st_mode & S_IFMT == S_IFREG ? Int64(facts.st_size) : nil
    }

    package func read(_ digest: BlobDigest) throws(BlobError) -> any BlobReader {
        // Opened without blocking: a FIFO in its place would wait until another process opens it for writing.
        let descriptor = Glibc.open(keptPath(digest), O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW)
        guard descriptor >= 0 else { throw BlobError.system("open the blob \(digest)") }
        var facts = stat()
        guard fstat(descriptor, &facts) == 0 else {
            let error = BlobError.system("look at the blob \(digest)")
            close(descriptor)
            throw error
        }
        guard facts.st_mode & S_IFMT == S_IFREG else {
            close(descriptor)
            throw BlobError(.damaged, doing: "open the blob \(digest)", detail: "there is something else in its place, no regular file")
        }
        return KeptFile(descriptor: descriptor, size: Int64(facts.st_size), name: digest.description)
    }

    package func remove(_ digest: BlobDigest) throws(BlobError) {
        guard unlink(keptPath(digest)) == 0 || errno == ENOENT else { throw BlobError.system("remove the blob \(digest)") }
    }

    package func freeBytes() -> Int64? {
        var space = statvfs()
        guard statvfs(path, &space) == 0 else { return nil }
        let (bytes, overflow) = UInt64(space.f_bavail).multipliedReportingOverflow(by: UInt64(space.f_frsize))
        return overflow ? .max : Int64(clamping: bytes)
    }

    // MARK: - Files of apps

    package func source(path: String, below folders: [String], ownedBy uid: UInt32) throws(BlobError) -> BlobSource {
        let doing = "take the file \(Printable.text(path))"
        guard path.hasPrefix("/"), !path.utf8.contains(0) else {
            throw BlobError(.refused, doing: doing, detail: "expected an absolute path")
        }
        for folder in folders {
            let root = folder.hasSuffix("/") ? folder : folder + "/"
            guard path.hasPrefix(root), path.utf8.count > root.utf8.count else { continue }
            let directory = Glibc.open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
            guard directory >= 0 else { throw BlobError.system("open the folder \(folder)") }
            defer { close(directory) }
            let descriptor = csl_open_beneath(directory, String(path.dropFirst(root.count)))
            guard descriptor >= 0 else {
                // A link or a step upwards is a fault of the path and not of the disk.
                if [ELOOP, EXDEV, ENXIO].contains(errno) {
                    throw BlobError(.refused, doing: doing, detail: "it leads through a link or out of \(folder)")
                }
                throw BlobError.system(doing)
            }
            let source = BlobSource(descriptor: descriptor) { close($0) }
            var facts = stat()
            guard fstat(descriptor, &facts) == 0 else { throw BlobError.system(doing) }
            guard facts.st_uid == uid || uid == 0 else {
                throw BlobError(.refused, doing: doing, detail: "it belongs to uid \(facts.st_uid), not to uid \(uid) who asks")
            }
            return source
        }
        throw BlobError(.refused, doing: doing, detail: "it is below none of the folders of blobs.import_dirs")
    }

    // MARK: - Names

    fileprivate func keptPath(_ digest: BlobDigest) -> String { "\(path)/\(digest.hex.prefix(2))/\(digest.hex)" }

    fileprivate func makeRoom(for digest: BlobDigest) throws(BlobError) -> String {
        let folder = "\(path)/\(digest.hex.prefix(2))"
        try Self.makeFolder(folder)
        // An existing folder is synced too, because its name may never have been synced.
        if durableFolders.withLock({ !$0.contains(folder) }) {
            try Self.syncFolder(path)
            _ = durableFolders.withLock { $0.insert(folder) }
        }
        return folder
    }

    private func incomingPath(_ name: String) throws(BlobError) -> String {
        guard Identifier<Never>(name) != nil, name != ".", name != ".." else {
            throw BlobError(.io, doing: "open an incoming file", detail: "\(Printable.text(name)) is no name for one")
        }
        return "\(path)/incoming/\(name)"
    }

    private static func makeFolder(_ path: String) throws(BlobError) {
        if mkdir(path, 0o700) == 0 { return }
        guard errno == EEXIST else { throw BlobError.system("make the folder \(path)") }
        var facts = stat()
        guard lstat(path, &facts) == 0, facts.st_mode & S_IFMT == S_IFDIR else {
            throw BlobError(.io, doing: "use the folder \(path)", detail: "it is no folder")
        }
    }

    static func syncFolder(_ path: String) throws(BlobError) {
        let descriptor = Glibc.open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        guard descriptor >= 0 else { throw BlobError.system("open the folder \(path)") }
        defer { close(descriptor) }
        guard fsync(descriptor) == 0 else { throw BlobError.system("sync the folder \(path)") }
    }

    private static func names(in path: String) throws(BlobError) -> [String] {
        do throws(Errno) {
            return try LinuxFileCalls().names(in: path, for: .listDirectory)
        } catch {
            throw BlobError(.io, doing: "list \(path)", detail: error.description)
        }
    }

    private static func changedAt(_ facts: stat) -> Timestamp {
        Timestamp(milliseconds: Int64(facts.st_mtim.tv_sec) * 1_000 + Int64(facts.st_mtim.tv_nsec) / 1_000_000)
    }
}

/// Running SHA-256 by libcrypto.
package final class FileHash: RunningDigest {
    private let hash: OpaquePointer

    package init() {
        guard let hash = csl_sha256_new() else { preconditionFailure("no memory for a digest") }
        self.hash = hash
    }

    deinit { csl_sha256_free(hash) }

    package func update(_ bytes: UnsafeRawBufferPointer) {
        guard csl_sha256_update(hash, bytes.baseAddress, bytes.count) else { preconditionFailure("libcrypto refuses to hash") }
    }

    package func update(_ bytes: [UInt8]) { bytes.withUnsafeBytes { update($0) } }

    package var blobDigest: BlobDigest {
        var bytes = [UInt8](repeating: 0, count: 32)
        guard csl_sha256_digest(hash, &bytes), let digest = BlobDigest(bytes: bytes) else {
            preconditionFailure("libcrypto refuses to hash")
        }
        return digest
    }
}

private final class IncomingFile: IncomingCopy {
    private let folder: BlobFiles
    private let path: String
    private let descriptor: Int32
    private let hash = FileHash()
    private(set) var offset: Int64 = 0
    private var synced: Int64 = 0
    private var isHeld = false

    /// `O_PATH` of open(2), which Swift's Glibc module lacks: the descriptor names a file and cannot read it.
    private static let pathOnly: Int32 = 0o10000000

    init(folder: BlobFiles, path: String, at offset: Int64) throws(BlobError) {
        self.folder = folder
        self.path = path
        descriptor = Glibc.open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0o600)
        guard descriptor >= 0 else { throw BlobError.system("open \(path)") }
        let facts = try lock()
        guard facts.st_mode & S_IFMT == S_IFREG else {
            throw BlobError(.io, doing: "open \(path)", detail: "it is no regular file")
        }
        guard Int64(facts.st_size) >= offset else {
            throw BlobError(.damaged, doing: "go on with \(path)", detail: "it has \(facts.st_size) bytes, not \(offset)")
        }
        // Bytes beyond the offset were never acknowledged, and a power cut may have damaged them.
        guard ftruncate(descriptor, off_t(offset)) == 0 else { throw BlobError.system("cut \(path)") }
        try hashUp(to: offset)
        synced = offset
    }

    deinit { close(descriptor) }

    /// Keeps other processes out until ``release()``. Two replicas of a hub must not write to one file, and none may write to it once it
    /// has its final name.
    private func hold() throws(BlobError) {
        if isHeld { return }
        let facts = try lock()
        guard Int64(facts.st_size) == offset else {
            release()
            throw BlobError(
                .io, doing: "go on with \(path)", detail: "another process has changed it: it has \(facts.st_size) bytes, not \(offset)")
        }
    }

    private func lock() throws(BlobError) -> stat {
        guard flock(descriptor, LOCK_EX | LOCK_NB) == 0 else { throw BlobError.system("lock \(path)") }
        isHeld = true
        var facts = stat()
        var named = stat()
        guard fstat(descriptor, &facts) == 0, lstat(path, &named) == 0, facts.st_ino == named.st_ino, facts.st_dev == named.st_dev else {
            release()
            throw BlobError(.io, doing: "go on with \(path)", detail: "another process has finished or removed it")
        }
        return facts
    }

    private func release() {
        flock(descriptor, LOCK_UN)
        isHeld = false
    }

    func append(_ bytes: [UInt8]) throws(BlobError) {
        try hold()
        let failure: BlobError? = bytes.withUnsafeBytes { buffer in
            do throws(BlobError) {
                try write(buffer)
                return nil
            } catch {
                return error
            }
        }
        if let failure { throw failure }
    }

    func copy(_ source: BlobSource, atMost limit: Int64) throws(BlobError) {
        try hold()
        let doing = "copy the file that was handed over"
        var before = stat()
        // A fault of the app's file is no fault of our disk.
        guard fstat(source.descriptor, &before) == 0 else { throw BlobError.system(doing, .refused) }
        guard before.st_mode & S_IFMT == S_IFREG else {
            throw BlobError(.refused, doing: doing, detail: "it is no regular file")
        }
        let flags = fcntl(source.descriptor, F_GETFL)
        guard flags >= 0, flags & Self.pathOnly == 0, flags & O_ACCMODE != O_WRONLY else {
            throw BlobError(.refused, doing: doing, detail: "it is not open for reading")
        }
        let size = Int64(before.st_size)
        guard size <= limit else { throw BlobError(.tooLarge, doing: doing, detail: "it has \(size) bytes, the limit is \(limit)") }
        precondition(offset == 0, "a file is copied into an empty one")
        // Where the file system can, the copy shares the blocks with the original until one of the two is written to.
        if size > 0, csl_clone(descriptor, source.descriptor) == 0 {
            var facts = stat()
            guard fstat(descriptor, &facts) == 0, Int64(facts.st_size) == size else {
                throw BlobError(.refused, doing: doing, detail: "it changed while it was copied")
            }
            return try hashUp(to: size)
        }
        var place: Int64 = 0
        var failure: BlobError?
        withUnsafeTemporaryAllocation(byteCount: BlobFiles.piece, alignment: 16) { buffer in
            do throws(BlobError) {
                while true {
                    let count = pread(source.descriptor, buffer.baseAddress, buffer.count, off_t(place))
                    if count < 0, errno == EINTR { continue }
                    guard count >= 0 else { throw BlobError.system(doing, .refused) }
                    if count == 0 { return }
                    place += Int64(count)
                    // A file that grows while it is read would give a mix of two contents.
                    guard place <= size else { throw BlobError(.refused, doing: doing, detail: "it grew while it was copied") }
                    try write(UnsafeRawBufferPointer(rebasing: buffer[..<count]))
                }
            } catch {
                failure = error
            }
        }
        if let failure { throw failure }
        guard place == size else {
            throw BlobError(.refused, doing: doing, detail: "it was cut from \(size) to \(place) bytes while it was copied")
        }
    }

    func sync() throws(BlobError) {
        try flush()
        if isHeld { release() }
    }

    private func flush() throws(BlobError) {
        guard synced != offset else { return }
        guard fdatasync(descriptor) == 0 else { throw BlobError.system("sync \(path)") }
        synced = offset
    }

    func digest() -> BlobDigest { hash.blobDigest }

    func keep(as digest: BlobDigest) throws(BlobError) {
        try hold()
        guard fsync(descriptor) == 0 else { throw BlobError.system("sync \(path)") }
        let target = try folder.makeRoom(for: digest)
        // The same digest means the same content, so the rename may replace a file that is there, damaged or not.
        guard rename(path, folder.keptPath(digest)) == 0 else { throw BlobError.system("rename \(path)") }
        try BlobFiles.syncFolder(target)
    }

    func discard() { unlink(path) }

    private func write(_ bytes: UnsafeRawBufferPointer) throws(BlobError) {
        var rest = bytes
        while !rest.isEmpty {
            let count = pwrite(descriptor, rest.baseAddress, rest.count, off_t(offset))
            if count < 0, errno == EINTR { continue }
            guard count > 0 else { throw BlobError.system("write \(path)") }
            hash.update(UnsafeRawBufferPointer(rebasing: rest[..<count]))
            offset += Int64(count)
            rest = UnsafeRawBufferPointer(rebasing: rest[count...])
        }
        if offset - synced >= BlobFiles.syncEvery { try flush() }
    }

    /// Feeds the bytes that the file already has to the digest.
    private func hashUp(to end: Int64) throws(BlobError) {
        var failure: BlobError?
        withUnsafeTemporaryAllocation(byteCount: BlobFiles.piece, alignment: 16) { buffer in
            while offset < end {
                let count = pread(descriptor, buffer.baseAddress, min(buffer.count, Int(end - offset)), off_t(offset))
                if count < 0, errno == EINTR { continue }
                guard count > 0 else {
                    failure = BlobError.system("read \(path)")
                    return
                }
                hash.update(UnsafeRawBufferPointer(rebasing: buffer[..<count]))
                offset += Int64(count)
            }
        }
        if let failure { throw failure }
    }
}

private final class KeptFile: BlobReader {
    let size: Int64
    private let descriptor: Int32
    private let name: String

    init(descriptor: Int32, size: Int64, name: String) {
        self.descriptor = descriptor
        self.size = size
        self.name = name
    }

    deinit { close(descriptor) }

    func read(at offset: Int64, count: Int) throws(BlobError) -> [UInt8] {
        var failed = false
        let wanted = Int(min(Int64(max(0, count)), max(0, size - offset)))
        let bytes = [UInt8](unsafeUninitializedCapacity: wanted) { buffer, filled in
            while filled < wanted {
                let count = pread(descriptor, buffer.baseAddress?.advanced(by: filled), wanted - filled, off_t(offset + Int64(filled)))
                if count < 0, errno == EINTR { continue }
                guard count >= 0 else {
                    failed = true
                    return
                }
                if count == 0 { return }
                filled += count
            }
        }
        if failed { throw BlobError.system("read the blob \(name)") }
        return bytes
    }
}

extension BlobError {
    /// The error for the call that has just failed, from `errno`.
    ///
    /// - Parameter always: The code to use for every value of `errno`.
    static func system(_ doing: String, _ always: Code? = nil) -> BlobError {
        let number = errno
        let code: Code =
            switch number {
            case ENOENT, ENOTDIR: .notFound
            case ENOSPC, EDQUOT, EFBIG: .full
            case EACCES, EPERM: .refused
            default: .io
            }
        return BlobError(always ?? code, doing: doing, detail: Errno(number: number).description)
    }
}
