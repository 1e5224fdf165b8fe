import SyncCore
import Synchronization

/// A read of a commit that only the primary may have.
///
/// A server that commits to a standby, too, shows a commit when the standby has it. There are two exceptions. A server that shuts down ends
/// the waits of its commits (PostgreSQL, `SyncRepWaitForLSN`), and shows them for some milliseconds before it has told all other sessions
/// to end; and a person may cancel such a wait. The standby that takes over may lack these commits. A hub that has told a device of one
/// would prove a loss with it, and begin a new history, although no client was told that the commit succeeded.
///
/// An answer of a hub therefore leaves only when its newest commit is confirmed: by the same or a later commit of this process that the
/// server has acknowledged, or by a later look over the same connection (``HeldAnswers``). A look does not notice a wait that was
/// cancelled.
struct UnconfirmedRead: Sendable, Hashable {
    var position: HubPosition
    /// The number of the connection, among those of its hub or reader.
    var connection: Int64
}

/// The newest commit that a standby has as well, as far as this process knows. The hub that writes shares it with its readers.
final class ConfirmedHead: Sendable {
    private let newest = Mutex<HubPosition?>(nil)

    /// Returns whether the commit is the confirmed one, or an earlier one of the same opening.
    func includes(_ position: HubPosition) -> Bool {
        newest.withLock { newest in newest.map { $0.isOfOpening(of: position) && position.head <= $0.head } ?? false }
    }

    /// Has no effect with an earlier commit of the same opening.
    func raise(to position: HubPosition) {
        newest.withLock { newest in
            if let known = newest, known.isOfOpening(of: position), known.head > position.head { return }
            newest = position
        }
    }
}

extension HubPosition {
    init(_ row: HubStore.HubRow) {
        self.init(epoch: row.epoch, opening: row.opening, head: row.head)
    }

    fileprivate func isOfOpening(of other: HubPosition) -> Bool {
        sameBytes(epoch, other.epoch) && sameBytes(opening, other.opening)
    }
}

extension Hub {
    /// The state of the database in the present or the latest transaction.
    var position: HubPosition { HubPosition(state) }

    /// Remembers what the transaction that has just ended has seen.
    func rememberPosition() {
        guard store.database.mayBeUndone, !confirmed.includes(position) else { return confirm(position) }
        // Answers that were read over two connections are held under the first one, which is lost.
        unconfirmed = UnconfirmedRead(position: position, connection: unconfirmed?.connection ?? connection)
    }

    func confirm(_ position: HubPosition) {
        known = position
        if store.database.isShared { confirmed.raise(to: position) }
    }

    /// The newest commit that was shown since the last call, unless it is confirmed.
    func takeUnconfirmed() -> UnconfirmedRead? {
        defer { unconfirmed = nil }
        return unconfirmed.flatMap { confirmed.includes($0.position) ? nil : $0 }
    }

    /// Notes that a standby has the commit, too.
    func confirm(_ read: UnconfirmedRead) {
        guard !sameBytes(read.position.epoch, known.epoch) || read.position.head > known.head else { return }
        confirm(read.position)
    }

    /// Asks the database for its state.
    ///
    /// - Returns: The number of the connection; `nil` when there is no answer.
    func look() -> Int64? {
        guard !isDown else { return nil }
        do throws(DatabaseError) {
            return try store.hub().map { _ in connection }
        } catch {
            abandon(error)
            return nil
        }
    }
}
