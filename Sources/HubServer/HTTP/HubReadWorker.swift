import NIOCore
import SyncCore
import Synchronization

/// Answers requests that only read, on a thread and a connection of its own.
///
/// Short requests go first, in one transaction. Long ones are listings and comparisons of a whole entity; one of them goes between two
/// turns of short ones. New devices therefore take turns among themselves, and hardly delay the others. Pulls that have waited for news
/// (``PullWaits``) share the turns of short requests: after a commit thousands of them may come at once.
final class HubReadWorker: @unchecked Sendable {
    // Unchecked: `reader` and `keeper` belong to `loop`; everything else is constant or locked.
    private let loop: any EventLoop
    private let reader: HubReader
    private let environment: HubService.Environment
    private let inbox = Mutex(Inbox())
    /// Pulls that wait for news.
    let waits: PullWaits
    private let keeper: AnswerKeeper

    /// Receives the answered requests, and the time that they took.
    private let answered: @Sendable (_ jobs: [HubWorker.Job], _ responses: [HubResponse], _ elapsed: Duration) -> Void
    /// Receives the requests that the writing hub must answer.
    private let passOn: @Sendable (_ jobs: [HubWorker.Job]) -> Void

    private struct Inbox {
        var short: [HubWorker.Job] = []
        var long: [HubWorker.Job] = []
        /// Pulls that have waited for news.
        var woken: [HubWorker.Job] = []
        /// The last turn answered short requests.
        var wasShort = false
        var isAwaited = false

        mutating func next() -> [HubWorker.Job] {
            let isLong = short.isEmpty && woken.isEmpty || wasShort && !long.isEmpty
            wasShort = !isLong
            let jobs = isLong ? HubReadWorker.take(1, of: &long) : nextShort()
            isAwaited = !short.isEmpty || !long.isEmpty || !woken.isEmpty
            return jobs
        }

        /// Half of a turn belongs to each kind, as far as it needs it.
        private mutating func nextShort() -> [HubWorker.Job] {
            let most = HubReadWorker.shortMax
            let jobs = HubReadWorker.take(max(most / 2, most - woken.count), of: &short)
            return jobs + HubReadWorker.take(most - jobs.count, of: &woken)
        }
    }

    /// Largest number of requests of one transaction.
    private static let shortMax = 16

    private static func take(_ count: Int, of jobs: inout [HubWorker.Job]) -> [HubWorker.Job] {
        defer { jobs.removeFirst(min(count, jobs.count)) }
        return Array(jobs.prefix(count))
    }

    init(
        _ reader: HubReader, on loop: any EventLoop, _ environment: HubService.Environment, _ figures: ServiceFigures,
        answered: @escaping @Sendable (_ jobs: [HubWorker.Job], _ responses: [HubResponse], _ elapsed: Duration) -> Void,
        passOn: @escaping @Sendable (_ jobs: [HubWorker.Job]) -> Void
    ) {
        self.reader = reader
        self.loop = loop
        self.environment = environment
        self.answered = answered
        self.passOn = passOn
        keeper = AnswerKeeper(on: loop, reader.confirmed) {
            reader.look(at: environment.time.now().wall)
        } confirm: {
            reader.confirm($0)
        }
        waits = PullWaits(reader, on: loop, environment) { figures.waitingPulls.store(Int64($0), ordering: .relaxed) }
        waits.handOut = { [unowned self] in wake($0) }
    }

    /// Returns whether the reader may answer the request.
    static func takes(_ request: HubRequest) -> Bool {
        switch Endpoint.find(request.path) {
        case .pull, .snapshot, .known, .verify, .config: true
        default: false
        }
    }

    func submit(_ job: HubWorker.Job) {
        put { inbox in
            if Endpoint.find(job.request.path)?.rank ?? 0 > 1 { inbox.long.append(job) } else { inbox.short.append(job) }
        }
    }

    private func wake(_ jobs: [HubWorker.Job]) {
        if !jobs.isEmpty { put { $0.woken += jobs } }
    }

    private func put(_ change: (inout Inbox) -> Void) {
        let isFirst = inbox.withLock { inbox in
            change(&inbox)
            defer { inbox.isAwaited = true }
            return !inbox.isAwaited
        }
        if isFirst { loop.execute { self.turn() } }
    }

    /// Ends after the waiting requests are answered.
    func stop() -> EventLoopFuture<Void> {
        loop.submit {
            while self.inbox.withLock({ $0.isAwaited }) { self.turn() }
            self.keeper.stop()
        }
    }

    private func turn() {
        loop.assertInEventLoop()
        let start = NIODeadline.now()
        let (jobs, isMore) = inbox.withLock { inbox in
            let jobs = inbox.next()
            return (jobs, inbox.isAwaited)
        }
        if isMore { loop.execute { self.turn() } }
        guard !jobs.isEmpty else { return }
        let now = environment.time.now().wall
        guard let responses = reader.answer(jobs.map(\.request), tokens: environment.tokens(), at: now) else { return passOn(jobs) }
        let done = zip(jobs, responses).filter { !waits.add($0, insteadOf: $1) }
        let elapsed = Duration.nanoseconds((NIODeadline.now() - start).nanoseconds)
        let release = { [answered] (done: [(HubWorker.Job, HubResponse)]) in answered(done.map(\.0), done.map(\.1), elapsed) }
        guard !done.isEmpty, let read = reader.unconfirmed else { return release(done) }
        let held = done.map { ($0.0.holding($0.1), $0.1) }
        keeper.hold(
            AnswerKeeper.Batch {
                release(held)
            } giveUp: { [passOn] in
                passOn(held.map(\.0))
            }, of: read)
    }
}
