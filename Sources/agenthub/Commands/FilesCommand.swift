import ArgumentParser
import HubServer
import SyncCore
import SyncLinux

/// `agenthub files`: the folder of files of a hub on a PostgreSQL server.
struct FilesCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "files", abstract: "Tell the hubs of a PostgreSQL database which folder has their files.",
        discussion: """
            The database and its folder have the same id; in the folder it is the file blobs/files.id. A hub that finds another folder, \
            or an empty mount point, answers requests for files with 503, and goes on by itself when the right folder is there.
            """,
        subcommands: [AdoptFiles.self])
}

struct AdoptFiles: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "adopt", abstract: "Make this folder the one with the files of the database, for all hubs, also while they run.",
        discussion: """
            Needed after the files were moved into another folder without blobs/files.id, or after the database was restored and the \
            files were lost. The folder gets a new id. A hub that still serves the former folder answers requests for files with 503 from \
            then on.
            """)

    @Flag(help: "Adopt the folder though most of the files that were looked for are not in it. Devices then get 404 for those.")
    var incomplete = false
    @OptionGroup var folder: DataFolder

    func validate() throws {
        guard folder.database != nil, folder.data != nil else {
            throw ValidationError("expected --data DIR and --database postgres://…: without a server the database is in the folder")
        }
    }

    func run() throws {
        try folder.checkOwner()
        guard let hub = try folder.sharedHub() else { return }
        var random = SeededRandom(seed: systemRandomSeed())
        let path = folder.folder + "/blobs"
        let adoption: Hub.FolderAdoption
        do throws(HubError) {
            adoption = try hub.adoptFolder(BlobFiles(at: path), as: FolderID(using: &random), mayLack: incomplete)
        } catch {
            throw Failure(error.code == .badStorage ? 73 : Failure(error).status, error.description)
        }
        switch adoption {
        case .done(let id): try Say.result("\(path) has the files of the database from now on, with the id \(id)")
        case .known(let id): try Say.result("\(path) is the folder of the database already, with the id \(id)")
        case .incomplete(let found, let sample):
            throw Failure(
                73,
                "\(path) has \(found) of \(sample) files of the database that were looked for, and nothing was changed. Is the file "
                    + "system mounted? If the other files are lost, add --incomplete")
        }
    }
}
