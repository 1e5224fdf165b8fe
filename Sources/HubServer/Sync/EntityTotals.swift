import SyncCore
import Synchronization

/// The numbers of live records of large entities, for displays of progress. A hub and its readers share them.
///
/// Counting walks through an entity, so no page waits for it: a page has the number that was counted last, and the reader of long requests
/// counts after it. The first device that asks for a large entity gets no number.
final class EntityTotals: Sendable {
    /// A number of records, and the newest commit when they were counted.
    private struct Count {
        var records: Int64
        var head: Int64
    }

    private struct State {
        var counts: [EntityName: Count] = [:]
        var due: Set<EntityName> = []
        var isServed = false
    }

    private let state = Mutex(State())

    /// Entities up to this number of records are counted for each page.
    static let exactMax: Int64 = 10_000

    /// A reader counts what is due. Without one, a page is the only occasion.
    var isServed: Bool {
        get { state.withLock { $0.isServed } }
        set { state.withLock { $0.isServed = newValue } }
    }

    /// Returns the number that was counted last. When so many commits have come that it may be wrong by one in a hundred, the entity is
    /// due.
    ///
    /// - Parameter head: The newest commit.
    /// - Returns: `nil`: no number is known, or the hub has gone back since, or the number is old and no reader counts it anew.
    func records(of entity: EntityName, at head: Int64) -> Int64? {
        state.withLock { state in
            guard let count = state.counts[entity], count.head <= head else { return nil }
            let isOld = head - count.head >= count.records / 100
            if isOld { state.due.insert(entity) }
            return isOld && !state.isServed ? nil : count.records
        }
    }

    func demand(_ entity: EntityName) { state.withLock { _ = $0.due.insert(entity) } }

    /// Takes out an entity to be counted.
    func nextDue() -> EntityName? { state.withLock { $0.due.popFirst() } }

    var isDue: Bool { state.withLock { !$0.due.isEmpty } }

    func keep(_ records: Int64, of entity: EntityName, at head: Int64) {
        state.withLock { state in
            // A small one is counted for each page.
            state.counts[entity] = records > EntityTotals.exactMax ? Count(records: records, head: head) : nil
            state.due.remove(entity)
        }
    }
}
