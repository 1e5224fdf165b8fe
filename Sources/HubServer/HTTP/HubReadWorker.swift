import NIOCore
import SyncCore
import Synchronization

/// Answers what only reads, on a thread and a connection of its own.
///
/// Short requests go first, in one transaction; of long ones, listings and comparisons of a whole entity, one goes between two turns
/// of short ones. So new devices take turns among themselves, and the others hardly notice them.
final class HubReadWorker: @unchecked Sendable {
    // Unchecked: `reader` belongs to `loop`; everything else is constant or locked.
    private let loop: any EventLoop
    private let reader: HubReader
    private let environment: HubService.Environment
    private let inbox = Mutex(Inbox())

    /// Told what was answered, and how long it took.
    private let answered: @Sendable (_ jobs: [HubWorker.Job], _ responses: [HubResponse], _ elapsed: Duration) -> Void
    /// Given what the hub that writes has to answer.
    private let passOn: @Sendable (_ jobs: [HubWorker.Job]) -> Void

    private struct Inbox {
        var short: [HubWorker.Job] = []
        var long: [HubWorker.Job] = []
        /// The last turn was one of short requests.
        var wasShort = false
        var isAwaited = false

        mutating func next() -> [HubWorker.Job] {
            let isLong = short.isEmpty || wasShort && !long.isEmpty
            wasShort = !isLong
            let jobs = isLong ? Array(long.prefix(1)) : Array(short.prefix(HubReadWorker.shortMax))
            if isLong { long.removeFirst(jobs.count) } else { short.removeFirst(jobs.count) }
            isAwaited = !short.isEmpty || !long.isEmpty
            return jobs
        }
    }

    /// Requests of one transaction.
    private static let shortMax = 16

    init(
        _ reader: HubReader, on loop: any EventLoop, _ environment: HubService.Environment,
        answered: @escaping @Sendable (_ jobs: [HubWorker.Job], _ responses: [HubResponse], _ elapsed: Duration) -> Void,
        passOn: @escaping @Sendable (_ jobs: [HubWorker.Job]) -> Void
    ) {
        self.reader = reader
        self.loop = loop
        self.environment = environment
        self.answered = answered
        self.passOn = passOn
    }

    /// Whether it is one that the reader may answer.
    static func takes(_ request: HubRequest) -> Bool {
        switch Endpoint.find(request.path) {
        case .pull, .snapshot, .known, .verify, .config: true
        default: false
        }
    }

    func submit(_ job: HubWorker.Job) {
        let isFirst = inbox.withLock { inbox in
            if Endpoint.find(job.request.path)?.rank ?? 0 > 1 { inbox.long.append(job) } else { inbox.short.append(job) }
            defer { inbox.isAwaited = true }
            return !inbox.isAwaited
        }
        if isFirst { loop.execute { self.turn() } }
    }

    /// Ends after what waits.
    func stop() -> EventLoopFuture<Void> {
        loop.submit { while self.inbox.withLock({ $0.isAwaited }) { self.turn() } }
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
        answered(jobs, responses, .nanoseconds((NIODeadline.now() - start).nanoseconds))
    }
}
