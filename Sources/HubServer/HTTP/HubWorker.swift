import Logging
import NIOCore
import SyncCore
import SyncHTTP
import Synchronization

/// Owns the hub on one thread, and passes it the waiting requests in as few transactions as possible.
///
/// Requests that arrive during a commit wait in the inbox and share the next one. With many devices one fsync serves many pushes; with one
/// device this costs nothing; no timer is needed. Pushes go first, and reads come after the answers of the writes have left.
final class HubWorker: @unchecked Sendable {
    // Unchecked: `hub` and what follows it belong to `loop`; everything else is constant or locked.
    let loop: any EventLoop
    let hub: Hub
    let files: FileThreads
    let uploads: HubUploads?
    /// The database stores the tokens; the environment has those that were read last.
    let keepsTokens: Bool
    let tokenGrace: Duration
    let environment: HubService.Environment
    let traffic: HubTraffic
    let figures = ServiceFigures()
    private var housekeeping: RepeatedTask?
    /// The next slice of the present run of housekeeping.
    var sliceOfHouse: Scheduled<Void>?
    private var tidying: Scheduled<Void>?
    private let storageFailure = Exchanged<BlobError?>(nil)
    /// The mark that was handed over last; `marking` is the next planned one.
    private var marked: HubMark?
    private var marking: Scheduled<Void>?
    private let marks = MarkWriter()
    private let watching = Mutex<RepeatedTask?>(nil)
    /// Set while another session blocks writes to the database.
    private var hold: WriteHold?
    private let keeper: AnswerKeeper

    /// Answers most requests that only read; `nil`: this worker does.
    private let reading = Mutex<HubReaders?>(nil)
    private let lastWait = Atomic<WaitingPulls.ID>(0)
    private let inbox = Mutex(Inbox())
    private let views = Mutex(Views())
    private let lookUps = Mutex(LookUps())
    private let admission: Mutex<Admission>

    private struct Inbox {
        var writes: [Job] = []
        var reads: [Job] = []
        /// A turn of the loop is scheduled that will read the inbox.
        var isAwaited = false
    }

    struct Job: Sendable {
        var request: HubRequest
        /// `nil` while a pull waits for news.
        var slot: Slot?
        /// Called on the worker's loop, after the commit.
        var answer: @Sendable (HubResponse) -> Void
        /// The client accepts a later answer to a pull without news.
        var wait: PullWait?
        /// Header fields of the answer without news that was held back.
        var marks: [String]?

        /// The job while its answer is held back. It needs a place only for a large answer.
        func holding(_ response: HubResponse) -> Job {
            var job = self
            if response.body.count <= PullWaits.bodyMax { job.slot = nil }
            return job
        }
    }

    /// Largest number of requests of one transaction: the first of them must not wait too long for the last.
    private static let writesMax = 64
    private static let readsMax = 16
    private static let housekeepingPeriod = TimeAmount.hours(24)
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
        keeper = AnswerKeeper(on: loop, hub.confirmed) {
            hub.look()
        } confirm: {
            hub.confirm($0)
        }
        admission = Mutex(Admission(random: SeededRandom(seed: environment.seed)))
        let log = environment.log
        uploads?.use { work in
            files.next().execute(work)
        } report: { error in
            // An unreachable store reports itself, once.
            guard error.code != .away else { return }
            log.error("the storage of files failed", metadata: ["doing": "\(error.doing)", "error": "\(error.detail)"])
        }
    }

    // MARK: From any thread

    /// The room of one request (``Admission``). It is released with the last reference, however the request ended: a client that leaves in
    /// the middle of its body must not cost a place forever.
    final class Slot: Sendable {
        private let worker: HubWorker
        private let request: Admission.Request

        fileprivate init(_ worker: HubWorker, _ request: Admission.Request) {
            (self.worker, self.request) = (worker, request)
        }

        deinit { worker.admission.withLock { $0.release(request) } }
    }

    enum Place {
        case slot(Slot)
        /// - Parameter isOwn: The load of this device alone is the reason.
        case none(seconds: Int, isOwn: Bool)
    }

    func place(for request: Admission.Request) -> Place {
        switch admission.withLock({ $0.admit(request) }) {
        case .admitted: return .slot(Slot(self, request))
        case .refused(let seconds):
            figures.overloaded.add(1, ordering: .relaxed)
            return .none(seconds: seconds, isOwn: false)
        case .deviceRefused(let seconds):
            figures.overloadedByDevice.add(1, ordering: .relaxed)
            return .none(seconds: seconds, isOwn: true)
        }
    }

    // MARK: Public endpoints

    /// An answer that only the hub can give about itself.
    enum View: Hashable {
        /// The answer to a request at the port of the devices, which depends on the present settings.
        case asked(Endpoint, isGet: Bool)
        /// The figures for an operator or a monitor (``Hub/figures(at:)``).
        case figures

        fileprivate var request: HubRequest {
            switch self {
            case .asked(let endpoint, let isGet): HubRequest(isGet ? "GET" : "POST", endpoint.rawValue)
            case .figures: HubRequest("GET", Endpoint.metrics.rawValue)
            }
        }
    }

    /// Asks the hub for a view. All callers that ask before the answer comes share it. Beyond a rate of ten a second they get the previous
    /// one. The database's thread therefore spends next to nothing on such requests.
    ///
    /// Each view has a rate of its own, so a kept answer is about a tenth of a second old, and settings that changed since count for the
    /// next one.
    ///
    /// - Parameter answer: Called on any thread.
    func view(_ view: View, answer: @escaping @Sendable (HubResponse) -> Void) {
        let kept: HubResponse? = views.withLock { views in
            if let kept = views.last[view], !views.spend(on: view) { return kept }
            views.waiting[view, default: []].append(answer)
            if !views.isAwaited {
                views.isAwaited = true
                loop.execute { self.show() }
            }
            return nil
        }
        guard let kept else { return }
        traffic.count(view.request, kept)
        answer(kept)
    }

    private func show() {
        loop.assertInEventLoop()
        let waiting = views.withLock { views in
            defer { (views.waiting, views.isAwaited) = ([:], false) }
            return views.waiting
        }
        for (view, answers) in waiting {
            let (request, now) = (view.request, environment.time.now().wall)
            var response = view == .figures ? hub.figures(at: now) : hub.handle(request, at: now)
            traffic.count(request, response, times: Int64(answers.count) - 1)
            if response.headers["Content-Type"] == MetricsPage.contentType { response.body += Array(figures.page.utf8) }
            views.withLock { $0.last[view] = response }
            for answer in answers { answer(response) }
        }
    }

    /// Updates the book of tokens for callers whose token is not in it; at most once a second, for all of them together.
    ///
    /// - Parameter then: Called on the worker's loop; with the problem to answer if the database failed.
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

    /// Limits of fresh answers of one view, which cost time of the database's thread.
    static let viewsAtOnce = 20
    static let viewsPerSecond = 10.0

    private struct Views {
        var waiting: [View: [@Sendable (HubResponse) -> Void]] = [:]
        var isAwaited = false
        var last: [View: HubResponse] = [:]
        private var budgets: [View: RateBudget] = [:]

        /// - Returns: `false` when there were too many fresh answers.
        mutating func spend(on view: View) -> Bool {
            let whole = RateBudget(size: HubWorker.viewsAtOnce, perSecond: HubWorker.viewsPerSecond, at: .now())
            return budgets[view, default: whole].spend(at: .now())
        }
    }

    private struct LookUps {
        var waiting: [@Sendable (Problem?) -> Void] = []
        /// Earliest time of the next look-up.
        var next = NIODeadline.uptimeNanoseconds(0)
    }

    private static let lookUpPeriod = TimeAmount.seconds(1)

    /// Returns how long a request may wait for news, seconds; `nil`: it must be answered at once.
    ///
    /// - Parameter bytes: Size of its body.
    func patience(of request: HubRequest, bytes: Int) -> Int? {
        guard Endpoint.find(request.path) == .pull, bytes <= PullWaits.bodyMax, reading.withLock({ $0 }) != nil else { return nil }
        return request.headers[WaitPreference.field].flatMap { WaitPreference.seconds(in: $0) }
    }

    /// Lets the client wait for news, if it asks for that and this hub can.
    ///
    /// - Parameter standBy: Called when the wait begins.
    func wait(of request: HubRequest, standBy: @escaping @Sendable () -> Void) -> PullWait? {
        guard let seconds = patience(of: request, bytes: request.body.count) else { return nil }
        let until = environment.time.now().instant.advanced(by: .seconds(seconds))
        return PullWait(lastWait.wrappingAdd(1, ordering: .relaxed).newValue, seconds: seconds, until: until, standBy: standBy)
    }

    /// The client of a request that may be waiting has left.
    func leave(_ wait: PullWait) {
        reading.withLock { $0 }?.waits.leave(wait)
    }

    /// Answers the waiting pulls at once, and later ones without a wait.
    func endWaits() {
        reading.withLock { $0 }?.waits.stop()
    }

    func submit(_ job: Job) {
        if HubReaders.takes(job.request), let reading = reading.withLock({ $0 }) { return reading.submit(job) }
        receive(job)
    }

    private func receive(_ job: Job) {
        let isFirst = inbox.withLock { inbox in
            if job.request.writes { inbox.writes.append(job) } else { inbox.reads.append(job) }
            let isFirst = !inbox.isAwaited
            inbox.isAwaited = true
            return isFirst
        }
        if isFirst { loop.execute { self.turn() } }
    }

    /// Answers requests that only read on other threads, beside those that write.
    func read(with readers: [(reader: HubReader, loop: any EventLoop)]) {
        let outcome = HubReadWorker.Outcome { [self] jobs, responses, elapsed in
            for (job, response) in zip(jobs, responses) {
                traffic.count(job.request, response)
                job.answer(response)
            }
            admission.withLock { $0.served(jobs.count, in: elapsed) }
            loop.execute { self.hub.transactionTimes.add(elapsed) }
        } passOn: { [self] jobs in
            for job in jobs { receive(job) }
        }
        let reading = HubReaders(readers, environment, figures, outcome)
        self.reading.withLock { $0 = reading }
    }

    /// Does an operator's work on the hub, between two turns: devices that ask meanwhile wait for its end.
    ///
    /// - Parameter answer: Called on the worker's loop.
    func operate<Answer>(
        _ work: @escaping @Sendable (Hub, Timestamp) -> Answer, answer: @escaping @Sendable (Answer) -> Void
    ) {
        loop.execute { [self] in
            let start = NIODeadline.now()
            let result = work(hub, environment.time.now().wall)
            hub.transactionTimes.add(.nanoseconds((NIODeadline.now() - start).nanoseconds))
            markIfDue()
            tidyLater()
            answer(result)
        }
    }

    /// Begins the daily work.
    func start() {
        loop.execute {
            self.housekeeping = self.loop.scheduleRepeatedTask(
                initialDelay: .minutes(1), delay: HubWorker.housekeepingPeriod
            ) { _ in self.housekeep() }
            // Removes leftovers of a crash. A database that fails is reported, and the housekeeping tries again.
            try? self.hub.tidyFiles(at: self.environment.time.now().wall)
        }
        watchStorage()
    }

    /// The availability of a file store should be known before a device asks.
    private func watchStorage() {
        guard let uploads, uploads.storage.traits.isRemote else { return }
        let storage = uploads.storage
        watching.withLock { watching in
            watching = files.next().scheduleRepeatedTask(initialDelay: .zero, delay: HubWorker.watchPeriod) { [storageFailure] _ in
                var failure: BlobError?
                do throws(BlobError) { try storage.check() } catch { failure = error }
                let isNews = storageFailure.exchange(failure) != failure
                // A storage that does not answer reports itself. One that refuses the hub is reported once.
                if isNews, let failure { uploads.reportFailure(failure) }
            }
        }
    }

    /// Ends after the requests in the inbox are answered, and leaves one complete file.
    func stop() -> EventLoopFuture<Void> {
        let reading = reading.withLock { $0 }
        let isRead = reading?.stop() ?? loop.makeSucceededVoidFuture()
        return isRead.hop(to: loop).map {
            self.reading.withLock { $0 = nil }
            self.turn()
            self.housekeeping?.cancel()
            self.sliceOfHouse?.cancel()
            self.tidying?.cancel()
            self.marking?.cancel()
            self.watching.withLock { $0?.cancel() }
            self.keeper.stop()
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
        read(reads)
        let elapsed = Duration.nanoseconds((NIODeadline.now() - start).nanoseconds)
        admission.withLock { $0.served((isWritten ? writes.count : 0) + reads.count, in: elapsed) }
        hub.transactionTimes.add(elapsed)
        markIfDue()
        if isWritten, !writes.isEmpty { tidyLater() }
    }

    private func read(_ jobs: [Job]) {
        // An operator's work may have read an unconfirmed commit since, which no device was told.
        _ = hub.takeUnconfirmed()
        let answered = Array(zip(jobs, hub.handle(jobs.map(\.request), at: environment.time.now().wall)))
        guard let read = hub.takeUnconfirmed() else { return serve(answered) }
        // The answer about a file proves nothing of the newest commit.
        serve(answered.filter { !HubReaders.takes($0.0.request) })
        let held = answered.filter { HubReaders.takes($0.0.request) }.map { ($0.0.holding($0.1), $0.1) }
        if held.isEmpty { return }
        let batch = AnswerKeeper.Batch {
            self.serve(held)
        } giveUp: { [environment] in
            let error = DatabaseError(.lost, doing: "look at the database once more", detail: "the connection is lost")
            self.serve(held.map { ($0.0, Hub.finish(HubResponse(Hub.unavailable(error)), at: environment.time.now().wall)) })
        }
        keeper.hold(batch, of: read)
    }

    /// Answers the writes. Those that the database does not accept at the moment stay in the inbox, and the reads go on meanwhile.
    ///
    /// - Returns: `true` when they are answered.
    private func serve(writes: [Job], at start: NIODeadline) -> Bool {
        if writes.isEmpty { return true }
        let requests = writes.map(\.request)
        if let responses = hub.handleIfFree(requests, at: environment.time.now().wall) {
            hold = nil
            serve(Array(zip(writes, responses)))
            guard responses.count < writes.count else { return true }
            putBack(Array(writes[responses.count...]))
            return true
        }
        let hold = WriteHold(after: hold, triedFrom: start, to: .now())
        self.hold = hold
        loop.scheduleTask(deadline: hold.next) { self.turn() }
        guard !hold.isOver else {
            serve(Array(zip(writes, hub.refuseHeld(requests, at: environment.time.now().wall))))
            return true
        }
        inbox.withLock { $0.writes.insert(contentsOf: writes, at: 0) }
        return false
    }

    /// Puts writes that were not reached into the next turn.
    private func putBack(_ writes: [Job]) {
        let isFirst = inbox.withLock { inbox in
            inbox.writes.insert(contentsOf: writes, at: 0)
            let isFirst = !inbox.isAwaited
            inbox.isAwaited = true
            return isFirst
        }
        if isFirst { loop.execute { self.turn() } }
    }

    private func serve(_ answered: [(Job, HubResponse)]) {
        for (job, response) in answered { job.answer(response) }
    }

    // MARK: The mark

    /// Has the mark written when the database is ``HubMark/commitsMax`` commits ahead of it, or at the end of a second with a commit. This
    /// happens on another thread: a mark is written and synced, and requests should not wait for that.
    private func markIfDue() {
        let known = hub.known
        guard known.epoch != marked?.epoch || known.head != marked?.head else { return }
        if known.epoch != marked?.epoch || known.head >= (marked?.head ?? 0) + HubMark.commitsMax { return writeMark(hub.mark) }
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
        // Written on this thread: the loops of the files may be about to end.
        marks.write(environment.remember)
    }
}

/// A value that several threads replace.
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
