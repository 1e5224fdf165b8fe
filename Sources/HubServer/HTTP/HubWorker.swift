import Logging
import NIOCore
import SyncCore
import Synchronization

/// Owns the hub on one thread, and gives it what waits in as few transactions as possible.
///
/// Requests that arrive while a commit runs wait in the inbox and share the next one: with many devices an fsync serves
/// many pushes, with one it costs nothing, and no timer is needed. Pushes go first, and reads come after the answers of the
/// writes have left.
final class HubWorker: @unchecked Sendable {
    // Unchecked: `hub` and what follows it belong to `loop`; everything else is constant or locked.
    let loop: any EventLoop
    private let hub: Hub
    let files: FileThreads
    let uploads: HubUploads?
    /// The database keeps the tokens; what the environment knows of them is what was read last.
    let keepsTokens: Bool
    private let environment: HubService.Environment
    private var housekeeping: RepeatedTask?
    private var tidying: Scheduled<Void>?
    /// The mark that was handed over last, and when the next one is planned.
    private var marked: HubMark?
    private var marking: Scheduled<Void>?
    private let marks = MarkWriter()
    private let watching = Mutex<RepeatedTask?>(nil)

    private let inbox = Mutex(Inbox())
    private let admission: Mutex<Admission>

    private struct Inbox {
        var writes: [Job] = []
        var reads: [Job] = []
        /// A turn of the loop is on its way that will look here.
        var isAwaited = false
    }

    struct Job: Sendable {
        var request: HubRequest
        var slot: Slot
        /// Called on the worker's loop, after the commit.
        var answer: @Sendable (HubResponse) -> Void
    }

    /// Most requests of one transaction: the first of them must not wait for ever for the last.
    private static let writesMax = 64
    private static let readsMax = 16
    private static let housekeepingPeriod = TimeAmount.hours(24)
    /// With ``Hub/shrinkPages``: 400 MB a day at most.
    private static let shrinkSlicesMax = 100
    private static let watchPeriod = TimeAmount.seconds(30)
    private static let markPeriod = TimeAmount.seconds(1)
    /// Quiet time after which the log of the database is written back.
    private static let quietTime = TimeAmount.seconds(10)

    init(
        _ hub: sending Hub, on loop: any EventLoop, files: FileThreads, _ environment: HubService.Environment
    ) {
        uploads = hub.settings.uploads
        keepsTokens = hub.settings.keepsTokens
        self.files = files
        self.hub = hub
        self.loop = loop
        self.environment = environment
        admission = Mutex(Admission(random: SeededRandom(seed: environment.seed)))
        let log = environment.log
        uploads?.use { work in files.next().execute(work) } report: { error in
            // A store that is away says so itself, once.
            guard error.code != .away else { return }
            log.error("the storage of files failed", metadata: ["doing": "\(error.doing)", "error": "\(error.detail)"])
        }
    }

    // MARK: From any thread

    /// The place of one request among those that are being served. Gives it back when the last reference is gone, however the
    /// request ended: a client that leaves in the middle of its body must not cost a place for ever.
    final class Slot: Sendable {
        private let worker: HubWorker
        private let bytes: Int

        fileprivate init(_ worker: HubWorker, bytes: Int) {
            self.worker = worker
            self.bytes = bytes
        }

        deinit { worker.admission.withLock { $0.release(bytes: bytes) } }
    }

    enum Place {
        case slot(Slot)
        case none(seconds: Int)
    }

    func place(rank: Int, bytes: Int) -> Place {
        switch admission.withLock({ $0.take(rank: rank, bytes: bytes) }) {
        case .admitted: .slot(Slot(self, bytes: bytes))
        case .refused(let seconds): .none(seconds: seconds)
        }
    }

    func submit(_ job: Job) {
        let isFirst = inbox.withLock { inbox in
            if job.request.writes { inbox.writes.append(job) } else { inbox.reads.append(job) }
            let isFirst = !inbox.isAwaited
            inbox.isAwaited = true
            return isFirst
        }
        if isFirst { loop.execute { self.turn() } }
    }

    /// Begins the daily work.
    func start() {
        loop.execute {
            self.housekeeping = self.loop.scheduleRepeatedTask(
                initialDelay: .minutes(1), delay: HubWorker.housekeepingPeriod
            ) { _ in self.housekeep() }
            // What a crash left behind. A database that fails is reported, and asked again by the housekeeping.
            try? self.hub.tidyFiles(at: self.environment.time.now().wall)
        }
        watchStorage()
    }

    /// Whether a store of files is there should be known before a device asks.
    private func watchStorage() {
        guard let uploads, uploads.storage.traits.isRemote else { return }
        let storage = uploads.storage
        watching.withLock { watching in
            watching = files.next().scheduleRepeatedTask(initialDelay: .zero, delay: HubWorker.watchPeriod) { _ in
                // The storage itself reports when that changes.
                try? storage.check()
            }
        }
    }

    /// Ends after what is in the inbox, and leaves one whole file.
    func stop() -> EventLoopFuture<Void> {
        loop.submit {
            self.turn()
            self.housekeeping?.cancel()
            self.tidying?.cancel()
            self.marking?.cancel()
            self.watching.withLock { $0?.cancel() }
            self.tidy()
        }
    }

    // MARK: On the loop

    private func turn() {
        loop.assertInEventLoop()
        let (writes, reads) = inbox.withLock { inbox in
            let writes = Array(inbox.writes.prefix(HubWorker.writesMax))
            let reads = Array(inbox.reads.prefix(HubWorker.readsMax))
            inbox.writes.removeFirst(writes.count)
            inbox.reads.removeFirst(reads.count)
            inbox.isAwaited = !inbox.writes.isEmpty || !inbox.reads.isEmpty
            if inbox.isAwaited { loop.execute { self.turn() } }
            return (writes, reads)
        }
        guard !writes.isEmpty || !reads.isEmpty else { return }
        let start = NIODeadline.now()
        if !keepsTokens {
            hub.settings.tokens = environment.tokens()
            hub.settings.changeTokens = environment.changeTokens
        }
        serve(writes)
        serve(reads)
        let elapsed = Duration.nanoseconds((NIODeadline.now() - start).nanoseconds)
        admission.withLock { $0.served(writes.count + reads.count, in: elapsed) }
        hub.transactionTimes.add(elapsed)
        markIfDue()
        if !writes.isEmpty { tidyLater() }
    }

    // MARK: The mark

    /// Has the mark written when the database has come ``HubMark/commitsMax`` commits further, or at the end of a second in
    /// which it did. Not on this loop: a mark is written and synced, and requests should not wait for that.
    private func markIfDue() {
        guard hub.epoch != marked?.epoch || hub.head != marked?.head else { return }
        if hub.epoch != marked?.epoch || hub.head >= (marked?.head ?? 0) + HubMark.commitsMax { return writeMark(hub.mark) }
        guard marking == nil else { return }
        marking = loop.scheduleTask(in: HubWorker.markPeriod) {
            self.marking = nil
            self.writeMark(self.hub.mark)
        }
    }

    private func writeMark(_ mark: HubMark) {
        marked = mark
        marking?.cancel()
        marking = nil
        if marks.offer(mark) { files.next().execute { self.marks.write(self.environment.remember) } }
    }

    private func serve(_ jobs: [Job]) {
        if jobs.isEmpty { return }
        let responses = hub.handle(jobs.map(\.request), at: environment.time.now().wall)
        for (job, response) in zip(jobs, responses) { job.answer(response) }
    }

    private func tidyLater() {
        tidying?.cancel()
        tidying = loop.scheduleTask(in: HubWorker.quietTime) { self.tidy() }
    }

    private func tidy() {
        hub.checkpoint()
        marked = hub.mark
        _ = marks.offer(hub.mark)
        // Here and now: the loops of the files may be about to end.
        marks.write(environment.remember)
    }

    private func housekeep() {
        // What failed is reported by the hub, and tried again tomorrow.
        _ = try? hub.housekeep(at: environment.time.now().wall)
        shrink(slices: HubWorker.shrinkSlicesMax)
    }

    /// Slice by slice, so that nobody who asks meanwhile waits for all of it.
    private func shrink(slices: Int) {
        guard slices > 0, let isDone = try? hub.shrink(), !isDone else { return }
        loop.execute { self.shrink(slices: slices - 1) }
    }
}
