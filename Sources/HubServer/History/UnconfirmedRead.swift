import SyncCore
import Synchronization

/// A read of a commit that only the primary may have.
///
/// A server that commits to a standby, too, shows a commit when the standby has it. There is one exception. A server that shuts down ends
/// the waits of its commits (PostgreSQL, `SyncRepWaitForLSN`), and shows them for some milliseconds before it has told all other sessions
/// to end. The standby that takes over may lack them. A hub that has told a device of such a commit would prove a loss with it, and begin
/// a new history, although nobody was told that the commit succeeded.
///
/// An answer of a hub therefore leaves only when its newest commit is confirmed: by the same or a later commit of this process that the
/// server has acknowledged, or by a later look over the same connection (``HeldAnswers``).
struct UnconfirmedRead: Sendable, Hashable {
    var position: HubPosition
    /// The number of the connection, among those of its reader.
    var connection: Int64
}

/// The newest commit that a standby has as well, as far as this process knows. The hub that writes shares it with its readers.
final class ConfirmedHead: Sendable {
    private let head = Atomic<Int64>(0)

    var value: Int64 { head.load(ordering: .acquiring) }

    /// Has no effect with a lower number.
    func raise(to new: Int64) { _ = head.max(new, ordering: .acquiringAndReleasing) }
}

extension HubPosition {
    init(_ row: HubStore.HubRow) {
        self.init(epoch: row.epoch, opening: row.opening, head: row.head)
    }
}

extension Hub {
    /// The state of the database in the present or the latest transaction.
    var position: HubPosition { HubPosition(state) }

    /// Remembers what the transaction that has just ended has seen, unless it may be undone.
    func rememberPosition() {
        if !store.database.mayBeUndone { confirm(position) }
    }

    func confirm(_ position: HubPosition) {
        known = position
        if store.database.isShared { confirmed.raise(to: position.head) }
    }

    /// Asks the database for its state.
    ///
    /// - Returns: The number of the connection; `nil` when there is no answer.
    func look() -> Int64? {
        guard !isDown else { return nil }
        do throws(DatabaseError) {
            return try store.hub().map { _ in generation.value }
        } catch {
            abandon(error)
            return nil
        }
    }

    /// What the latest reading transaction has shown, if it is not confirmed yet.
    func unconfirmed(over connection: Int64) -> UnconfirmedRead? {
        guard store.database.mayBeUndone else { return nil }
        if state.head <= confirmed.value {
            known = position
            return nil
        }
        return UnconfirmedRead(position: position, connection: connection)
    }
}
