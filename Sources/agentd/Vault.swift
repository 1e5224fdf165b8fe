import Glibc
import SyncCore
import SyncLinux
import SyncStore
import Synchronization

/// The database of this state folder: how it is opened, what stands beside it, and what is done when it cannot be opened
/// (PROTOCOL C2).
final class Vault: Sendable {
    enum State {
        case open(StoreOpening)
        /// Another one has to be made of what can be read of it.
        case damaged(StoreError)
        /// A newer program wrote it, which can only be read, or another one, which is left alone.
        case newer(StoreError)
        /// The disk does not let it be opened; it is tried again.
        case resting(StoreError)
    }

    let path: String
    private let quarantine: String
    /// Somebody has read from the database what cannot be: it is not opened again.
    private let damageMark: String
    private let unreadMark: String
    private let ballast: Ballast
    private let options: StoreOptions
    private let acknowledged: AcknowledgedFile
    private let content: Mutex<(marker: StoreMarker?, state: State?)>

    init(stateFolder: String, ballastBytes: Int64, _ options: StoreOptions) {
        path = stateFolder + "/agent.db"
        quarantine = stateFolder + "/quarantine"
        damageMark = stateFolder + "/agent.db-damaged"
        unreadMark = stateFolder + "/agent.db-unread"
        let ballast = Ballast(stateFolder + "/ballast", bytes: ballastBytes)
        self.ballast = ballast
        let acknowledged = AcknowledgedFile(stateFolder: stateFolder)
        self.acknowledged = acknowledged
        var options = options
        options.noteAcknowledged = { acknowledged.write($0) }
        let floor = options.capacity.minFree
        options.releaseBallast = { ballast.release() }
        options.restoreBallast = { ballast.restore(freeBytes: $0, above: floor) }
        self.options = options
        var marker = options.marker
        // What was written after each commit knows more than what was written at the last start or end.
        if let last = acknowledged.read(), let known = marker { marker?.acknowledged = max(known.acknowledged, last) }
        content = Mutex((marker, nil))
    }

    /// Known after ``start(_:)``.
    var state: State {
        guard let state = content.withLock({ $0.state }) else { preconditionFailure("the database was not opened yet") }
        return state
    }

    /// Whether this folder has been in use before.
    var hasMarker: Bool { content.withLock { $0.marker != nil } }

    func note(_ opening: StoreOpening) {
        content.withLock { $0.state = .open(opening) }
    }

    /// Of the next start: another database is made of what can be read of this one; after reads that failed, only if they still
    /// do.
    func noteDamage(_ error: StoreError) {
        // Where not even this can be written, the check at the next start has to find it.
        close(Glibc.open(error.isFailedRead ? unreadMark : damageMark, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0o600))
    }

    /// After files of the state folder were removed: writes down anew what is known beside the database.
    func noteAgain(in identity: IdentityFile) {
        acknowledged.openAgain()
        // Without it a database that goes missing later looks like a first start; the next end in good order writes it, too.
        if let marker = content.withLock({ $0.marker }) { try? identity.write(marker) }
    }

    func note(_ marker: StoreMarker) {
        content.withLock { $0.marker = marker }
    }

    func open(at now: Moment) throws(StoreError) -> Store {
        try Store(Database.open(path: path), present, at: now)
    }

    private var present: StoreOptions { options.with(content.withLock { $0.marker }) }

    /// Opens the database on the writer's thread, or finds out what stands in the way.
    ///
    /// - Throws: What another database would not help against.
    func start(_ writer: StoreWriter) throws(StoreError) {
        let state: State
        do throws(StoreError) {
            if try rescue.isUnfinished() {
                throw StoreError(.corrupt, doing: "open \(path)", detail: "its recovery was cut short")
            }
            if access(damageMark, F_OK) == 0 {
                throw StoreError(.corrupt, doing: "open \(path)", detail: "it was found damaged while it was used")
            }
            if access(unreadMark, F_OK) == 0 {
                guard Database.isWhole(path: path) else {
                    throw StoreError(.corrupt, doing: "open \(path)", detail: "some of it could not be read any more")
                }
                unlink(unreadMark)
            }
            state = .open(try startWithRoom(writer))
        } catch {
            if error.code == .newerSchema || error.code == .foreignFile {
                try writer.startRefusing(with: error)
                state = .newer(error)
            } else if DatabaseRescue.helps(against: error) {
                state = .damaged(error)
            } else if error.isPassing || error.code == .unknownOutcome {
                try writer.startResting(after: error)
                state = .resting(error)
            } else {
                throw error
            }
        }
        content.withLock { $0.state = state }
    }

    /// A full disk: what was kept for this moment is given back first.
    private func startWithRoom(_ writer: StoreWriter) throws(StoreError) -> StoreOpening {
        do throws(StoreError) {
            return try writer.start()
        } catch {
            guard error.code == .diskFull || error.code == .cannotOpen, ballast.release() else { throw error }
            return try writer.start()
        }
    }

    private var rescue: DatabaseRescue { DatabaseRescue(path: path, quarantine: quarantine, options: present) }

    func recover(_ writer: StoreWriter, from reason: StoreError) throws(StoreError) -> StoreOpening {
        let result = try rescue.run(reason: reason.description, at: SystemClocks().now())
        // The old marker speaks of the old database.
        content.withLock { content in
            content.marker = content.marker.map { StoreMarker(replica: $0.replica, acknowledged: 0) }
        }
        var opening = try writer.start()
        opening.rescue = result
        unlink(damageMark)
        unlink(unreadMark)
        content.withLock { $0.state = .open(opening) }
        return opening
    }
}
