package import SyncCore

/// The database's knowledge of its folder of files.
package struct FolderFacts: Sendable, Hashable {
    /// `nil`: it has none, because no hub of this version has served it with its folder yet.
    package var id: FolderID?
    /// Some of its files, by which a folder without id is recognised; empty when it has none.
    package var sample: [BlobDigest]

    /// The largest size of ``sample``. The files with the lowest digests are some of all times.
    package static let sampleMax = 16

    package init(id: FolderID?, sample: [BlobDigest]) {
        (self.id, self.sample) = (id, sample)
    }
}

/// The relation of the folder at the path of `--data` to the database (PROTOCOL A15).
///
/// A mount that is missing leaves an empty folder at the path. Files that a hub took there would be acknowledged, so the devices would drop
/// their copies, and the mount would hide them. So the database and its folder have the same id, and a hub uses no other folder.
package enum FolderStanding: Hashable, Sendable {
    case right
    /// The database has no id yet. It gets that of the folder, which needs one if it has none.
    case unclaimed
    /// - Parameter detail: What is there, and what was expected.
    case wrong(_ detail: String)

    /// - Parameters:
    ///   - folder: The id that the folder has.
    ///   - found: Number of files of the sample that are in the folder. It counts only for a database without an id.
    package init(_ facts: FolderFacts, folder: FolderID?, found: Int) {
        guard let expected = facts.id else {
            self =
                FolderStanding.has(found, of: facts.sample)
                ? .unclaimed : .wrong("it has \(found) of \(facts.sample.count) files of the database that were looked for")
            return
        }
        guard folder != expected else {
            self = .right
            return
        }
        self = .wrong("its id is \(folder?.text ?? "missing"), and the database expects the folder with the id \(expected)")
    }

    /// Returns whether a folder has enough files of the sample to be that of the database. Some may be missing: those that came while a
    /// mount was missing, before there were ids.
    static func has(_ found: Int, of sample: [BlobDigest]) -> Bool { 2 * found >= sample.count }
}
