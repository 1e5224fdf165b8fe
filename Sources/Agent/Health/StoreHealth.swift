package import SyncCore
package import SyncStore

/// The health of the database, by the incidents of the store and by the check after an unclean end.
package struct StoreHealth: Sendable {
    /// `ok`, or the complaint of the last check of the database.
    package private(set) var integrity = "ok"
    /// The database cannot be written: a commit failed and it could not be opened again, or another program has written it.
    package private(set) var isReadOnly = false
    /// The reason why the database cannot be used at present; `nil` while it can.
    package private(set) var fault: StoreError?
    /// The last fault of the database or its disk that has passed.
    private var recovery: Recovery?

    package init() {}

    package mutating func handle(_ incident: StoreWriter.Incident, at now: Instant) {
        switch incident {
        case .commitFailed(let error, _, _):
            let text =
                error.code == .diskFull ? "the disk was full (\(error))" : "a commit failed (\(error)); the database was opened again"
            recovered(text, from: error, at: now)
        case .readFailed(let error, _):
            recovered("the disk could not be read (\(error)); the database was opened again", from: error, at: now)
        case .unusable(let error), .fatal(let error):
            isReadOnly = true
            fault = error
        case .usableAgain:
            isReadOnly = false
            if let fault { recovered("the database could not be used for a while (\(fault))", from: fault, at: now) }
            fault = nil
        case .restored, .wentOn: break
        }
    }

    private mutating func recovered(_ text: String, from error: StoreError, at now: Instant) {
        recovery = Recovery(text, error.code == .diskFull ? .fullDisk : .disk, at: now)
    }

    /// Records that the database of another program, or of a newer one, is only read.
    package mutating func refused() {
        isReadOnly = true
    }

    /// - Parameter complaints: The findings of a check; none when the database is whole.
    package mutating func checked(_ complaints: [String]) {
        guard !complaints.isEmpty else { return }
        integrity = complaints[0]
    }

    /// A past fault of the disk.
    package func recoveryNews(isFull: Bool, at now: Instant) -> String? {
        recovery?.told(at: now, hasRoom: !isFull && !isReadOnly)
    }

    /// The reason why the database could not be read. A missing table in a new database is no cause; the failure of the disk is.
    package func obstacle(_ error: StoreError) -> String {
        guard let fault else { return error.description }
        return fault.code == .diskFull ? "the disk of the state folder is full (\(fault))" : fault.description
    }
}
