import Glibc
import SyncCore
import SyncLinux
import SyncStore
import Synchronization

/// The database of this state folder: how it is opened, the files beside it, and the handling of a database that cannot be opened (PROTOCOL
/// C2).
final class DatabaseOpener: Sendable {
    enum State {
        case open(StoreOpening)
        /// A new database has to be made of its readable parts.
        case damaged(StoreError)
        /// It was written by a newer program, and can only be read, or by another program, and is not touched.
        case newer(StoreError)
        /// The disk does not allow opening it; it is tried again.
        case resting(StoreError)
    }

    let path: String
    private let quarantine: String
    /// A file that marks damage found by a read: the database is not opened again.
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
        options.recordAcknowledged = { acknowledged.write($0) }
        let floor = options.capacity.minFree
        options.releaseBallast = { ballast.release() }
        options.restoreBallast = { ballast.restore(freeBytes: $0, above: floor) }
        self.options = options
        var marker = options.marker
        // The file that is written after each commit is newer than the one from the last start or end.
        if let last = acknowledged.read(), let known = marker { marker?.acknowledged = max(known.acknowledged, last) }
        content = Mutex((marker, nil))
    }

    /// The state, known after ``start(_:)``.
    var state: State {
        guard let state = content.withLock({ $0.state }) else { preconditionFailure("the database was not opened yet") }
        return state
    }

    /// `true` when this folder has been in use before.
    var hasMarker: Bool { content.withLock { $0.marker != nil } }

    func recordOpening(_ opening: StoreOpening) {
        content.withLock { $0.state = .open(opening) }
    }

    /// Marks damage for the next start: a new database is made of the readable parts of this one. After failed reads that happens only if
    /// they still fail.
    func markDamage(_ error: StoreError) {
        // If this cannot be written either, the check at the next start has to find the damage.
        close(Glibc.open(error.isFailedRead ? unreadMark : damageMark, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0o600))
    }

    /// Writes the files beside the database again, after files of the state folder were removed.
    func writeAgain(in identity: IdentityFile) {
        acknowledged.openAgain()
        // Without the file, a later loss of the database would look like a first start; the next clean end writes it, too.
        if let marker = content.withLock({ $0.marker }) { try? identity.write(marker) }
    }

    func recordMarker(_ marker: StoreMarker) {
        content.withLock { $0.marker = marker }
    }

    func open(at now: Moment) throws(StoreError) -> Store {
        try Store(Database.open(path: path), present, at: now)
    }

    private var present: StoreOptions { options.with(content.withLock { $0.marker }) }

    /// Opens the database on the writer's thread, or determines the obstacle.
    ///
    /// - Throws: An error that a new database would not solve.
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

    /// Opens the database on a full disk: the reserved space is released first.
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
        // The old marker belongs to the old database.
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
