import NIOCore
import Synchronization

/// The readers of a hub: it decides which of them answers a request.
///
/// One page of seeds may occupy a connection for ``SearchPace/pageTime`` and a part, and the comparison of a million records takes as long.
/// Listings and comparisons therefore have a reader of their own, and one device that asks for them delays no pull and no look for news.
/// New devices take turns among themselves.
final class HubReaders: Sendable {
    /// Pulls that wait for news.
    let waits: PullWaits
    private let short: HubReadWorker
    /// The same one as `short` where the database gave no further connection.
    private let long: HubReadWorker

    /// Largest number of readers, each with a connection and a thread.
    static let most = 2

    /// - Parameter readers: The first ones are used, with the loop of each.
    /// - Returns: `nil` when there is none.
    init?(
        _ readers: [(reader: HubReader, loop: any EventLoop)], _ environment: HubService.Environment, _ figures: ServiceFigures,
        _ outcome: HubReadWorker.Outcome
    ) {
        guard let (reader, loop) = readers.first else { return nil }
        waits = PullWaits(reader, on: loop, environment) { figures.waitingPulls.store(Int64($0), ordering: .relaxed) }
        let short = HubReadWorker(reader, on: loop, waits, environment, outcome)
        self.short = short
        long = readers.count > 1 ? HubReadWorker(readers[1].reader, on: readers[1].loop, nil, environment, outcome) : short
        waits.handOut = { [unowned short] jobs, kind in short.submit(jobs, as: kind) }
        // A single reader would make all pulls wait for a count, so there a page counts only what it needs.
        guard long !== short else { return }
        for worker in [short, long] { worker.countTotals = { [unowned long] in long.count() } }
        reader.hub.totals.isServed = true
    }

    /// Returns whether a reader may answer the request.
    static func takes(_ request: HubRequest) -> Bool {
        switch Endpoint.find(request.path) {
        case .pull, .snapshot, .known, .verify, .config: true
        case .hello, .push, .diagnostics, .enroll, .token, .files, .file, .blob, .probe, .healthz, .readyz, .metrics, nil: false
        }
    }

    func submit(_ job: HubWorker.Job) {
        let isLong = Endpoint.find(job.request.path)?.rank ?? 0 > 1
        (isLong ? long : short).submit([job], as: isLong ? .long : job.wait == nil ? .short : .patient)
    }

    /// Ends after the waiting requests are answered.
    func stop() -> EventLoopFuture<Void> {
        let isOver = short.stop()
        return long === short ? isOver : isOver.and(long.stop()).map { _ in }
    }
}
