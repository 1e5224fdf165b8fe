import ArgumentParser
import Glibc
import HubServer
import SyncCore
import SyncLinux

/// `agenthub backup FOLDER`: makes a complete copy of the hub, beside a running server.
struct BackupCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "backup", abstract: "Copy the hub into a new folder: database, tokens and files, as of one moment.",
        discussion: """
            A hub that serves goes on meanwhile. The folder has backup.json last of all; one without it is no backup. With \
            --database the rows are not this command's business: take them with pg_dump, or as the server's operator does.
            """)

    @Argument(help: ArgumentHelp("The folder to make. It must not be there.", valueName: "folder")) var target: String
    @Flag(help: "Leave the files out: they are kept elsewhere, and backed up there.") var withoutFiles = false
    @OptionGroup var folder: DataFolder
    @Flag(help: "Print JSON.") var json = false

    func run() throws {
        if folder.database != nil { throw BackupCommand.notOurs }
        _ = try folder.inspector()
        var target = target
        while target.count > 1, target.hasSuffix("/") { target.removeLast() }
        let manifest = try BackupFolder.make(target, of: folder.folder, files: !withoutFiles, at: SystemClocks().now().wall)
        if json { return try Say.result(manifest.json.json) }
        try Say.result(
            """
            \(target): head \(manifest.head) of epoch \(manifest.epoch), \
            \(manifest.hasFiles ? "\(manifest.blobs) files with \(SizeText.readable(manifest.blobBytes))" : "no files"), \(manifest.hasTokens ? "tokens" : "no tokens"); checked
            """)
    }

    static let notOurs = Failure(
        64,
        """
        the rows of this hub are a PostgreSQL server's: back them up with pg_dump --format=custom, and the folder of files \
        after it. To restore: stop all hubs, pg_restore, put the files back, and start one hub with --new-epoch; the devices \
        offer again what is missing
        """)
}

/// `agenthub restore FOLDER`: puts a backup in the hub's place.
struct RestoreCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "restore", abstract: "Put a backup in the hub's place, as a new history; no hub may serve there.",
        discussion: """
            Devices then list everything anew and offer again what this hub no longer knows, each once. Tokens that are there \
            stay: they are newer. A database that is there is kept aside, in a folder that is named in the end. A power cut \
            leaves the old hub or the new one.
            """)

    @Argument(help: ArgumentHelp("A folder that `agenthub backup` made.", valueName: "folder")) var source: String
    @Flag(help: "There is a hub already: put the backup in its place.") var replace = false
    @OptionGroup var folder: DataFolder
    @Flag(help: "Print JSON.") var json = false

    func run() throws {
        if folder.database != nil { throw BackupCommand.notOurs }
        let backup = BackupFolder(path: source)
        let manifest = try backup.manifest()
        let state: StateDirectory
        do throws(LinuxError) {
            state = try StateDirectory.open(folder.folder, calls: LinuxFileCalls(), userID: geteuid())
        } catch {
            throw Failure(error)
        }
        defer { state.close() }
        let restore = Restore(folder: folder.folder)
        try restore.finish()
        guard replace || !BackupFiles.exists(folder.file) else {
            throw Failure(73, "\(folder.folder) has a hub already: --replace puts the backup in its place, and keeps what is there aside")
        }
        let outcome = try restore.run(backup, manifest, at: SystemClocks().now().wall)
        if json {
            return try Say.result(
                JSON.object([
                    "epoch": .string(outcome.mark.epoch), "head": .int(outcome.mark.head), "backup_at": .string(manifest.at.description),
                    "aside": outcome.aside.map { .string($0) } ?? .null, "kept_tokens": .bool(outcome.keptTokens),
                ]).json)
        }
        var text = "restored the hub of \(manifest.at): head \(outcome.mark.head), now epoch \(outcome.mark.epoch)"
        if let aside = outcome.aside { text += "\nwhat was there is in \(aside): remove it when all is well" }
        if outcome.keptTokens { text += "\nthe tokens that were there stay in force" }
        try Say.result(text)
    }
}
