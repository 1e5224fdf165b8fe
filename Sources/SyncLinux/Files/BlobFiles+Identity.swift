import Glibc
package import SyncCore

/// The id is in a file among the files that it is about, so both are on one file system, whichever folder above them is a mount point.
extension BlobFiles: IdentifiedFolder {
    private var idPath: String { path + "/files.id" }

    package func folderID() throws(BlobError) -> FolderID? {
        let bytes: [UInt8]
        do throws(LinuxError) {
            bytes = try DurableFiles(calls: LinuxFileCalls()).read(idPath, maxBytes: 64)
        } catch {
            if error.code == .missing { return nil }
            throw BlobError(.io, doing: "read the id of the folder of files", detail: error.description)
        }
        guard let id = FolderID(String(decoding: bytes.last == 10 ? bytes.dropLast() : bytes[...], as: UTF8.self)) else {
            throw BlobError(.damaged, doing: "read the id of the folder of files", detail: "\(idPath): expected 16 hexadecimal digits")
        }
        return id
    }

    package func setFolderID(_ id: FolderID, replacing: Bool) throws(BlobError) {
        try prepare()
        if replacing { return try write(id, to: idPath) }
        // Replicas that start at once in a new folder may all give it an id. A link fails for all but the first, unlike a rename.
        let own = "\(idPath).\(id)"
        try write(id, to: own)
        defer { unlink(own) }
        if link(own, idPath) != 0, errno != EEXIST {
            // A file system without links.
            guard [EPERM, EOPNOTSUPP, ENOSYS].contains(errno) else { throw BlobError.system("give the folder of files an id") }
            return try write(id, to: idPath)
        }
        // An id that another process has just written may not be on the medium yet, and the database is about to have it.
        try BlobFiles.syncFolder(path)
    }

    private func write(_ id: FolderID, to path: String) throws(BlobError) {
        do throws(LinuxError) {
            try DurableFiles(calls: LinuxFileCalls()).write(Array((id.text + "\n").utf8), to: path)
        } catch {
            throw BlobError(.io, doing: "give the folder of files an id", detail: error.description)
        }
    }
}
