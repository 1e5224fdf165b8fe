import Glibc

/// The files that a connection writes to, and whether they still have their names.
///
/// SQLite continues with files that have lost their names, and commits to them are gone as soon as they are closed. So the names are
/// checked after every commit, before the commit is reported: three calls of a microsecond each.
struct DatabasePlace {
    enum Fault: Hashable {
        /// The folder is another one, or is missing: it was moved, or its file system is gone.
        case folder
        /// The folder is there, but this file of the database is missing.
        case removed(String)
        /// Another database has taken its place.
        case replaced
    }

    private struct File: Equatable {
        var device: UInt64
        var number: UInt64

        /// - Returns: `nil` when no file has this name.
        /// - Throws: The error of the system call.
        init?(_ path: String) throws(Errno) {
            var facts = stat()
            guard stat(path, &facts) != 0 else {
                (device, number) = (UInt64(facts.st_dev), UInt64(facts.st_ino))
                return
            }
            guard errno == ENOENT || errno == ENOTDIR else { throw Errno(errno) }
            return nil
        }
    }

    private struct Errno: Error {
        init(_ number: Int32) {}
    }

    /// Held open, as SQLite holds its files, so that its inode number stays its own. On an overlay of two file systems, a folder that is
    /// not open may come back with another number.
    private final class Folder {
        let path: String
        let file: File
        private let descriptor: Int32

        init?(_ path: String) {
            let descriptor = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
            guard descriptor >= 0 else { return nil }
            // A folder whose status cannot be read counts as missing: then nothing is known of the files, see `init?`.
            guard let file = try? File(path) else {
                close(descriptor)
                return nil
            }
            (self.path, self.file, self.descriptor) = (path, file, descriptor)
        }

        deinit { close(descriptor) }
    }

    let path: String
    private let log: String
    private let folder: Folder
    private let ownFile: File
    /// The log; SQLite creates it with the first transaction.
    private var ownLog: File?

    /// - Returns: `nil` for a database in memory, and where the status of the files cannot be read.
    init?(of database: Database) {
        guard let path = database.path else { return nil }
        self.path = path
        log = path + "-wal"
        // `try?`: see above; the commit itself reports a disk that fails.
        guard let folder = Folder(StoreFiles.parent(of: path)), let file = try? File(path) else { return nil }
        (self.folder, ownFile) = (folder, file)
        // A log whose status cannot be read now is checked again after each commit.
        ownLog = try? File(log)
    }

    /// The reason why others cannot find what was committed; `nil` when there is none, or when the disk does not answer.
    mutating func fault() -> Fault? {
        do throws(Errno) {
            guard try File(folder.path) == folder.file else { return .folder }
            guard let file = try File(path) else { return .removed(path) }
            guard file == ownFile else { return .replaced }
            let found = try File(log)
            guard let ownLog else {
                ownLog = found
                return nil
            }
            return found == ownLog ? nil : .removed(log)
        } catch {
            return nil
        }
    }
}

extension DatabasePlace.Fault {
    func error(_ path: String) -> StoreError {
        switch self {
        case .folder: StoreError(.removed, doing: "use \(path)", detail: "its folder was moved or removed")
        case .removed(let name): StoreError(.removed, doing: "use \(path)", detail: "\(name) was moved or removed")
        case .replaced: StoreError(.removed, doing: "use \(path)", detail: "another file was put in its place")
        }
    }
}

extension DatabasePlace {
    /// Writes the content of the connection into a new file and moves that into the old place. The connection cannot be used afterwards.
    ///
    /// - Precondition: ``Fault/removed(_:)``: our file's name is ours or unused.
    /// - Throws: The error of the disk. The connection is unchanged, unless the folder refuses the new name.
    func restore(from database: Database) throws(StoreError) {
        let fresh = path + "-restored"
        unlink(fresh)
        do throws(StoreError) {
            try database.write(to: fresh)
            try StoreFiles.sync(fresh)
        } catch {
            unlink(fresh)
            throw error
        }
        // SQLite would take a log that belongs to another database for the new one's own.
        for name in [log, path + "-shm"] { unlink(name) }
        try StoreFiles.move(fresh, to: path)
        try StoreFiles.sync(folder.path)
    }
}
