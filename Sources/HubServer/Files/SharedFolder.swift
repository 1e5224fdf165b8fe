package import SyncCore
import Synchronization

/// The folder of files of a hub on a server's database. It is used only while it is the one that the database knows
/// (``FolderStanding``); otherwise every call fails as if the storage were away.
///
/// The thread of the database tells what it knows (``expect(_:)``). The threads of files look at the folder at each call: that is the read
/// of a small file, beside calls that open, write and sync others.
package final class SharedFolder: BlobStorage {
    package enum Change: Sendable {
        /// It is another folder, or its id cannot be read; with the details.
        case wrong(String)
        case right
    }

    private let files: any IdentifiedFolder
    private let candidate: FolderID
    private let report: @Sendable (Change) -> Void
    private let state = Mutex(State())

    private struct State {
        /// `nil`: the database was not asked yet.
        var facts: FolderFacts?
        /// The id of the folder, which the database should get.
        var claim: FolderID?
        /// The outcome of the last look; `true` before the first one.
        var isRight = true
        /// The fault that was reported last; `nil`: none, or it is over.
        var fault: String?
    }

    /// - Parameters:
    ///   - candidate: The id of a folder that needs one, drawn by chance.
    ///   - report: Receives each change once.
    package init(_ files: any IdentifiedFolder, candidate: FolderID, report: @escaping @Sendable (Change) -> Void) {
        (self.files, self.candidate, self.report) = (files, candidate, report)
    }

    // MARK: From the database's thread

    /// Tells what the database knows at present.
    func expect(_ facts: FolderFacts) {
        state.withLock { state in
            state.facts = facts
            if facts.id != nil { state.claim = nil }
        }
    }

    /// The id of the folder, where the database should get it; ``expect(_:)`` ends that.
    var claim: FolderID? { state.withLock { $0.claim } }

    // MARK: From a thread that may wait

    /// Compares the folder with the database.
    ///
    /// - Throws: `.away` unless it is the right one.
    package func check() throws(BlobError) {
        let facts = state.withLock { $0.facts }
        let (claim, fault) = look(facts)
        let isRight = claim == nil && fault == nil
        let change: Change? = state.withLock { state in
            // The database may have got its id meanwhile.
            if state.facts?.id == nil { state.claim = claim }
            state.isRight = isRight
            defer { if claim == nil { state.fault = fault } }
            if claim != nil || state.fault == fault { return nil }
            return fault.map { .wrong($0) } ?? .right
        }
        if let change { report(change) }
        guard isRight else {
            throw BlobError(.away, doing: "use the folder of files", detail: fault ?? "its id is not in the database yet")
        }
    }

    private func look(_ facts: FolderFacts?) -> (claim: FolderID?, fault: String?) {
        guard let facts else { return (nil, "the database was not asked yet") }
        do throws(BlobError) {
            var id = try files.folderID()
            let found = facts.id == nil ? try files.count(of: facts.sample) : 0
            switch FolderStanding(facts, folder: id, found: found) {
            case .right: return (nil, nil)
            case .wrong(let detail): return (nil, detail)
            case .unclaimed:
                if id == nil {
                    try files.setFolderID(candidate, replacing: false)
                    // Another replica may have set its id before.
                    id = try files.folderID()
                }
                return (id, id == nil ? "its id is gone again" : nil)
            }
        } catch {
            return (nil, error.description)
        }
    }

    // MARK: Storage

    package func open(incoming name: String, at offset: Int64) throws(BlobError) -> any IncomingBlob {
        try check()
        return GuardedIncoming(try files.open(incoming: name, at: offset), self)
    }

    package func discard(incoming name: String) {
        // In another folder the name may be that of another hub's upload. The daily tidying finds what stays.
        guard (try? check()) != nil else { return }
        files.discard(incoming: name)
    }

    package func incoming() throws(BlobError) -> [(name: String, changedAt: Timestamp)] {
        try check()
        return try files.incoming()
    }

    package func kept() throws(BlobError) -> [BlobDigest] {
        try check()
        return try files.kept()
    }

    package func size(of digest: BlobDigest) throws(BlobError) -> Int64? {
        try check()
        return try files.size(of: digest)
    }

    package func read(_ digest: BlobDigest) throws(BlobError) -> any BlobReader {
        try check()
        return try files.read(digest)
    }

    package func remove(_ digest: BlobDigest) throws(BlobError) {
        try check()
        try files.remove(digest)
    }

    /// The room at another place does not count.
    package func freeBytes() -> Int64? { isReachable == false ? nil : files.freeBytes() }

    package var isReachable: Bool? { state.withLock { $0.isRight } }

    package var traits: BlobStorageTraits {
        var traits = files.traits
        // A folder may come and go as a network does.
        traits.isRemote = true
        return traits
    }
}

/// A file that comes into the folder. It is not acknowledged as complete when another folder has become the right one meanwhile.
private final class GuardedIncoming: IncomingBlob {
    private let file: any IncomingBlob
    private let folder: SharedFolder

    init(_ file: any IncomingBlob, _ folder: SharedFolder) { (self.file, self.folder) = (file, folder) }

    var offset: Int64 { file.offset }
    func append(_ bytes: [UInt8]) throws(BlobError) { try file.append(bytes) }
    func sync() throws(BlobError) { try file.sync() }
    func digest() -> BlobDigest { file.digest() }

    func keep(as digest: BlobDigest) throws(BlobError) {
        try folder.check()
        try file.keep(as: digest)
    }

    func discard() { file.discard() }
}

extension IdentifiedFolder {
    /// Number of files of a sample that are in the folder.
    func count(of sample: [BlobDigest]) throws(BlobError) -> Int {
        var found = 0
        for digest in sample where try size(of: digest) != nil { found += 1 }
        return found
    }
}
