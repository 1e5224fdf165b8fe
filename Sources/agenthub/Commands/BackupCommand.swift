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
            A running hub continues to serve. backup.json is written last: a folder without it is no complete backup. With \
            --database this command does not copy the rows. Back them up with pg_dump, or as the operator of that server does.
            """)

    @Argument(help: ArgumentHelp("New folder for the backup. It must not exist yet.", valueName: "folder")) var target: String
    @Flag(help: "Leave the files out, because they are stored and backed up elsewhere.") var withoutFiles = false
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
            \(target): head \(manifest.head) of epoch \(manifest.epoch), \(BackupCommand.files(manifest)), \
            \(manifest.hasTokens ? "tokens" : "no tokens"); checked
            """)
    }

    private static func files(_ manifest: BackupFolder.Manifest) -> String {
        guard manifest.hasFiles else { return "no files" }
        return PlainText.count(manifest.blobs, "file") + " with " + SizeText.readable(manifest.blobBytes)
    }

    static let notOurs = Failure(
        64,
        """
        the rows of this hub are on a PostgreSQL server. Back them up with pg_dump --format=custom, and then the folder of files. \
        To restore, stop all hubs, run pg_restore, put the files back, and start one hub with --new-epoch. The devices then send \
        again what is missing
        """)
}

/// `agenthub restore FOLDER`: puts a backup in the hub's place.
struct RestoreCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "restore", abstract: "Replace the hub of a folder with a backup, as a new history. No hub may be serving the folder.",
        discussion: """
            The devices then download everything again, and send again what the backup lacks. Each change takes effect once. \
            Existing tokens stay, because they are newer. The settings of entities become those of the backup. An existing \
            database is moved into a folder that the command names at the end. A power cut leaves either the old hub or the new \
            one.
            """)

    @Argument(help: ArgumentHelp("A folder that `agenthub backup` made.", valueName: "folder")) var source: String
    @Flag(help: "Replace a hub that exists already.") var replace = false
    @Flag(help: "Restore it also if it has no scope for an entity that has one now, so that all devices get all its records.")
    var dropScopes = false
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
            throw Failure(73, "\(folder.folder) has a hub already. To replace it with the backup and keep it aside, add --replace")
        }
        let outcome = try restore.run(backup, manifest, droppingScopes: dropScopes, at: SystemClocks().now().wall)
        if json {
            return try Say.result(
                JSON.object([
                    "epoch": .string(outcome.mark.epoch), "head": .int(outcome.mark.head), "backup_at": .string(manifest.at.description),
                    "aside": .optional(outcome.aside), "kept_tokens": .bool(outcome.keptTokens),
                    "generation": .optional(outcome.settings.generation?.number),
                    "replaced_generation": .optional(outcome.replaced.generation?.number),
                ]).json)
        }
        var text = "restored the hub of \(manifest.at): head \(outcome.mark.head), now epoch \(outcome.mark.epoch)"
        if let aside = outcome.aside { text += "\nthe replaced hub is in \(aside). Remove that folder when the new hub works" }
        if outcome.keptTokens { text += "\nthe existing tokens and the grants of commands stay valid" }
        if let words = settingsWords(outcome) { text += "\n\(words)" }
        if !outcome.isSealed { text += "\nits pages have no checksums, because there was no room to rewrite it" }
        try Say.result(text)
    }

    /// - Returns: `nil` when the backup has the settings of the replaced hub, or when no hub was replaced.
    private func settingsWords(_ outcome: Restore.Outcome) -> String? {
        func name(_ generation: EntityGeneration?) -> String { generation.map { "generation \($0.number) of \($0.appliedAt)" } ?? "none" }
        let restored = "the settings of entities are those of the backup: \(name(outcome.settings.generation))"
        switch outcome.replaced {
        case .none: return nil
        case .unreadable(let error): return "\(restored). They were not compared with those of the replaced hub: \(error)"
        case .known(let settings):
            if settings.generation?.digest == outcome.settings.generation?.digest { return nil }
            guard let present = settings.generation, let aside = outcome.aside else { return "\(restored). The replaced hub had none" }
            let command = "agenthub entities history \(present.number) --data \(aside)"
            return "\(restored). The replaced hub had \(name(present)); to see it: \(command)"
        }
    }
}
