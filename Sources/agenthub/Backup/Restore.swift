import Glibc
import HubServer
import SyncCore
import SyncLinux

/// Puts a backup in a hub's place, so that a power cut at any moment leaves the old hub or the new one.
///
/// Everything is prepared in `restore.partial` beside the database, including the new history. One rename to `restore.ready` is the moment
/// from which the backup counts. The later steps only move files, and each can be repeated. After an interruption ``finish()`` continues,
/// which `serve` calls before it opens anything. The old database is kept aside.
struct Restore {
    let folder: String

    private var partial: String { folder + "/restore.partial" }
    private var ready: String { folder + "/restore.ready" }

    /// The result of a restore, for the operator.
    struct Outcome {
        var mark: HubMark
        var aside: String?
        var keptTokens: Bool
        /// `false` when there was no room to add the checksums of the pages.
        var isSealed: Bool
        var settings: Settings
        var replaced: Replaced
    }

    /// The settings of entities of a hub that is restored or replaced.
    struct Settings {
        /// `nil`: none were ever applied.
        var generation: EntityGeneration?
        /// The entities whose records are shared out.
        var scoped: [EntityName]

        fileprivate init(_ file: String) throws(HubError) {
            let hub = try HubInspector(file: file)
            generation = try hub.entities()
            scoped = try hub.scopedEntities()
        }
    }

    /// The settings of the hub that is replaced.
    enum Replaced {
        case none
        case known(Settings)
        /// Its database is damaged, or of another version of the program.
        case unreadable(HubError)

        fileprivate init(_ file: String) {
            guard BackupFiles.exists(file) else {
                self = .none
                return
            }
            do throws(HubError) { self = .known(try Settings(file)) } catch { self = .unreadable(error) }
        }

        var generation: EntityGeneration? { if case .known(let settings) = self { settings.generation } else { nil } }
    }

    /// - Parameter droppingScopes: Restores the backup also if all devices then get all records of an entity that has a scope now.
    /// - Precondition: The folder is locked: no hub serves it.
    func run(
        _ backup: BackupFolder, _ manifest: BackupFolder.Manifest, droppingScopes: Bool, at now: Timestamp
    ) throws -> Outcome {
        try BackupFiles.removeTree(partial)
        try BackupFiles.makeFolder(partial)
        let database = partial + "/hub.db"
        guard try BackupFiles.copy(backup.path + "/hub.db", to: database) == manifest.database else {
            throw Failure(65, "\(backup.path)/hub.db is damaged: its SHA-256 differs from the one in backup.json")
        }
        let mark: HubMark
        let facts: HubBackup.Facts
        let isSealed: Bool
        // The temporary copy is as large as the database, and belongs to the disk that has room for it.
        setenv("SQLITE_TMPDIR", partial, 1)
        do throws(HubError) {
            facts = try HubBackup.check(database)
            isSealed = try HubBackup.seal(database)
            mark = try HubBackup.renew(database, random: SeededRandom(seed: systemRandomSeed()))
        } catch {
            throw Failure(error)
        }
        let (settings, replaced) = (try restoredSettings(database), Replaced(folder + "/hub.db"))
        if !droppingScopes { try refuseLostScopes(settings, replaced) }
        // Copied before the backup counts: files without rows do no harm.
        if manifest.hasFiles { _ = try BlobCopy.copy(facts.blobs, from: backup.path + "/blobs", to: folder + "/blobs") }
        // Tokens in the hub's folder are newer: some were refreshed since, and others revoked, which must stay so.
        let keptTokens = BackupFiles.exists(folder + "/tokens")
        if !keptTokens, manifest.hasTokens { _ = try BackupFiles.copy(backup.path + "/tokens", to: partial + "/tokens") }
        let aside = BackupFiles.exists(folder + "/hub.db") ? "replaced-\(now.milliseconds)" : nil
        do throws(LinuxError) {
            let files = DurableFiles(calls: LinuxFileCalls())
            try files.write(Array(mark.text.utf8), to: partial + "/mark")
            if let aside { try files.write(Array(aside.utf8), to: partial + "/aside") }
        } catch {
            throw Failure(error)
        }
        try BackupFiles.syncFolder(partial)
        try BackupFiles.rename(partial, to: ready)
        try BackupFiles.syncFolder(folder)
        try finish()
        return Outcome(
            mark: mark, aside: aside.map { "\(folder)/\($0)" }, keptTokens: keptTokens, isSealed: isSealed, settings: settings,
            replaced: replaced)
    }

    private func restoredSettings(_ database: String) throws(Failure) -> Settings {
        do throws(HubError) { return try Settings(database) } catch { throw Failure(error) }
    }

    /// A backup of before the scopes must not hand the records of one customer to another, as a file without them must not.
    private func refuseLostScopes(_ settings: Settings, _ replaced: Replaced) throws(Failure) {
        guard case .known(let present) = replaced, let lost = present.scoped.first(where: { !settings.scoped.contains($0) }) else { return }
        try BackupFiles.removeTree(partial)
        let keeping =
            present.generation.map {
                "keep the present settings (agenthub entities history \($0.number) --data \(folder) > kept.yaml), restore with "
                    + "--drop-scopes, and apply them before you start the hub (agenthub entities apply kept.yaml --data \(folder))"
            } ?? "restore with --drop-scopes, and apply settings with the scope before you start the hub"
        throw Failure(
            78,
            "the backup has no scope for \(lost), and the hub that it replaces has one, so every device would get all records. To restore "
                + "it all the same, \(keeping)")
    }

    /// Continues a restore that counts already.
    ///
    /// - Returns: `false` when there is none.
    @discardableResult
    func finish() throws(Failure) -> Bool {
        guard BackupFiles.exists(ready) else { return false }
        if BackupFiles.exists(ready + "/hub.db") {
            if let aside = try asideName() { try putAside(folder + "/" + aside) }
            try BackupFiles.rename(ready + "/hub.db", to: folder + "/hub.db")
        }
        for name in ["mark", "tokens"] { try BackupFiles.renameIfThere(ready + "/" + name, to: folder + "/" + name) }
        // The moved files must be on disk first, or a power cut could leave neither.
        try BackupFiles.syncFolder(folder)
        try BackupFiles.removeTree(ready)
        try BackupFiles.syncFolder(folder)
        return true
    }

    /// The log is moved first, together with the database: a log must never stand beside another database.
    private func putAside(_ aside: String) throws(Failure) {
        if !BackupFiles.exists(aside) { try BackupFiles.makeFolder(aside) }
        for name in ["hub.db-wal", "hub.db-shm", "hub.db"] { try BackupFiles.renameIfThere("\(folder)/\(name)", to: "\(aside)/\(name)") }
        try BackupFiles.syncFolder(aside)
        try BackupFiles.syncFolder(folder)
    }

    private func asideName() throws(Failure) -> String? {
        guard BackupFiles.exists(ready + "/aside") else { return nil }
        do throws(LinuxError) {
            let name = String(decoding: try DurableFiles(calls: LinuxFileCalls()).read(ready + "/aside", maxBytes: 256), as: UTF8.self)
            guard Identifier<Never>(name) != nil else { throw LinuxError(.malformed, doing: "read \(ready)/aside", expected: "a name") }
            return name
        } catch {
            throw Failure(error)
        }
    }
}
