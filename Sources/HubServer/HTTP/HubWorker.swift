import Logging
import NIOCore
import SyncCore
import SyncHTTP
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
    let tokenGrace: Duration
    private let environment: HubService.Environment
    let traffic: HubTraffic
    let figures = ServiceFigures()
    private var housekeeping: RepeatedTask?
    private var tidying: Scheduled<Void>?
    private let storageFailure = Exchanged<BlobError?>(nil)
    /// The mark that was handed over last, and when the next one is planned.
    private var marked: HubMark?
    private var marking: Scheduled<Void>?
    private let marks = MarkWriter()
    private let watching = Mutex<RepeatedTask?>(nil)
    /// While another session keeps the database from being written to.
    private var hold: WriteHold?

    /// Answers most of what only reads; `nil`: this one does.
    private let reading = Mutex<HubReadWorker?>(nil)
    private let inbox = Mutex(Inbox())
    private let views = Mutex(Views())
    private let lookUps = Mutex(LookUps())
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
        tokenGrace = hub.settings.tokenGrace
        self.files = files
        traffic = hub.traffic
        self.hub = hub
        self.loop = loop
        self.environment = environment
        admission = Mutex(Admission(random: SeededRandom(seed: environment.seed)))
        let log = environment.log
        uploads?.use { work in
            files.next().execute(work)
        } report: { error in
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
        private let device: DeviceID

        fileprivate init(_ worker: HubWorker, bytes: Int, of device: DeviceID) {
            self.worker = worker
            self.bytes = bytes
            self.device = device
        }

        deinit { worker.admission.withLock { $0.release(bytes: bytes, of: device) } }
    }

    enum Place {
        case slot(Slot)
        /// - Parameter isOwn: Because of what this device alone asks.
        case none(seconds: Int, isOwn: Bool)
    }

    func place(rank: Int, bytes: Int, of device: DeviceID) -> Place {
        switch admission.withLock({ $0.take(rank: rank, bytes: bytes, of: device) }) {
        case .admitted: return .slot(Slot(self, bytes: bytes, of: device))
        case .refused(let seconds):
            figures.overloaded.add(1, ordering: .relaxed)
            return .none(seconds: seconds, isOwn: false)
        case .deviceRefused(let seconds):
            figures.overloadedByDevice.add(1, ordering: .relaxed)
            return .none(seconds: seconds, isOwn: true)
        }
    }

    // MARK: What anybody may ask

    /// Asks the hub what only it can say of itself. All who ask before it is answered get one answer, and beyond a rate of ten a
    /// second the one before: so it costs the thread of the devices next to nothing, whoever asks and how often.
    ///
    /// - Parameter answer: Called on any thread.
    func view(_ endpoint: Endpoint, answer: @escaping @Sendable (HubResponse) -> Void) {
        let kept: HubResponse? = views.withLock { views in
            if let kept = views.last[endpoint], !views.budget.spend(at: .now()) { return kept }
            views.waiting[endpoint, default: []].append(answer)
            if !views.isAwaited {
                views.isAwaited = true
                loop.execute { self.show() }
            }
            return nil
        }
        guard let kept else { return }
        traffic.count(HubRequest("GET", endpoint.rawValue), kept)
        answer(kept)
    }

    private func show() {
        loop.assertInEventLoop()
        let waiting = views.withLock { views in
            defer { (views.waiting, views.isAwaited) = ([:], false) }
            return views.waiting
        }
        for (endpoint, answers) in waiting {
            let request = HubRequest("GET", endpoint.rawValue)
            var response = hub.handle(request, at: environment.time.now().wall)
            traffic.count(request, response, times: Int64(answers.count) - 1)
            if endpoint == .metrics { response.body += Array(figures.page.utf8) }
            views.withLock { $0.last[endpoint] = response }
            for answer in answers { answer(response) }
        }
    }

    /// Brings the book of tokens up to date for callers whose token is not in it. Once a second at most, for all of them.
    ///
    /// - Parameter then: Called on the worker's loop; with what to answer if the database did not say.
    func lookUpTokens(then: @escaping @Sendable (Problem?) -> Void) {
        let delay: TimeAmount? = lookUps.withLock { lookUps in
            lookUps.waiting.append(then)
            guard lookUps.waiting.count == 1 else { return nil }
            let now = NIODeadline.now()
            lookUps.next = max(now, lookUps.next)
            defer { lookUps.next = lookUps.next + HubWorker.lookUpPeriod }
            return lookUps.next - now
        }
        guard let delay else { return }
        loop.scheduleTask(in: delay) {
            let waiting = self.lookUps.withLock { lookUps in
                defer { lookUps.waiting = [] }
                return lookUps.waiting
            }
            let problem = self.hub.lookUpTokens(at: self.environment.time.now().wall)
            for then in waiting { then(problem) }
        }
    }

    /// Fresh answers to what anybody may ask (`/metrics`), which cost the thread of the database something.
    static let viewsAtOnce = 20
    static let viewsPerSecond = 10.0

    private struct Views {
        var waiting: [Endpoint: [@Sendable (HubResponse) -> Void]] = [:]
        var isAwaited = false
        var last: [Endpoint: HubResponse] = [:]
        var budget = RateBudget(size: HubWorker.viewsAtOnce, perSecond: HubWorker.viewsPerSecond, at: .now())
    }

    private struct LookUps {
        var waiting: [@Sendable (Problem?) -> Void] = []
        /// Not before.
        var next = NIODeadline.uptimeNanoseconds(0)
    }

    private static let lookUpPeriod = TimeAmount.seconds(1)

    func submit(_ job: Job) {
        if HubReadWorker.takes(job.request), let reading = reading.withLock({ $0 }) { return reading.submit(job) }
        take(job)
    }

    private func take(_ job: Job) {
        let isFirst = inbox.withLock { inbox in
            if job.request.writes { inbox.writes.append(job) } else { inbox.reads.append(job) }
            let isFirst = !inbox.isAwaited
            inbox.isAwaited = true
            return isFirst
        }
        if isFirst { loop.execute { self.turn() } }
    }

    /// Has what only reads answered beside what writes.
    func read(with reader: HubReader, on loop: any EventLoop) {
        let worker = HubReadWorker(reader, on: loop, environment) { [self] jobs, responses, elapsed in
            for (job, response) in zip(jobs, responses) {
                traffic.count(job.request, response)
                job.answer(response)
            }
            admission.withLock { $0.served(jobs.count, in: elapsed) }
            self.loop.execute { self.hub.transactionTimes.add(elapsed) }
        } passOn: { [self] jobs in
            for job in jobs { take(job) }
        }
        reading.withLock { $0 = worker }
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
            watching = files.next().scheduleRepeatedTask(initialDelay: .zero, delay: HubWorker.watchPeriod) { [storageFailure] _ in
                var failure: BlobError?
                do throws(BlobError) { try storage.check() } catch { failure = error }
                let isNews = storageFailure.exchange(failure) != failure
                // A storage that does not answer says so itself. One that refuses us is told once.
                if isNews, let failure { uploads.tell(failure) }
            }
        }
    }

    /// Ends after what is in the inbox, and leaves one whole file.
    func stop() -> EventLoopFuture<Void> {
        let reading = reading.withLock { $0 }
        let isRead = reading?.stop() ?? loop.makeSucceededVoidFuture()
        return isRead.hop(to: loop).map {
            self.reading.withLock { $0 = nil }
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
        let start = NIODeadline.now()
        let takesWrites = hold.map { $0.isDue(at: start) } ?? true
        let (writes, reads) = inbox.withLock { inbox in
            let writes = takesWrites ? Array(inbox.writes.prefix(HubWorker.writesMax)) : []
            let reads = Array(inbox.reads.prefix(HubWorker.readsMax))
            inbox.writes.removeFirst(writes.count)
            inbox.reads.removeFirst(reads.count)
            inbox.isAwaited = (takesWrites && !inbox.writes.isEmpty) || !inbox.reads.isEmpty
            if inbox.isAwaited { loop.execute { self.turn() } }
            return (writes, reads)
        }
        guard !writes.isEmpty || !reads.isEmpty else { return }
        if !keepsTokens {
            hub.settings.tokens = environment.tokens()
            hub.settings.changeTokens = environment.changeTokens
        }
        let isWritten = serve(writes: writes, at: start)
        serve(reads, hub.handle(reads.map(\.request), at: environment.time.now().wall))
        let elapsed = Duration.nanoseconds((NIODeadline.now() - start).nanoseconds)
        admission.withLock { $0.served((isWritten ? writes.count : 0) + reads.count, in: elapsed) }
        hub.transactionTimes.add(elapsed)
        markIfDue()
        if isWritten, !writes.isEmpty { tidyLater() }
    }

    /// Writes that the database does not take at the moment wait in the inbox, where they were, and the reads go on meanwhile.
    ///
    /// - Returns: Whether they are answered.
    private func serve(writes: [Job], at start: NIODeadline) -> Bool {
        if writes.isEmpty { return true }
        let requests = writes.map(\.request)
        if let responses = hub.handleIfFree(requests, at: environment.time.now().wall) {
            hold = nil
            serve(writes, responses)
            return true
        }
        let hold = WriteHold(after: hold, triedFrom: start, to: .now())
        self.hold = hold
        loop.scheduleTask(deadline: hold.next) { self.turn() }
        guard !hold.isOver else {
            serve(writes, hub.refuseHeld(requests, at: environment.time.now().wall))
            return true
        }
        inbox.withLock { $0.writes.insert(contentsOf: writes, at: 0) }
        return false
    }

    private func serve(_ jobs: [Job], _ responses: [HubResponse]) {
        for (job, response) in zip(jobs, responses) { job.answer(response) }
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
        // A failure is reported by the hub; there is a slice again tomorrow.
        guard slices > 0, let isDone = try? hub.shrink(), !isDone else { return }
        loop.execute { self.shrink(slices: slices - 1) }
    }
}

/// A value that several threads put in place of each other.
private final class Exchanged<Value: Sendable>: Sendable {
    private let value: Mutex<Value>

    init(_ value: Value) {
        self.value = Mutex(value)
    }

    func exchange(_ new: Value) -> Value {
        value.withLock { value in
            defer { value = new }
            return value
        }
    }
}
