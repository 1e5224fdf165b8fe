import Dispatch
import Glibc
import SyncCore
import Synchronization
import Testing

@testable import SyncStore

/// The reports of a store's thread, in order.
final class HeardIncidents: Sendable {
    private let state = Mutex<(words: [String], lost: Int)>(([], 0))
    /// The database can be used again.
    let usable = DispatchSemaphore(value: 0)
    /// It was given up.
    let fatal = DispatchSemaphore(value: 0)
    /// A slice of what an earlier transaction left is done.
    let wentOn = DispatchSemaphore(value: 0)

    func add(_ incident: StoreWriter.Incident) {
        let (word, lost) =
            switch incident {
            case .commitFailed(_, let survived, let lost): (survived ? "survived" : "gone", lost)
            case .readFailed(_, let lost): ("unread", lost)
            case .unusable: ("unusable", 0)
            case .usableAgain: ("usable", 0)
            case .restored: ("restored", 0)
            case .wentOn: ("went on", 0)
            case .fatal: ("fatal", 0)
            }
        state.withLock { state in
            state.words.append(word)
            state.lost += lost
        }
        if case .usableAgain = incident { usable.signal() }
        if case .fatal = incident { fatal.signal() }
        if case .wentOn = incident { wentOn.signal() }
    }

    var incidents: [String] { state.withLock { $0.words } }
    /// Answers that were no promise and were not kept.
    var lost: Int { state.withLock { $0.lost } }
}

/// A clock that stands still.
struct FixedTime: TimeSource {
    var moment = Moment(instant: Instant(nanoseconds: 5_000_000_000), wall: Timestamp(milliseconds: 1_763_700_000_000))

    func now() -> Moment { moment }
}

/// Waits for what a thread of the store answers.
func settled<Value: Sendable>(
    _ work: (@escaping @Sendable (Result<Value, StoreError>) -> Void) -> Void
) -> Result<Value, StoreError> {
    let answer = Mutex<Result<Value, StoreError>?>(nil)
    let done = DispatchSemaphore(value: 0)
    work { result in
        answer.withLock { $0 = result }
        done.signal()
    }
    done.wait()
    return answer.withLock { $0 } ?? .failure(StoreError(.closed, doing: "wait"))
}

/// Memory of the pages that a connection keeps, before and after all of the database was read.
struct CachedBytes: Sendable {
    var before: Int
    var after: Int

    init(around reads: StoreReads) throws(StoreError) {
        before = reads.database.cachedBytes
        #expect(try reads.check() == [])
        after = reads.database.cachedBytes
    }
}

/// A thread that is to wait for nothing gives back what it has read as soon as there is no more work, and reads it again.
func expectRelease(_ read: (@escaping @Sendable (Result<CachedBytes, StoreError>) -> Void) -> Void) throws {
    let full = try settled(read).get().after
    // Work that comes before the thread has got to it finds what the last has left.
    var kept = full
    for _ in 0..<50_000 where kept > full / 2 {
        // On a machine that is busy otherwise, this thread would ask again before the other one has found nothing to do.
        sched_yield()
        kept = try settled(read).get().before
    }
    #expect(kept <= full / 2)
    #expect(try settled(read).get().after == full)
}

/// Hands one creation in, as an app, and waits for the answer.
func enqueue(_ writer: StoreWriter, _ id: String, durability: EntityRules.Durability = .flash) -> Result<[Enqueued], StoreError> {
    var mutation = TestAgent.mutation(.create, id)
    mutation.durability = durability
    let app = Requester(app: AppName(trusted: "inspector"), uid: 1_000)
    return settled { writer.enqueue([mutation], by: app, completion: $0) }
}
