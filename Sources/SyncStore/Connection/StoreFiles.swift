import Glibc

/// Operations of the store on the names of files, besides SQLite.
enum StoreFiles {
    static func parent(of path: String) -> String {
        guard let slash = path.lastIndex(of: "/") else { return "." }
        return slash == path.startIndex ? "/" : String(path[..<slash])
    }

    static func move(_ old: String, to new: String) throws(StoreError) {
        guard rename(old, new) == 0 else { throw failure("move to \(new)", old) }
    }

    /// Makes the content of a file durable, or the names in a folder.
    static func sync(_ path: String) throws(StoreError) {
        let descriptor = Glibc.open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { throw failure("open", path) }
        defer { Glibc.close(descriptor) }
        guard fsync(descriptor) == 0 else { throw failure("sync", path) }
    }

    /// The error of the last system call.
    static func failure(_ doing: String, _ path: String) -> StoreError {
        let number = errno
        return StoreError(number == ENOSPC || number == EDQUOT ? .diskFull : .ioError, doing: "\(doing) \(path)", detail: "errno \(number)")
    }
}
