/// Decides which file is uploaded, when, and how much of it in one request. Like ``SyncEngine`` it performs nothing: events and the time go
/// in, effects come out.
///
/// It works beside the cycles: no piece is begun while one runs, so mutations never wait for more than the running piece. Policy and budget
/// are asked before every request, so that a change of the verdict stops a file within one piece; sent bytes stay, and the upload continues
/// from there.
///
/// After an error or a restart its memory is not trusted: the server is asked for the state of the upload (``UploadMachine``). So its
/// progress is worth an fsync, but is never needed.
package struct BlobUploader: Sendable {
    package struct Settings: Hashable, Sendable {
        package var server: UploadMachine.Server
        package var concurrent = 3
        /// Number of attempts without progress before a file is parked.
        package var attempts = 5
        /// Size above which a file counts as large for the policy, bytes.
        package var large = 1 << 20
        package var backoff = Backoff()
        /// Time over which a fleet that finds its hub again spreads the start of its uploads.
        package var spread: Duration = .seconds(60)

        package init(server: UploadMachine.Server) {
            self.server = server
        }
    }

    /// The present state of the sync.
    package struct Terms: Hashable, Sendable {
        package var situation: Situation
        /// A cycle is running.
        package var isBusy: Bool
        /// Size of a batch on this link, bytes, where it was found to be slow (``TransferSizer``).
        package var slowBatch: Int?

        package init(situation: Situation, isBusy: Bool, slowBatch: Int? = nil) {
            self.situation = situation
            self.isBusy = isBusy
            self.slowBatch = slowBatch
        }
    }

    package enum Event: Sendable {
        /// The waiting files in the order of ``UploadJob/isBefore(_:_:)``, up to the requested number. It is the first event, and the
        /// answer to every `load`.
        case loaded([UploadJob])
        /// A file was added, or is to be tried again.
        case added(UploadJob)
        case removed(BlobID)
        case answered(UInt64, Result<HTTPResponse, TransportError>, took: Duration)
        /// The whole file was downloaded and hashed.
        case downloaded(UInt64, Result<BlobDigest?, TransportError>)
        /// The file cannot be read, or has changed.
        case lost(UInt64, why: String)
        /// The situation has changed, or a cycle began or ended.
        case changed
        case settings(Settings)
        /// An operator ordered to ignore cost, battery and windows for the waiting files.
        case forced
        case timer
    }

    package enum Effect: Hashable, Sendable {
        case send(Call)
        /// The answer is not needed any more, and none comes.
        case cancel(UInt64)
        case save(BlobID, UploadProgress)
        case end(BlobID, Ending)
        /// Load this number of waiting files.
        case load(Int)
        case wake(at: Instant)
        case report(Report)
    }

    package enum Ending: Hashable, Sendable {
        case uploaded(isVerified: Bool, url: String?)
        /// Parked, with its reason.
        case failed(code: String, why: String, UploadProgress)
        case missing(why: String)
    }

    package enum Report: Hashable, Sendable {
        case began(BlobID)
        case progressed(BlobID, offset: Int64, size: Int64)
        case waits(BlobID, why: String)
        case ended(BlobID, Ending)
    }

    package struct Call: Hashable, Sendable {
        package var id: UInt64
        package var job: UploadJob
        package var request: UploadMachine.Request
        /// Rate limit, bytes per second, shared with all other traffic of the link.
        package var bytesPerSecond: Int?
    }

    // MARK: State

    package private(set) var settings: Settings
    private var files: [BlobID: File] = [:]
    /// Ids in the order of the uploads.
    private var order: [BlobID] = []
    private var calls: [UInt64: BlobID] = [:]
    private var lastCall: UInt64 = 0
    private var sizer: ChunkSizer
    private var budget = RetryBudget()
    private var random: SeededRandom
    /// Number of consecutive failures of the link or of the server as such; `heldUntil` is the resulting delay.
    private var failures = 0
    private var heldUntil: Instant?
    private var terms: Terms?
    private var spreadUntil: Instant?
    private var hasContact = false
    private var uplink: String?
    private var isMetered = false
    /// The store has more waiting files than are loaded.
    private var hasMore = false
    private var armed: Instant?
    private var hasLoaded = false
    /// Sizes of the files that ended with the last event.
    private var ended: [BlobID: Int64] = [:]

    private struct File: Sendable {
        var job: UploadJob
        var machine: UploadMachine
        var call: UInt64?
        var request: UploadMachine.Request?
        var isForced = false
        var isRetry = false
        var notBefore: Instant?
        var why: String?
        var hasBegun = false
        /// Size of the running piece, bytes.
        var inFlight = 0
        /// Number of delays since the server had more bytes than ever before.
        var waits = 0
        /// Largest number of bytes that the server had.
        var best: Int64 = 0
        /// Number of requests in a row that could be followed at once and brought the server no new byte.
        var idleSteps = 0
    }

    /// Limit of ``File/idleSteps``. The longest sequence without a new byte is: destroy, look up, create. A longer one is a loop.
    package static let idleStepsMax = 8

    /// Largest number of files in memory: a device may have taken ten thousand photos.
    package static let window = 128
    /// Cost of a request besides its piece, bytes.
    package static let overhead = 600

    package init(settings: Settings, random: SeededRandom) {
        self.settings = settings
        self.random = random
        sizer = ChunkSizer()
    }

    // MARK: Events

    package mutating func handle(_ event: Event, _ terms: Terms, at moment: Moment) -> [Effect] {
        var effects: [Effect] = []
        ended = [:]
        look(at: terms, moment, &effects)
        switch event {
        case .loaded(let jobs):
            hasLoaded = true
            hasMore = jobs.count >= Self.window
            for job in jobs { add(job) }
        case .added(let job):
            if !hasLoaded { break }
            if let known = files[job.id] {
                guard known.call == nil else { break }
                files[job.id] = nil
                order.removeAll { $0 == job.id }
            }
            if order.count >= Self.window { hasMore = true } else { add(job) }
        case .removed(let id): remove(id, &effects)
        case .answered(let call, let result, let took): answered(call, result, took, moment, &effects)
        case .downloaded(let call, let result): downloaded(call, result, moment, &effects)
        case .lost(let call, let why): lost(call, why, moment, &effects)
        case .changed: break
        case .settings(let settings):
            let isElsewhere = settings.server != self.settings.server
            self.settings = settings
            if isElsewhere { forgetServer(&effects) }
        case .forced:
            for id in order {
                files[id]?.isForced = true
                files[id]?.notBefore = nil
            }
            spreadUntil = nil
            heldUntil = nil
            failures = 0
        case .timer: armed = nil
        }
        proceed(moment, &effects)
        return effects
    }

    // MARK: For status, why and plan

    /// The activity of each known file.
    package var active: [BlobID: BlobState] {
        files.compactMapValues { file in
            file.call == nil ? nil : file.machine.isVerifying ? .verifying : .uploading
        }
    }

    /// The reason why a file waits; `nil` when it can be next.
    package func explanation(of job: UploadJob, _ terms: Terms, now: Timestamp) -> Explanation {
        var situation = terms.situation
        situation.isForced = files[job.id]?.isForced ?? false
        return Policy.explain(
            job.traffic(large: settings.large), in: situation, now: now,
            bytes: min(sizer.bytes, Int(clamping: job.remaining)) + Self.overhead, since: job.createdAt)
    }

    /// Time of the next attempt for a file after a failure, with the reason.
    package func hold(of id: BlobID, at moment: Moment) -> (until: Timestamp, why: String?)? {
        let until = [files[id]?.notBefore, heldUntil].compactMap { $0 }.max()
        guard let until, until > moment.instant else { return nil }
        return (moment.wall.advanced(by: moment.instant.duration(to: until)), files[id]?.why)
    }

    package var isIdle: Bool { calls.isEmpty }

    package func isAwaiting(_ call: UInt64) -> Bool { calls[call] != nil }
    /// Size of a waiting file; kept for as long as its end is being reported.
    package func size(of id: BlobID) -> Int64? { files[id]?.job.size ?? ended[id] }

    // MARK: The surroundings

    private mutating func look(at terms: Terms, _ moment: Moment, _ effects: inout [Effect]) {
        self.terms = terms
        let situation = terms.situation
        let name = situation.uplink?.name
        if name != uplink || (situation.uplink?.isMetered ?? false) != isMetered {
            // Measurements of another link have no meaning for this one, and its connections lead nowhere.
            if uplink != nil { cancelAll(&effects) }
            uplink = name
            isMetered = situation.uplink?.isMetered ?? false
            sizer = ChunkSizer(ceiling: sizer.ceiling)
            failures = 0
            heldUntil = nil
            for id in order {
                files[id]?.notBefore = nil
                files[id]?.isForced = false
            }
        }
        if let slowBatch = terms.slowBatch { sizer.limitFirst(to: slowBatch) }
        let isOnline = situation.reachability == .online
        if isOnline, !hasContact {
            spreadUntil = moment.instant.advanced(by: random.duration(from: .zero, to: settings.spread))
            heldUntil = nil
            failures = 0
            for id in order { files[id]?.notBefore = nil }
        }
        if situation.reachability == .offline || situation.reachability == .captive { cancelAll(&effects) }
        hasContact = isOnline
    }

    private mutating func cancelAll(_ effects: inout [Effect]) {
        for (call, id) in calls.sorted(by: { $0.key < $1.key }) { drop(call, of: id, &effects) }
    }

    /// Gives up a call: the server will tell how much of it arrived.
    private mutating func drop(_ call: UInt64, of id: BlobID, _ effects: inout [Effect]) {
        effects.append(.cancel(call))
        calls[call] = nil
        guard var file = files[id] else { return }
        if let request = file.request {
            _ = file.machine.failed(request, TransportError(.cancelled, doing: "upload \(id)", detail: "the link is gone"))
        }
        file.call = nil
        file.request = nil
        file.inFlight = 0
        files[id] = file
    }

    private mutating func forgetServer(_ effects: inout [Effect]) {
        cancelAll(&effects)
        for id in order {
            guard let file = files[id] else { continue }
            files[id]?.machine = UploadMachine(size: file.job.size, digest: file.job.digest, progress: UploadProgress())
        }
        sizer = ChunkSizer()
    }

    // MARK: Files

    private mutating func add(_ job: UploadJob) {
        guard files[job.id] == nil else { return }
        files[job.id] = File(
            job: job, machine: UploadMachine(size: job.size, digest: job.digest, progress: job.progress))
        order.append(job.id)
        sort()
    }

    private mutating func sort() {
        order.sort { left, right in
            guard let first = files[left]?.job, let second = files[right]?.job else { return left < right }
            return UploadJob.isBefore(first, second)
        }
    }

    private mutating func remove(_ id: BlobID, _ effects: inout [Effect]) {
        if let call = files[id]?.call { drop(call, of: id, &effects) }
        files[id] = nil
        order.removeAll { $0 == id }
        guard order.count < Self.window / 2, hasMore else { return }
        hasMore = false
        effects.append(.load(Self.window))
    }

    // MARK: Answers

    private mutating func answered(
        _ call: UInt64, _ result: Result<HTTPResponse, TransportError>, _ took: Duration, _ moment: Moment,
        _ effects: inout [Effect]
    ) {
        guard let id = calls[call], var file = files[id], let request = file.request else { return }
        let before = file.machine.progress
        var outcome: UploadMachine.Outcome
        switch result {
        case .success(let response):
            outcome = file.machine.answered(request, response, settings.server, at: moment.wall)
            if case .create = request, let place = file.machine.progress.url, place != before.url,
                files.contains(where: { $0.key != id && $0.value.machine.progress.url == place })
            {
                outcome = file.machine.refusePlace()
            }
            if case .send(_, let count) = request, case .next = outcome, !file.machine.wantsSmallerPiece { sizer.sent(count, in: took) }
            if let count = file.machine.tooLarge {
                sizer.wasTooLarge(count)
            } else if file.machine.wantsSmallerPiece {
                sizer.broke()
            }
        case .failure(let error):
            outcome = file.machine.failed(request, error)
            if case .send = request { sizer.broke() }
        }
        finish(call, &file)
        conclude(id, &file, outcome, from: before, moment, &effects)
    }

    private mutating func downloaded(
        _ call: UInt64, _ result: Result<BlobDigest?, TransportError>, _ moment: Moment, _ effects: inout [Effect]
    ) {
        guard let id = calls[call], var file = files[id] else { return }
        let before = file.machine.progress
        let outcome: UploadMachine.Outcome
        switch result {
        case .success(let digest): outcome = file.machine.downloaded(digest)
        case .failure(let error): outcome = .wait(counts: true, asked: nil, why: error.description)
        }
        finish(call, &file)
        conclude(id, &file, outcome, from: before, moment, &effects)
    }

    private mutating func lost(_ call: UInt64, _ why: String, _ moment: Moment, _ effects: inout [Effect]) {
        guard let id = calls[call], var file = files[id] else { return }
        finish(call, &file)
        end(id, .missing(why: why), &effects)
    }

    private mutating func finish(_ call: UInt64, _ file: inout File) {
        calls[call] = nil
        file.call = nil
        file.request = nil
        file.inFlight = 0
    }

    private mutating func conclude(
        _ id: BlobID, _ file: inout File, _ outcome: UploadMachine.Outcome, from before: UploadProgress, _ moment: Moment,
        _ effects: inout [Effect]
    ) {
        file.why = nil
        var outcome = outcome
        if file.machine.best > file.best { (file.best, failures, file.waits) = (file.machine.best, 0, 0) }
        if file.machine.progress.offset > before.offset {
            file.idleSteps = 0
        } else if case .next = outcome {
            file.idleSteps += 1
            if file.idleSteps > Self.idleStepsMax {
                outcome = .wait(counts: true, asked: nil, why: "the server's answers lead in a circle")
            }
        }
        switch outcome {
        case .next: file.isRetry = false
        case .wait(let counts, let asked, let why):
            file.why = why
            file.isRetry = true
            file.waits += 1
            file.idleSteps = 0
            if counts { file.machine.count() }
            guard file.machine.progress.attempts < settings.attempts else {
                let detail = "no progress in \(settings.attempts) attempts; the last: \(why)"
                files[id] = file
                return end(id, .failed(code: "no-progress", why: detail, file.machine.progress), &effects)
            }
            // A fault of one file stays its own as long as the server answers about it; silence affects all files.
            failures += 1
            let inARow = max(failures, file.machine.progress.attempts, file.waits)
            var delay = settings.backoff.delay(afterFailures: inARow, using: &random)
            if let asked { delay = Backoff.honouring(asked, over: delay, using: &random) }
            file.notBefore = moment.instant.advanced(by: delay)
            if !counts || asked != nil { heldUntil = max(heldUntil ?? moment.instant, moment.instant.advanced(by: delay)) }
            effects.append(.report(.waits(id, why: why)))
        case .refused(let why):
            file.why = why
            failures += 1
            // The sync itself finds out what is wrong with the credentials.
            let delay = max(.seconds(60), settings.backoff.delay(afterFailures: failures, using: &random))
            heldUntil = moment.instant.advanced(by: delay)
            effects.append(.report(.waits(id, why: why)))
        case .done(let isVerified):
            failures = 0
            files[id] = file
            return end(id, .uploaded(isVerified: isVerified, url: before.url ?? file.machine.progress.url), &effects)
        case .failed(let code, let why):
            files[id] = file
            return end(id, .failed(code: code, why: why, file.machine.progress), &effects)
        }
        let progress = file.machine.progress
        file.job.progress = progress
        files[id] = file
        if progress != before { effects.append(.save(id, progress)) }
        if progress.offset != before.offset {
            effects.append(.report(.progressed(id, offset: progress.offset, size: file.job.size)))
        }
    }

    private mutating func end(_ id: BlobID, _ ending: Ending, _ effects: inout [Effect]) {
        ended[id] = files[id]?.job.size
        effects.append(.end(id, ending))
        effects.append(.report(.ended(id, ending)))
        remove(id, &effects)
    }

    // MARK: The next upload

    private mutating func proceed(_ moment: Moment, _ effects: inout [Effect]) {
        guard let terms, hasLoaded else { return }
        var wake: Instant?
        func note(_ instant: Instant) { wake = min(wake ?? instant, instant) }
        let situation = terms.situation
        let limit = isMetered || sizer.isSlow ? 1 : settings.concurrent
        if situation.reachability == .online, !terms.isBusy {
            let held = [heldUntil, spreadUntil].compactMap { $0 }.filter { $0 > moment.instant }.max()
            if let held {
                if order.contains(where: { files[$0]?.call == nil }) { note(held) }
            } else {
                for id in order {
                    guard calls.count < limit else { break }
                    guard var file = files[id], file.call == nil else { continue }
                    if let notBefore = file.notBefore, notBefore > moment.instant {
                        note(notBefore)
                        continue
                    }
                    if let later = begin(id, &file, situation, moment, &effects) { note(later) }
                }
            }
        }
        // A wake-up that is overdue by this clock may be late: timers stand still while the machine sleeps.
        guard let wake, armed.map({ wake < $0 || $0 <= moment.instant }) ?? true else { return }
        armed = wake
        effects.append(.wake(at: wake))
    }

    /// - Returns: Time of the next check, if the file may not go now and that time is known.
    private mutating func begin(
        _ id: BlobID, _ file: inout File, _ situation: Situation, _ moment: Moment, _ effects: inout [Effect]
    ) -> Instant? {
        var situation = situation
        situation.isForced = file.isForced
        let traffic = file.job.traffic(large: settings.large)
        // Bytes of running pieces are not counted in the budget yet.
        let underWay = files.values.reduce(0) { $0 + $1.inFlight }
        var chunk = sizer.bytes
        if let most = Policy.largestRequest(traffic, in: situation) {
            // The rest of a budget is used, down to a piece that is still worth its request.
            let left = most - underWay - Self.overhead
            if left < chunk { chunk = max(ChunkSizer.smallest, left) }
        }
        let request = file.machine.request(settings.server, chunk: chunk)
        let bytes: Int =
            switch request {
            case .send(_, let count): count
            case .create(let count): count ?? 0
            case .verify: settings.server.verify == .download ? Int(clamping: file.job.size) : 0
            case .lookUp, .ask, .destroy: 0
            }
        let verdict = Policy.decide(
            traffic, in: situation, now: moment.wall, bytes: bytes + Self.overhead + underWay, since: file.job.createdAt)
        if case .defer(let why) = verdict {
            return why.until.map { moment.instant.advanced(by: moment.wall.duration(to: $0)) }
        }
        if file.isRetry, let wait = budget.take(now: moment.instant) { return moment.instant.advanced(by: wait) }
        budget.sent()
        lastCall += 1
        file.call = lastCall
        file.request = request
        file.inFlight = bytes + Self.overhead
        calls[lastCall] = id
        if !file.hasBegun {
            file.hasBegun = true
            effects.append(.report(.began(id)))
        }
        files[id] = file
        effects.append(.send(Call(id: lastCall, job: file.job, request: request, bytesPerSecond: situation.uplink?.bytesPerSecond)))
        return nil
    }
}
