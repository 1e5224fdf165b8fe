import SyncCore
import Synchronization

/// The numbers of live records of large entities, for displays of progress. A hub and its readers share them.
///
/// Counting walks through an entity, so no page waits for it: a page has the number that was counted last, and the reader of long requests
/// counts after it. The first device that asks for a large entity gets no number.
final class EntityTotals: Sendable {
    /// A number of records, and the newest commit of its history when they were counted.
    private struct Count {
        var records: Int64
        var head: Int64
        var epoch: String
    }

    private struct State {
        var counts: [EntityName: Count] = [:]
        var due: Set<EntityName> = []
        /// Entities that could not be counted, until this time.
        var failed: [EntityName: Timestamp] = [:]
        var isServed = false
    }

    private let state = Mutex(State())

    /// Entities up to this number of records are counted for each page.
    static let exactMax: Int64 = 10_000

    /// Time after which an entity is counted again that could not be.
    private static let pause = Duration.seconds(600)

    /// A reader counts what is due. Without one, a page is the only occasion.
    var isServed: Bool {
        get { state.withLock { $0.isServed } }
        set { state.withLock { $0.isServed = newValue } }
    }

    /// Returns the number that was counted last, if it is wrong by at most one in ten. When so many commits have come that it may be wrong
    /// by one in a hundred, the entity is due.
    ///
    /// - Parameters:
    ///   - head: The newest commit.
    ///   - epoch: Its history.
    /// - Returns: `nil`: no number is known, or it is too old, or old and no reader counts it anew.
    func records(of entity: EntityName, at head: Int64, of epoch: String) -> Int64? {
        state.withLock { state in
            guard let count = state.counts[entity], count.epoch == epoch, count.head <= head else { return nil }
            let age = head - count.head
            let isOld = age >= count.records / 100
            if isOld { state.due.insert(entity) }
            return age > count.records / 10 || isOld && !state.isServed ? nil : count.records
        }
    }

    func demand(_ entity: EntityName) { state.withLock { _ = $0.due.insert(entity) } }

    /// Takes out an entity to be counted.
    func nextDue(at now: Timestamp) -> EntityName? {
        state.withLock { state in
            state.failed = state.failed.filter { now < $0.value }
            while let entity = state.due.popFirst() {
                if state.failed[entity] == nil { return entity }
            }
            return nil
        }
    }

    var isDue: Bool { state.withLock { !$0.due.isEmpty } }

    func keep(_ records: Int64, of entity: EntityName, at head: Int64, of epoch: String) {
        state.withLock { state in
            // A small one is counted for each page.
            state.counts[entity] = records > EntityTotals.exactMax ? Count(records: records, head: head, epoch: epoch) : nil
            state.due.remove(entity)
        }
    }

    /// The entity could not be counted, perhaps because it is too large for the time of a statement.
    func fail(_ entity: EntityName, at now: Timestamp) {
        state.withLock { $0.failed[entity] = now.advanced(by: EntityTotals.pause) }
    }
}
