import NIOCore
import SyncCore
import Synchronization

/// Answers requests that only read, on a thread and a connection of its own. One turn is one transaction (``ReadTurns``).
final class HubReadWorker: @unchecked Sendable {
    // Unchecked: `reader` and `keeper` belong to `loop`; everything else is constant or locked.
    private let loop: any EventLoop
    private let reader: HubReader
    private let environment: HubService.Environment
    private let outcome: Outcome
    private let waits: PullWaits?
    private let keeper: AnswerKeeper
    /// Called on `loop` when a page has lacked the number of records of its entity. Set once, before there are requests.
    var countTotals: () -> Void = {}
    private let inbox = Mutex(Inbox())

    /// The receivers of requests, once they are answered or cannot be answered here.
    struct Outcome: Sendable {
        /// Receives the answered requests, and the time that they took.
        let answered: @Sendable (_ jobs: [HubWorker.Job], _ responses: [HubResponse], _ elapsed: Duration) -> Void
        /// Receives the requests that the writing hub must answer.
        let passOn: @Sendable (_ jobs: [HubWorker.Job]) -> Void
    }

    private struct Inbox {
        var turns = ReadTurns<HubWorker.Job>()
        /// A turn of the loop is scheduled that will read the inbox.
        var isAwaited = false
    }

    /// - Parameter waits: Receives the pulls without news that may wait, on the same loop; `nil`: none waits here.
    init(
        _ reader: HubReader, on loop: any EventLoop, _ waits: PullWaits?, _ environment: HubService.Environment, _ outcome: Outcome
    ) {
        self.reader = reader
        self.loop = loop
        self.waits = waits
        self.environment = environment
        self.outcome = outcome
        keeper = AnswerKeeper(on: loop, reader.confirmed) {
            reader.look(at: environment.time.now().wall)
        } confirm: {
            reader.confirm($0)
        }
    }

    /// May be called from any thread.
    func submit(_ jobs: [HubWorker.Job], as kind: ReadKind) {
        if jobs.isEmpty { return }
        let isFirst = inbox.withLock { inbox in
            inbox.turns.add(jobs, as: kind)
            defer { inbox.isAwaited = true }
            return !inbox.isAwaited
        }
        if isFirst { loop.execute { self.turn() } }
    }

    /// Ends after the waiting requests are answered. Long ones are refused: their clients have been cut off by now, and a page of each
    /// could take longer than a service manager waits.
    func stop() -> EventLoopFuture<Void> {
        loop.submit {
            self.refuse(self.inbox.withLock { $0.turns.remove(.long) })
            while self.inbox.withLock({ $0.isAwaited }) { self.turn() }
            self.keeper.stop()
        }
    }

    private func turn() {
        loop.assertInEventLoop()
        let start = NIODeadline.now()
        let (jobs, isMore) = inbox.withLock { inbox in
            let jobs = inbox.turns.next()
            inbox.isAwaited = !inbox.turns.isEmpty
            return (jobs, inbox.isAwaited)
        }
        if isMore { loop.execute { self.turn() } }
        if jobs.isEmpty { return }
        answer(jobs, from: start)
        if reader.lacksTotals { countTotals() }
        let elapsed = Duration.nanoseconds((NIODeadline.now() - start).nanoseconds)
        inbox.withLock { $0.turns.ended(jobs.count, after: elapsed) }
    }

    /// Counts the records of an entity for the pages to come. May be called from any thread.
    func count() {
        loop.execute { self.reader.countNext(at: self.environment.time.now().wall) }
    }

    private func refuse(_ jobs: [HubWorker.Job]) {
        let error = DatabaseError(.lost, doing: "list or compare", detail: "the hub stops")
        let refusal = Hub.finish(HubResponse(Hub.unavailable(error)), at: environment.time.now().wall)
        if !jobs.isEmpty { outcome.answered(jobs, jobs.map { _ in refusal }, .zero) }
    }

    private func answer(_ jobs: [HubWorker.Job], from start: NIODeadline) {
        let now = environment.time.now().wall
        guard let responses = reader.answer(jobs.map(\.request), tokens: environment.tokens(), at: now) else {
            // One of them may be the reason; the others are not for the hub that writes.
            if jobs.count > 1 { return jobs.forEach { answer([$0], from: start) } }
            return outcome.passOn(jobs)
        }
        let done = zip(jobs, responses).filter { waits?.add($0, insteadOf: $1) != true }
        let elapsed = Duration.nanoseconds((NIODeadline.now() - start).nanoseconds)
        let release = { [outcome] (done: [(HubWorker.Job, HubResponse)]) in outcome.answered(done.map(\.0), done.map(\.1), elapsed) }
        guard !done.isEmpty, let read = reader.unconfirmed else { return release(done) }
        let held = done.map { ($0.0.holding($0.1), $0.1) }
        keeper.hold(
            AnswerKeeper.Batch {
                release(held)
            } giveUp: { [outcome] in
                outcome.passOn(held.map(\.0))
            }, of: read)
    }
}
