/// Decides which file is fetched, when, and how much of it in one request. Like ``BlobUploader`` it performs nothing: events and the time go
/// in, effects come out.
///
/// It works beside the cycles and under the rules of uploads: no piece is begun while a cycle runs, and policy and budget are asked before
/// every request. Bytes that came stay, so a change of the verdict costs nothing.
package struct BlobDownloader: Sendable {
    package struct Settings: Hashable, Sendable {
        package var concurrent = 3
        /// Number of attempts without progress before a file is parked.
        package var attempts = 5
        /// Size above which a file counts as large for the policy, bytes.
        package var large = 1 << 20
        /// Largest accepted file, bytes.
        package var limit: Int64 = 2 << 30
        package var backoff = Backoff()
        /// Time over which a fleet that finds its hub again spreads the start of its downloads.
        package var spread: Duration = .seconds(60)

        package init() {}
    }

    package enum Event: Sendable {
        /// The wanted files in the order of ``DownloadJob/isBefore(_:_:)``, up to the requested number. It is the first event, and the
        /// answer to every `load`.
        case loaded([DownloadJob])
        /// A file is wanted, or is to be tried again.
        case added(DownloadJob)
        case removed(BlobID)
        case answered(UInt64, Result<HTTPResponse, TransportError>, DownloadMachine.Received, took: Duration)
        /// The part could not be written or read.
        case stumbled(UInt64, BlobError)
        /// There is no room for the file.
        case noRoom(UInt64, why: String)
        case compared(UInt64, BlobDigest)
        /// The situation has changed, or a cycle began or ended.
        case changed
        case settings(Settings)
        /// The hub is another one: what it said before has no meaning.
        case otherHub
        /// An operator ordered to ignore cost, battery and windows for the waiting files.
        case forced
        case timer
    }

    package enum Effect: Hashable, Sendable {
        case send(Call)
        /// Sync the part and find out its digest; if it is the right one, give it its final name.
        case compare(Call)
        /// End the request. Its answer comes all the same, and tells how many bytes came before.
        case cancel(UInt64)
        /// Remove the part.
        case discard(DownloadJob)
        /// - Parameter size: Size of the file, bytes, as far as it is known.
        case save(BlobID, size: Int64, DownloadProgress)
        case end(DownloadJob, Ending)
        /// Load this number of wanted files.
        case load(Int)
        case wake(at: Instant)
        case report(Report)
    }

    package enum Ending: Hashable, Sendable {
        case fetched(size: Int64)
        /// Parked, with its reason.
        case failed(code: String, why: String, DownloadProgress)
    }

    package enum Report: Hashable, Sendable {
        case began(BlobID)
        case progressed(BlobID, offset: Int64, size: Int64)
        case waits(BlobID, why: String)
        case ended(BlobID, Ending)
    }

    package struct Call: Hashable, Sendable {
        package var id: UInt64
        package var job: DownloadJob
        /// The bytes to ask for; at the comparison, those that would be next.
        package var request: DownloadMachine.Request
        package var headers: [String: String]
        /// Number of bytes that the answer may bring.
        package var bytes: Int
        /// The first request of this file in this run: room is made before it.
        package var isFirst: Bool
        /// Rate limit, bytes per second, shared with all other traffic of the link.
        package var bytesPerSecond: Int?
    }

    // MARK: State

    package internal(set) var settings: Settings
    var files: [BlobID: File] = [:]
    /// Ids in the order of the downloads.
    var order: [BlobID] = []
    var calls: [UInt64: BlobID] = [:]
    /// Calls that were ended from here.
    var cancelled: Set<UInt64> = []
    var lastCall: UInt64 = 0
    var sizer = ChunkSizer()
    var budget = RetryBudget()
    var random: SeededRandom
    /// Number of consecutive failures of the link or of the hub as such; `heldUntil` is the resulting delay.
    var failures = 0
    var heldUntil: Instant?
    var terms: BlobUploader.Terms?
    var spreadUntil: Instant?
    var hasContact = false
    var uplink: String?
    var isMetered = false
    /// The store has more wanted files than are loaded.
    var hasMore = false
    var armed: Instant?
    var hasLoaded = false

    struct File: Sendable {
        var job: DownloadJob
        var machine: DownloadMachine
        var call: UInt64?
        var request: DownloadMachine.Request?
        var isForced = false
        var isRetry = false
        var notBefore: Instant?
        var why: String?
        var hasBegun = false
        /// Size of the running piece, bytes.
        var inFlight = 0
        /// Number of delays since a byte came that had never come before.
        var waits = 0
        var best: Int64 = 0

        /// The running call compares the bytes, and uses no link.
        var isComparing: Bool { call != nil && machine.isComparing }
    }

    package init(settings: Settings, random: SeededRandom) {
        self.settings = settings
        self.random = random
    }

    // MARK: Events

    package mutating func handle(_ event: Event, _ terms: BlobUploader.Terms, at moment: Moment) -> [Effect] {
        var effects: [Effect] = []
        adopt(terms, moment, &effects)
        switch event {
        case .loaded(let jobs):
            hasLoaded = true
            hasMore = jobs.count >= BlobUploader.window
            for job in jobs { add(job) }
        case .added(let job): added(job)
        case .removed(let id):
            if let job = files[id]?.job { effects.append(.discard(job)) }
            remove(id, &effects)
        case .answered(let call, let result, let received, let took): answered(call, result, received, took, moment, &effects)
        case .stumbled(let call, let error): conclude(call, moment, &effects) { $0.stumbled(error) }
        case .noRoom(let call, let why): conclude(call, moment, &effects) { $0.noRoom(why) }
        case .compared(let call, let digest): conclude(call, moment, &effects) { $0.compared(digest) }
        case .changed: break
        case .settings(let settings): self.settings = settings
        case .otherHub:
            cancelAll(&effects)
            sizer = ChunkSizer()
        case .forced:
            for id in order {
                files[id]?.isForced = true
                files[id]?.notBefore = nil
            }
            (spreadUntil, heldUntil, failures) = (nil, nil, 0)
        case .timer: armed = nil
        }
        proceed(moment, &effects)
        return effects
    }

    // MARK: For status, why and the local API

    /// Number of files with a running request.
    package var activeCount: Int { calls.count }

    /// Bytes of the running requests, which the budgets do not count yet.
    package var underWay: Int { files.values.reduce(0) { $0 + $1.inFlight } }

    package func isActive(_ id: BlobID) -> Bool { files[id]?.call != nil }

    package func isAwaiting(_ call: UInt64) -> Bool { calls[call] != nil }

    /// The reason why a file waits; `nil` in ``Explanation/deferral`` when it can be next.
    package func explanation(of job: DownloadJob, _ terms: BlobUploader.Terms, now: Timestamp) -> Explanation {
        var situation = terms.situation
        situation.isForced = files[job.id]?.isForced ?? false
        return Policy.explain(
            job.traffic(large: settings.large), in: situation, now: now,
            bytes: min(sizer.bytes, Int(clamping: job.remaining)) + BlobUploader.overhead, since: job.wantedAt)
    }

    /// Time of the next attempt for a file after a failure, with the reason.
    package func hold(of id: BlobID, at moment: Moment) -> (until: Timestamp, why: String?)? {
        let until = [files[id]?.notBefore, heldUntil].compactMap { $0 }.max()
        guard let until, until > moment.instant else { return nil }
        return (moment.wall.advanced(by: moment.instant.duration(to: until)), files[id]?.why)
    }
}
