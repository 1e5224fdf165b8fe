import HubServer
import SyncCore
import SyncLinux

/// A backup on disk: a folder with `hub.db`, `tokens`, `blobs` and, written last, `backup.json`, which lists the content.
///
/// An unfinished backup has `.partial` at the end of its name, so that it is not mistaken for a complete one.
struct BackupFolder {
    let path: String

    static let format = "agenthub-backup/1"

    /// The content of `backup.json`.
    struct Manifest {
        var at: Timestamp
        var epoch: String
        var head: Int64
        var schema: Int64
        var database: BlobDigest
        var hasTokens: Bool
        /// `true` when it contains files; they may be stored elsewhere.
        var hasFiles: Bool
        var blobs: Int64
        var blobBytes: Int64

        var json: JSON {
            [
                "format": .string(BackupFolder.format), "at": .string(at.description), "epoch": .string(epoch), "head": .int(head),
                "schema": .int(schema), "database_sha256": .string(database.hex), "tokens": .bool(hasTokens),
                "files": .bool(hasFiles), "blobs": .int(blobs),
                "blob_bytes": .int(blobBytes),
            ]
        }

        init(
            at: Timestamp, _ facts: HubBackup.Facts, database: BlobDigest, hasTokens: Bool, files: (count: Int64, bytes: Int64)?
        ) {
            (self.at, epoch, head, schema) = (at, facts.epoch, facts.head, facts.schema)
            (self.database, self.hasTokens, hasFiles) = (database, hasTokens, files != nil)
            (blobs, blobBytes) = files ?? (0, 0)
        }

        init?(_ object: JSONObject?) {
            guard let object, object["format"]?.text == BackupFolder.format, let at = object["at"]?.text.flatMap({ RFC3339.timestamp($0) }),
                let epoch = object["epoch"]?.text, let head = object["head"]?.int, let schema = object["schema"]?.int,
                let database = object["database_sha256"]?.text.flatMap({ BlobDigest(hex: $0) }),
                let hasTokens = object["tokens"]?.bool, let hasFiles = object["files"]?.bool, let blobs = object["blobs"]?.int,
                let bytes = object["blob_bytes"]?.int
            else { return nil }
            (self.at, self.epoch, self.head, self.schema, self.database) = (at, epoch, head, schema, database)
            (self.hasTokens, self.hasFiles, self.blobs, blobBytes) = (hasTokens, hasFiles, blobs, bytes)
        }
    }

    /// Makes a backup of a hub's folder, beside a running server.
    ///
    /// The database is copied first: each file that its rows refer to existed before them, so it exists now.
    ///
    /// - Parameter files: `false` when they are stored elsewhere and have backups of their own.
    /// - Throws: Any error of a step; only a name with `.partial` exists then.
    static func make(_ path: String, of folder: String, files: Bool, at now: Timestamp) throws -> Manifest {
        guard !BackupFiles.exists(path) else { throw Failure(73, "\(path) exists already. A backup needs a new folder") }
        let partial = path + ".partial"
        guard !BackupFiles.exists(partial) else {
            throw Failure(
                73, "\(partial) exists: a backup was interrupted, or another one is running. If none is running, remove the folder")
        }
        try BackupFiles.makeFolder(partial)
        do {
            let manifest = try fill(partial, from: folder, files: files, at: now)
            try BackupFiles.rename(partial, to: path)
            try BackupFiles.syncFolder(parent(of: path))
            return manifest
        } catch {
            // The first error is reported; the name of a leftover tells what it is.
            try? BackupFiles.removeTree(partial)
            throw error
        }
    }

    private static func fill(_ target: String, from folder: String, files: Bool, at now: Timestamp) throws -> Manifest {
        let facts: HubBackup.Facts
        do throws(HubError) {
            facts = try HubBackup.copy(folder + "/hub.db", to: target + "/hub.db")
        } catch {
            throw Failure(error)
        }
        let database = try BackupFiles.digestAndSync(target + "/hub.db")
        let hasTokens = BackupFiles.exists(folder + "/tokens")
        if hasTokens { _ = try BackupFiles.copy(folder + "/tokens", to: target + "/tokens") }
        let copied = files ? try BlobCopy.copy(facts.blobs, from: folder + "/blobs", to: target + "/blobs") : nil
        let manifest = Manifest(at: now, facts, database: database, hasTokens: hasTokens, files: copied)
        do throws(LinuxError) {
            try DurableFiles(calls: LinuxFileCalls()).write(Array((manifest.json.json + "\n").utf8), to: target + "/backup.json")
        } catch {
            throw Failure(error)
        }
        return manifest
    }

    /// - Throws: 66 when there is none, 65 when it is damaged.
    func manifest() throws(Failure) -> Manifest {
        let bytes: [UInt8]
        do throws(LinuxError) {
            bytes = try DurableFiles(calls: LinuxFileCalls()).read(path + "/backup.json", maxBytes: 64 << 10)
        } catch {
            if error.code == .missing { throw Failure(66, "\(path) is no backup: it has no backup.json") }
            throw Failure(error)
        }
        // A backup with an unreadable manifest is refused.
        guard let manifest = Manifest((try? JSONReader.read(bytes))?.object) else {
            throw Failure(65, "\(path)/backup.json has a format that this program does not know (expected \(Self.format))")
        }
        return manifest
    }

    static func parent(of path: String) -> String {
        guard let slash = path.lastIndex(of: "/") else { return "." }
        return slash == path.startIndex ? "/" : String(path[..<slash])
    }
}

/// Copies files from one folder of blobs into another, and hashes each on the way.
enum BlobCopy {
    /// - Parameter wanted: The files that rows refer to. A missing one is an error: its row would be a false promise.
    static func copy(
        _ wanted: [HubBackup.Facts.Blob], from source: String, to target: String
    ) throws(Failure) -> (count: Int64, bytes: Int64) {
        if wanted.isEmpty { return (0, 0) }
        guard BackupFiles.exists(source) else {
            throw Failure(
                66,
                "\(source) does not exist, but the database refers to \(PlainText.count(wanted.count, "file")). If the files are stored "
                    + "elsewhere, add --without-files")
        }
        var copied: (count: Int64, bytes: Int64) = (0, 0)
        do throws(BlobError) {
            let from = try BlobFiles(source)
            let to = try BlobFiles(target)
            for blob in wanted {
                copied.count += 1
                copied.bytes = copied.bytes.saturatingAdd(blob.size)
                if try to.size(of: blob.digest) == blob.size { continue }
                try copy(blob, from, to)
            }
        } catch {
            throw Failure(74, "\(error)")
        }
        return copied
    }

    private static func copy(_ blob: HubBackup.Facts.Blob, _ source: BlobFiles, _ target: BlobFiles) throws(BlobError) {
        let reader = try source.read(blob.digest)
        let incoming = try target.open(incoming: blob.digest.hex, at: 0)
        while incoming.offset < reader.size {
            let piece = try reader.read(at: incoming.offset, count: 256 << 10)
            guard !piece.isEmpty else { break }
            try incoming.append(piece)
        }
        guard incoming.digest() == blob.digest else {
            incoming.discard()
            throw BlobError(.damaged, doing: "copy the file \(blob.digest)", detail: "its content has another digest")
        }
        try incoming.keep(as: blob.digest)
    }
}
