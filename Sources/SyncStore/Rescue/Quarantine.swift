import Glibc
import SyncCore

/// The folder of damaged databases. It keeps at most 3, each in a subfolder `<replica>-<n>`.
///
/// A database that is moved here carries a mark until its readable rows are in its successor. So a power cut at any moment is handled by
/// the next start: it salvages a marked database (again).
struct Quarantine {
    static let kept = 3

    let path: String
    private static let mark = "/unsalvaged"
    private static let database = "/agent.db"

    /// Moves the database at `source` here with its log, or continues a move that a power cut has interrupted.
    ///
    /// - Parameter replica: The replica id, as far as it is known.
    /// - Returns: The new path of the database. It may be missing or empty there, if it was so before.
    func moveIn(_ source: String, replica: ReplicaID?) throws(StoreError) -> String {
        let folder: String
        if let found = try unfinished() { folder = found } else { folder = try make(replica) }
        // The database is moved last: if it is here, its log is here as well.
        if !Self.exists(folder + Self.database) {
            if Self.exists(source + "-wal") { try StoreFiles.move(source + "-wal", to: folder + Self.database + "-wal") }
            if Self.exists(source) {
                try StoreFiles.move(source, to: folder + Self.database)
            } else {
                try Self.touch(folder + Self.database)
            }
            try StoreFiles.sync(folder)
            try StoreFiles.sync(StoreFiles.parent(of: source))
        }
        // The file only indexes the log; SQLite creates it again.
        unlink(source + "-shm")
        return folder + Self.database
    }

    /// Returns whether a database was moved here and has no successor yet.
    ///
    /// A successor in its place is complete, because it gets its name last.
    func isUnfinished(_ source: String) throws(StoreError) -> Bool {
        guard let folder = try unfinished() else { return false }
        guard Self.exists(folder + Self.database), Self.exists(source) else { return true }
        try finish(folder + Self.database)
        return false
    }

    /// Removes the mark, and the oldest surplus folders.
    func finish(_ database: String) throws(StoreError) {
        let folder = StoreFiles.parent(of: database)
        unlink(folder + Self.mark)
        try StoreFiles.sync(folder)
        for old in try folders().dropLast(Self.kept) {
            for name in try Self.names(in: path + "/" + old.name) { unlink(path + "/" + old.name + "/" + name) }
            rmdir(path + "/" + old.name)
        }
    }

    // MARK: - Folders

    private func unfinished() throws(StoreError) -> String? {
        try folders().last { Self.exists(path + "/" + $0.name + Self.mark) }.map { path + "/" + $0.name }
    }

    private func make(_ replica: ReplicaID?) throws(StoreError) -> String {
        if mkdir(path, 0o700) != 0, errno != EEXIST { throw StoreFiles.failure("make", path) }
        let number = (try folders().last?.number).map { $0 + 1 } ?? 1
        let folder = "\(path)/\(replica?.text ?? "unknown")-\(number)"
        guard mkdir(folder, 0o700) == 0 else { throw StoreFiles.failure("make", folder) }
        try Self.touch(folder + Self.mark)
        try StoreFiles.sync(folder)
        try StoreFiles.sync(path)
        try StoreFiles.sync(StoreFiles.parent(of: path))
        return folder
    }

    /// The subfolders, oldest first. A name that does not end in a number is not ours.
    private func folders() throws(StoreError) -> [(name: String, number: Int)] {
        guard Self.exists(path) else { return [] }
        var found: [(name: String, number: Int)] = []
        for name in try Self.names(in: path) {
            guard let dash = name.lastIndex(of: "-"), let number = Int(name[name.index(after: dash)...]), number > 0 else { continue }
            found.append((name, number))
        }
        return found.sorted { $0.number < $1.number }
    }

    // MARK: - Files

    private static func names(in folder: String) throws(StoreError) -> [String] {
        guard let directory = opendir(folder) else { throw StoreFiles.failure("list", folder) }
        defer { closedir(directory) }
        var names: [String] = []
        while let entry = readdir(directory) {
            let name = withUnsafeBytes(of: entry.pointee.d_name) { bytes in
                String(decoding: bytes.prefix { $0 != 0 }, as: UTF8.self)
            }
            if name != ".", name != ".." { names.append(name) }
        }
        return names
    }

    static func exists(_ path: String) -> Bool { access(path, F_OK) == 0 }

    private static func touch(_ path: String) throws(StoreError) {
        let descriptor = Glibc.open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { throw StoreFiles.failure("make", path) }
        defer { Glibc.close(descriptor) }
        guard fsync(descriptor) == 0 else { throw StoreFiles.failure("sync", path) }
    }
}
