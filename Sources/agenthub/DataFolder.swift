import ArgumentParser
import Glibc
import HubPostgres
import HubServer
import Logging
import SyncCore
import SyncLinux

/// The storage of a hub. It is a folder of its own with `hub.db` (and its log), `tokens`, `mark`, `blobs`, two lock files and, while a hub
/// serves it, `hub.sock`. Or it is a server's database, which any number of hubs may share; the folder then holds only the files.
struct DataFolder: ParsableArguments {
    @Option(
        name: .long,
        help: ArgumentHelp(
            "Folder of the hub: database, tokens and files. With --database it holds only the files, and all replicas must see the same "
                + "folder. With --blobs it holds no files.")
    )
    var data: String?

    @Option(
        name: .long,
        help: ArgumentHelp(
            "Database on a PostgreSQL server for everything but the files. Any number of replicas may share it. Put a password into the "
                + "file that passfile= or PGPASSFILE names.",
            valueName: "postgres://…"))
    var database: String?

    func validate() throws {
        guard data != nil || database != nil else { throw ValidationError("expected --data DIR, or --database postgres://…") }
        _ = try place()
    }

    /// - Precondition: There is no `--database`, so there is a folder.
    var folder: String {
        guard let data else { preconditionFailure("validated: --data or --database") }
        return data
    }

    var file: String { folder + "/hub.db" }
    var tokens: String { folder + "/tokens" }
    /// The socket of the hub that serves the folder; a hub over a server's database has none.
    var socket: String { folder + "/hub.sock" }

    /// The server's database; `nil`: the folder's own.
    func place() throws(ValidationError) -> PostgresPlace? {
        guard let database else { return nil }
        do throws(HubError) {
            return try PostgresPlace(database)
        } catch {
            throw ValidationError("--database: \(error.detail)")
        }
    }

    /// - Throws: 66 when there is no hub here.
    func inspector() throws -> HubInspector {
        do {
            if let place = try place() { return try HubInspector(place) }
            guard access(file, F_OK) == 0 else {
                if errno == EACCES { throw notAllowed }
                throw Failure(66, "there is no hub in \(folder)")
            }
            return try HubInspector(file: file)
        } catch let error as HubError {
            throw Failure(error)
        }
    }

    /// The refusal of a folder whose files are for another user.
    private var notAllowed: Failure {
        Failure(77, "this user may not open \(folder). Run the command as the hub's user: \(Self.command(as: "agenthub"))")
    }

    /// The beginning of a command that another user runs. Only root may run `runuser`.
    static func command(as user: String) -> String {
        (geteuid() == 0 ? "" : "sudo ") + "runuser -u \(user) -- agenthub …"
    }

    /// Refuses a folder that no hub has used, and that no command has prepared for one: its name is mistyped. Nothing is made there.
    ///
    /// - Throws: 66.
    func requireTokens() throws {
        // The inspector says what is wrong with the folder.
        if lacksHub, access(tokens, F_OK) != 0 { _ = try inspector() }
    }

    // MARK: Damage

    /// `true` when there is no `hub.db`, or an empty one.
    var lacksDatabase: Bool {
        var facts = stat()
        guard stat(file, &facts) == 0 else { return errno == ENOENT }
        return facts.st_size == 0
    }

    /// `true` when the folder has no hub yet.
    var lacksHub: Bool { database == nil && lacksDatabase }

    /// Advice to the operator about a missing or damaged database.
    var waysBack: String {
        "Restore a backup: agenthub restore FOLDER --replace --data \(folder). Without a backup, move hub.db, hub.db-wal and hub.db-shm "
            + "away and begin a new history: agenthub serve --new-epoch …. The devices then send again what they still have."
    }

    // MARK: The mark

    /// The position of the database; see `HubMark`. A new folder has none.
    ///
    /// - Parameter complain: Receives a message when a mark cannot be read: it then cannot reveal an older database.
    func readMark(complain: (String) -> Void) -> HubMark? {
        guard let data else { return nil }
        let bytes: [UInt8]
        do throws(LinuxError) {
            bytes = try DurableFiles(calls: LinuxFileCalls()).read(data + "/mark", maxBytes: 64 << 10)
        } catch {
            if error.code != .missing { complain(error.description) }
            return nil
        }
        guard let mark = HubMark(reading: String(decoding: bytes, as: UTF8.self)) else {
            complain("\(data)/mark is damaged")
            return nil
        }
        return mark
    }

    func write(_ mark: HubMark) throws(LinuxError) {
        guard let data else { return }
        try DurableFiles(calls: LinuxFileCalls()).write(Array(mark.text.utf8), to: data + "/mark")
    }

    /// Removes what a crash left of a write of the mark. The caller holds the lock of the folder.
    func removeLeftovers() throws(LinuxError) {
        guard let data else { return }
        try DurableFiles(calls: LinuxFileCalls()).removeLeftovers(of: data + "/mark", owner: geteuid())
    }

    // MARK: Files

    /// The folder of files of a server's database, which is used while it is the one that the database knows.
    func shared(_ files: BlobFiles, _ log: Logger) -> SharedFolder {
        let place = data ?? ""
        var random = SeededRandom(seed: systemRandomSeed())
        return SharedFolder(files, candidate: FolderID(using: &random)) { change in
            switch change {
            case .wrong(let detail):
                log.warning(
                    "the folder of files is not that of the database; requests for files are answered 503 until it is",
                    metadata: [
                        "folder": "\(place)/blobs", "detail": "\(detail)",
                        "hint": """
                        mount the file system with the files, or, if this is their folder now: \
                        agenthub files adopt --data \(place) --database …
                        """,
                    ])
            case .right: log.notice("the folder of files is that of the database again", metadata: ["folder": "\(place)/blobs"])
            }
        }
    }

    // MARK: Tokens

    /// The present tokens, from wherever they are stored.
    func readTokens() throws -> TokenBook {
        guard let hub = try sharedHub() else {
            if access(tokens, R_OK) != 0, errno == EACCES { throw notAllowed }
            return try TokenFile(path: tokens).read()
        }
        do throws(HubError) { return try hub.tokens() } catch { throw Failure(error) }
    }

    /// Changes the tokens in their storage. The first one may come before the first start.
    func updateTokens(_ change: (inout TokenBook) -> Void) throws {
        try updateTokens(by: try sharedHub(), change)
    }

    /// - Parameter hub: One that ``sharedHub(_:)`` has opened.
    func updateTokens(by hub: Hub?, _ change: (inout TokenBook) -> Void) throws {
        guard let hub else {
            try make()
            try checkOwner()
            return try TokenFile(path: tokens).update { book throws(Failure) in change(&book) }
        }
        do throws(HubError) { try hub.changeTokens(change) } catch { throw Failure(error) }
    }

    /// A hub over the server's database, beside those that serve it.
    ///
    /// - Parameter settings: A change of tokens needs no settings of entities, and works where they cannot be read.
    func sharedHub(_ settings: Hub.Settings = .adopting) throws -> Hub? {
        guard let place = try place() else { return nil }
        var settings = settings
        settings.keepsTokens = true
        do throws(HubError) {
            return try Hub(.shared(place), settings: settings, random: SeededRandom(seed: systemRandomSeed()))
        } catch {
            throw Failure(error)
        }
    }

    /// Prevents root from writing files into another user's folder, which that user's hub could not read.
    func checkOwner() throws(Failure) {
        var facts = stat()
        guard stat(folder, &facts) == 0, facts.st_uid != geteuid() else { return }
        let name = getpwuid(facts.st_uid).map { String(cString: $0.pointee.pw_name) } ?? "#\(facts.st_uid)"
        throw Failure(77, "\(folder) belongs to \(name). Run the command as that user: \(Self.command(as: name))")
    }

    private func make() throws(Failure) {
        guard access(folder, F_OK) != 0 else { return }
        do throws(LinuxError) {
            try StateDirectory.open(folder, calls: LinuxFileCalls(), userID: geteuid()).close()
        } catch {
            throw Failure(error)
        }
    }
}
