import NIOCore
import SyncCore
import Synchronization

/// Answers requests that only read, on a thread and a connection of its own.
///
/// Short requests go first, in one transaction. Long ones are listings and comparisons of a whole entity; one of them goes between two
/// turns of short ones. New devices therefore take turns among themselves, and hardly delay the others.
final class HubReadWorker: @unchecked Sendable {
    // Unchecked: `reader` belongs to `loop`; everything else is constant or locked.
    private let loop: any EventLoop
    private let reader: HubReader
    private let environment: HubService.Environment
    private let inbox = Mutex(Inbox())

    /// Receives the answered requests, and the time that they took.
    private let answered: @Sendable (_ jobs: [HubWorker.Job], _ responses: [HubResponse], _ elapsed: Duration) -> Void
    /// Receives the requests that the writing hub must answer.
    private let passOn: @Sendable (_ jobs: [HubWorker.Job]) -> Void

    private struct Inbox {
        var short: [HubWorker.Job] = []
        var long: [HubWorker.Job] = []
        /// The last turn answered short requests.
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

    /// Largest number of requests of one transaction.
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

    /// Returns whether the reader may answer the request.
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

    /// Ends after the waiting requests are answered.
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
