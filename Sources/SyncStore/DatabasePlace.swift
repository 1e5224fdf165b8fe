import Glibc

/// The files that a connection writes to, and whether they still have their names.
///
/// SQLite goes on with files that nobody can find any more, and what it commits into them is gone as soon as they are closed. So
/// their names are looked up after every commit, before anybody hears of it: three calls of a microsecond each.
struct DatabasePlace {
    enum Fault: Hashable {
        /// The folder is another one, or there is none: it was moved, or its file system is gone.
        case folder
        /// The folder is there, and this file of the database is not.
        case removed(String)
        /// There is another database now.
        case replaced
    }

    private struct File: Equatable {
        var device: UInt64
        var number: UInt64

        /// - Returns: `nil` when nothing has this name.
        /// - Throws: What the disk has against telling.
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

    /// Held open, as SQLite holds its files: its number stays its own for so long. On an overlay of two file systems a folder that
    /// nobody holds may come back with another one.
    private final class Folder {
        let path: String
        let file: File
        private let descriptor: Int32

        init?(_ path: String) {
            let descriptor = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
            guard descriptor >= 0 else { return nil }
            // A folder that cannot be looked at is as good as none: then nothing is known of the files, see `init?`.
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
    /// Made by SQLite with the first transaction.
    private var ownLog: File?

    /// - Returns: `nil` for a database in memory, and where the files cannot be looked at: then nothing is known of them.
    init?(of database: Database) {
        guard let path = database.path else { return nil }
        self.path = path
        log = path + "-wal"
        // `try?`: see above; the commit itself tells of a disk that fails.
        guard let folder = Folder(StoreFiles.parent(of: path)), let file = try? File(path) else { return nil }
        (self.folder, ownFile) = (folder, file)
        // A log that cannot be looked at now is looked for again after each commit.
        ownLog = try? File(log)
    }

    /// What keeps others from finding what was committed; `nil` when nothing does, or when the disk does not tell.
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
    /// Writes what the connection has into a new file and puts that where the old one was. The connection is of no use after that.
    ///
    /// - Precondition: ``Fault/removed(_:)``: what has the name of our file is ours, or nothing.
    /// - Throws: What the disk has against it. The connection is as it was, unless the folder refuses the new name.
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
        // A log beside a database that it does not belong to would be taken for its own.
        for name in [log, path + "-shm"] { unlink(name) }
        try StoreFiles.move(fresh, to: path)
        try StoreFiles.sync(folder.path)
    }
}
