package import SyncCore

// The id of the folder of files, in a server's database and in the folder.
extension HubUploads {
    /// `nil`: the files are elsewhere, or in the folder of the hub's own database.
    var folder: SharedFolder? { storage as? SharedFolder }
}

extension Hub {
    /// Compares the folder of files with the database before the hub serves, and gives both an id if they have none.
    ///
    /// - Throws: When the database fails. A folder that is another one is reported by itself, and does not prevent serving.
    package func settleFolder() throws(HubError) {
        guard let folder = settings.uploads?.folder else { return }
        folder.expect(try transact(.reading) { () throws(DatabaseError) in try store.folderFacts() })
        try? folder.check()  // A wrong folder was reported, and records sync without it.
        guard folder.claim != nil else { return }
        claimFolder()
        try? folder.check()  // As above.
    }

    /// Gives the database the id of its folder, once a look at the folder has found that it should.
    func claimFolder() {
        guard let folder = settings.uploads?.folder, let id = folder.claim else { return }
        // A failure is reported, and the next turn tries again.
        let facts = try? transact(.writingIfFree) { () throws(DatabaseError) in
            try store.claimFolder(id)
            // Another replica may have been faster, with another folder: the database has its id then.
            return try store.folderFacts()
        }
        if let facts { folder.expect(facts) }
    }

    /// The outcome of an operator's wish to use a folder.
    package enum FolderAdoption: Hashable, Sendable {
        case done(FolderID)
        /// It was the folder of the database before.
        case known(FolderID)
        /// It lacks most of the files that were looked for, and nothing was changed.
        case incomplete(found: Int, sample: Int)
    }

    /// Makes a folder the one of the database, for all replicas, with a new id: a folder that had the former one is not used any more.
    ///
    /// - Parameter mayLack: It is adopted without most of its files, too.
    /// - Throws: `.badStorage` when the folder cannot be used.
    package func adoptFolder(
        _ files: any IdentifiedFolder, as id: FolderID, mayLack: Bool
    ) throws(HubError) -> FolderAdoption {
        let (known, sample) = try transact(.reading) { () throws(DatabaseError) in
            (try store.folderID(), try store.sampleOfFiles())
        }
        do throws(BlobError) {
            // An id that cannot be read is replaced.
            if let known, (try? files.folderID()) == known { return .known(known) }
            let found = try files.count(of: sample)
            guard mayLack || FolderStanding.has(found, of: sample) else { return .incomplete(found: found, sample: sample.count) }
            try files.setFolderID(id, replacing: true)
        } catch {
            throw HubError(.badStorage, doing: error.doing, detail: error.detail)
        }
        try transact { () throws(DatabaseError) in try store.setFolder(id) }
        return .done(id)
    }
}

/// Statements about the table `file_folder`, which only a server's database has.
extension HubStore {
    func folderFacts() throws(DatabaseError) -> FolderFacts {
        let id = try folderID()
        return FolderFacts(id: id, sample: id == nil ? try sampleOfFiles() : [])
    }

    func folderID() throws(DatabaseError) -> FolderID? { FolderID(try database.text("SELECT id FROM file_folder")) }

    func sampleOfFiles() throws(DatabaseError) -> [BlobDigest] {
        try database.all("SELECT digest FROM blob ORDER BY digest LIMIT \(FolderFacts.sampleMax)") { BlobDigest(hex: $0.text(0)) }
            .compactMap { $0 }
    }

    /// Keeps an id that the database has already.
    func claimFolder(_ id: FolderID) throws(DatabaseError) {
        try database.run("INSERT INTO file_folder(one, id) VALUES(1, ?) ON CONFLICT DO NOTHING", .text(id.text))
    }

    func setFolder(_ id: FolderID) throws(DatabaseError) {
        try database.run(
            "INSERT INTO file_folder(one, id) VALUES(1, ?) ON CONFLICT(one) DO UPDATE SET id = excluded.id", .text(id.text))
    }
}
