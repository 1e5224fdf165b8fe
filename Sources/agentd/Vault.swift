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
        /// A newer program wrote it; it can only be read.
        case newer(StoreError)
    }

    let path: String
    private let quarantine: String
    private let options: StoreOptions
    private let acknowledged: AcknowledgedFile?
    private let content: Mutex<(marker: StoreMarker?, state: State?)>

    init(stateFolder: String, _ options: StoreOptions) {
        path = stateFolder + "/agent.db"
        quarantine = stateFolder + "/quarantine"
        let acknowledged = AcknowledgedFile(stateFolder: stateFolder)
        self.acknowledged = acknowledged
        var options = options
        options.noteAcknowledged = { acknowledged?.write($0) }
        self.options = options
        var marker = options.marker
        // What was written after each commit knows more than what was written at the last start or end.
        if let last = acknowledged?.read(), let known = marker { marker?.acknowledged = max(known.acknowledged, last) }
        content = Mutex((marker, nil))
    }

    /// Known after ``start(_:)``.
    var state: State {
        guard let state = content.withLock({ $0.state }) else { preconditionFailure("the database was not opened yet") }
        return state
    }

    /// Whether this folder has been in use before.
    var hasMarker: Bool { content.withLock { $0.marker != nil } }

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
            state = .open(try writer.start())
        } catch {
            if error.code == .newerSchema {
                try writer.startRefusing(with: error)
                state = .newer(error)
            } else if DatabaseRescue.helps(against: error) {
                state = .damaged(error)
            } else {
                throw error
            }
        }
        content.withLock { $0.state = state }
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
        content.withLock { $0.state = .open(opening) }
        return opening
    }
}
