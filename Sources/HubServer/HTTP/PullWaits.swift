import NIOCore
import SyncCore
import Synchronization

/// The client's wish to wait, for one request. It outlives the client, which may leave at any time.
final class PullWait: Sendable {
    let id: WaitingPulls.ID
    let seconds: Int
    let until: Instant
    /// Called once when the pull begins to wait.
    let standBy: @Sendable () -> Void
    private let isOver = Atomic(false)

    init(_ id: WaitingPulls.ID, seconds: Int, until: Instant, standBy: @escaping @Sendable () -> Void) {
        (self.id, self.seconds, self.until, self.standBy) = (id, seconds, until, standBy)
    }

    /// The client has left.
    var hasEnded: Bool { isOver.load(ordering: .acquiring) }
    func end() { isOver.store(true, ordering: .releasing) }
}

/// Pulls without news that wait for some (PROTOCOL A3), in memory: a waiting pull holds a connection, and no thread, place or statement.
///
/// One timer serves all of them. While there are any, it reads the newest commit number ten times a second, in one statement for all.
/// After a commit it finds out which entities and scopes have changed, and hands out only the pulls that asked for one of them. These are
/// answered again like any other pull, so nothing else decides what a device receives. One whose answer still has no news waits on.
///
/// No notification of the database is used: its notifications serialise commits, and SQLite has none.
final class PullWaits: @unchecked Sendable {
    // Unchecked: everything but the constants belongs to `loop`.
    private let loop: any EventLoop
    private let reader: HubReader
    private let environment: HubService.Environment
    private let figure: @Sendable (Int) -> Void
    /// Receives the pulls that are to be answered again (``ReadKind/patient``), or for the last time (``ReadKind/ended``). Set once, before
    /// there are any.
    var handOut: ([HubWorker.Job], ReadKind) -> Void = { _, _ in }

    private var list = WaitingPulls()
    private var jobs: [WaitingPulls.ID: HubWorker.Job] = [:]
    private var timer: Scheduled<Void>?
    /// The tokens that the waiting pulls were admitted with, where a file has them.
    private var tokens: TokenBook?
    private var isStopping = false

    /// Time between two looks.
    static let period = TimeAmount.milliseconds(100)
    /// Largest body of a waiting request, bytes, as it was sent: a pull of fifty entities has some 10 KB, and ten thousand may wait.
    static let bodyMax = 16 << 10

    init(
        _ reader: HubReader, on loop: any EventLoop, _ environment: HubService.Environment, figure: @escaping @Sendable (Int) -> Void
    ) {
        (self.reader, self.loop, self.environment, self.figure) = (reader, loop, environment, figure)
    }

    /// Lets a request wait, instead of answering it now.
    ///
    /// - Returns: `false` when it must be answered.
    func add(_ job: HubWorker.Job, insteadOf response: HubResponse) -> Bool {
        loop.assertInEventLoop()
        guard let wait = job.wait, let interest = response.interest, !isStopping, environment.time.now().instant < wait.until else {
            return false
        }
        // Other grants or another configuration are news, too.
        let marks = PullWaits.marks.map { response.headers[$0] ?? "" }
        guard job.marks == nil || job.marks == marks else { return false }
        // Nothing is owed to a client that has left.
        if wait.hasEnded { return true }
        var job = job
        if job.marks == nil { wait.standBy() }
        (job.marks, job.slot) = (marks, nil)
        if list.isEmpty { tokens = environment.tokens() }
        let oldest = list.add(wait.id, interest, until: wait.until)
        jobs[wait.id] = job
        if let oldest, var displaced = jobs.removeValue(forKey: oldest) {
            displaced.wait = nil
            handOut([displaced], .ended)
        }
        figure(list.count)
        lookLater(in: PullWaits.period)
        return true
    }

    /// The client of a waiting request has left. May be called from any thread.
    func leave(_ wait: PullWait) {
        wait.end()
        loop.execute {
            self.list.remove(wait.id)
            self.jobs[wait.id] = nil
            self.figure(self.list.count)
        }
    }

    /// Answers all waiting requests at once, and later ones without a wait. May be called from any thread.
    func stop() {
        loop.execute {
            self.isStopping = true
            self.timer?.cancel()
            self.release(self.list.all, as: .ended)
        }
    }

    private static let marks = [HubHeader.epoch, HubHeader.config, HubHeader.scopes]

    private func lookLater(in time: TimeAmount) {
        guard timer == nil, !list.isEmpty, !isStopping else { return }
        timer = loop.scheduleTask(in: time) { self.look() }
    }

    private func look() {
        let start = NIODeadline.now()
        timer = nil
        let now = environment.time.now()
        if !list.isEmpty { lookForNews(at: now.wall) }
        // These have no news. They are answered from the database nevertheless: the device may have pushed meanwhile, through any hub, and
        // an answer with a lower `Sync-Device-Seq` than the answer to that push would prove a loss to it.
        release(list.due(at: now.instant), as: .ended)
        // With many scopes a look takes a while. The other requests of this thread have at least two thirds of it.
        lookLater(in: max(PullWaits.period, (.now() - start) * 2))
    }

    private func lookForNews(at now: Timestamp) {
        let tokens = environment.tokens()
        let hasOtherTokens = tokens != self.tokens
        self.tokens = tokens
        // A database that cannot be read has no news. Each wait ends in time, with an answer that says so.
        guard let sight = reader.sight(at: now), let seen = list.seen else { return }
        if sight.frame != seen.frame || sight.head < seen.head || hasOtherTokens {
            return release(list.concerned(by: nil, sight), as: .patient)
        }
        guard sight.head > seen.head else { return }
        guard let found = reader.changes(after: seen, at: now, scopes: list.scopes(of:)) else { return }
        let changes = found.sight.frame == seen.frame ? found.changes : nil
        release(list.concerned(by: changes, found.sight), as: .patient)
    }

    private func release(_ ids: [WaitingPulls.ID], as kind: ReadKind) {
        if ids.isEmpty { return }
        for id in ids { list.remove(id) }
        figure(list.count)
        handOut(ids.compactMap { jobs.removeValue(forKey: $0) }, kind)
    }
}
