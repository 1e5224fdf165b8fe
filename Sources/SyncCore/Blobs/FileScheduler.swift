/// The present state of the sync, for the files of one direction.
package struct FileTerms: Hashable, Sendable {
    package var situation: Situation
    /// A cycle is running.
    package var isBusy: Bool
    /// Size of a batch on this link, bytes, where it was found to be slow (``TransferSizer``).
    package var slowBatch: Int?
    /// Bytes of running requests for files in the other direction, which the budgets do not count yet.
    package var elsewhere = 0

    package init(situation: Situation, isBusy: Bool, slowBatch: Int? = nil) {
        self.situation = situation
        self.isBusy = isBusy
        self.slowBatch = slowBatch
    }
}

/// The settings of a ``FileScheduler``.
package struct FilePace: Hashable, Sendable {
    /// Number of files that are moved at the same time.
    package var concurrent = 3
    /// Number of attempts without progress before a file is parked.
    package var attempts = 5
    /// Size above which a file counts as large for the policy, bytes.
    package var large = 1 << 20
    package var backoff = Backoff()
    /// Time over which a fleet that finds its hub again spreads the start of its transfers.
    package var spread: Duration = .seconds(60)

    /// Largest number of files in memory: a device may have taken ten thousand photos.
    package static let window = 128
    /// Cost of a request besides its piece, bytes.
    package static let overhead = 600

    package init() {}
}

/// Decides which file of one direction is moved next, when, and how much of it in one request. ``BlobUploader`` and ``BlobDownloader`` own
/// one each, and decide what an answer means.
///
/// - No piece is begun while a cycle runs, nor while the hub is not there. Policy and budget are asked before every request.
/// - Files follow the order of their jobs. One file at a time is moved on a metered link and on a slow one.
/// - Measurements and delays belong to a link. The first contact after a gap spreads the start over ``FilePace/spread``.
/// - A fault of one file stays its own as long as the server answers about it; silence and refusals hold back all files. Repeats have a
///   budget of their own (``RetryBudget``).
/// - At most ``FilePace/window`` files are in memory. When half of them have left, more are loaded.
struct FileScheduler<Machine: FileMachine>: Sendable {
    /// One file, with its turn.
    struct File: Sendable {
        var job: Machine.Job
        var machine: Machine
        var call: UInt64?
        var request: Machine.Request?
        var isForced = false
        var isRetry = false
        var notBefore: Instant?
        var why: String?
        var hasBegun = false
        /// Size of the running piece, bytes.
        var inFlight = 0
        /// Number of delays since a byte arrived that had never arrived before.
        var waits = 0
        var best: Int64

        init(_ job: Machine.Job, _ machine: Machine) {
            self.job = job
            self.machine = machine
            best = machine.best
        }
    }

    /// A request that begins.
    struct Start {
        var call: UInt64
        var file: File
        var request: Machine.Request
        /// Size of the piece, bytes.
        var bytes: Int
        /// The first request of this file in this run.
        var isFirst: Bool
        /// Rate limit, bytes per second, shared with all other traffic of the link.
        var bytesPerSecond: Int?
    }

    var pace: FilePace
    var files: [BlobID: File] = [:]
    /// Ids in the order of the transfers.
    private(set) var order: [BlobID] = []
    private(set) var calls: [UInt64: BlobID] = [:]
    private var lastCall: UInt64 = 0
    var sizer = ChunkSizer()
    var budget = RetryBudget()
    private var random: SeededRandom
    /// Number of consecutive failures of the link or of the server as such; `heldUntil` is the resulting delay.
    private var failures = 0
    var heldUntil: Instant?
    var spreadUntil: Instant?
    var terms: FileTerms?
    private var hasContact = false
    private var uplink: String?
    var isMetered = false
    private(set) var hasLoaded = false
    /// The store has more files than are loaded.
    private var hasMore = false
    var armed: Instant?

    init(_ pace: FilePace, random: SeededRandom) {
        self.pace = pace
        self.random = random
    }

    // MARK: Link and server

    /// - Returns: `true` when the running requests have become useless and must be given up.
    mutating func adopt(_ terms: FileTerms, _ moment: Moment) -> Bool {
        self.terms = terms
        let situation = terms.situation
        let (name, isMetered) = (situation.uplink?.name, situation.uplink?.isMetered ?? false)
        var isCut = false
        if name != uplink || isMetered != self.isMetered {
            // Measurements of another link have no meaning for this one, and its connections lead nowhere.
            isCut = uplink != nil
            (uplink, self.isMetered) = (name, isMetered)
            sizer = ChunkSizer(ceiling: sizer.ceiling)
            (failures, heldUntil) = (0, nil)
            for id in order {
                files[id]?.notBefore = nil
                files[id]?.isForced = false
            }
        }
        if let slowBatch = terms.slowBatch { sizer.limitFirst(to: slowBatch) }
        let isOnline = situation.reachability == .online
        if isOnline, !hasContact {
            spreadUntil = moment.instant.advanced(by: random.duration(from: .zero, to: pace.spread))
            (failures, heldUntil) = (0, nil)
            for id in order { files[id]?.notBefore = nil }
        }
        hasContact = isOnline
        return isCut || situation.reachability == .offline || situation.reachability == .captive
    }

    /// Lets the waiting files go whatever they cost, and at once.
    mutating func force() {
        for id in order {
            files[id]?.isForced = true
            files[id]?.notBefore = nil
        }
        (spreadUntil, heldUntil, failures) = (nil, nil, 0)
    }

    /// The answer to `load`, before its files are added.
    mutating func loaded(_ count: Int) {
        hasLoaded = true
        hasMore = count >= FilePace.window
    }

    /// The timer has fired.
    mutating func disarm() { armed = nil }

    // MARK: Files

    /// - Returns: `false` when enough files are in memory, so that the file waits in the store.
    mutating func findRoom() -> Bool {
        if order.count >= FilePace.window { hasMore = true }
        return order.count < FilePace.window
    }

    mutating func add(_ job: Machine.Job, _ machine: Machine) {
        guard files[job.id] == nil else { return }
        files[job.id] = File(job, machine)
        order.append(job.id)
        sort()
    }

    /// Begins again with a file, from what the store knows now.
    mutating func replace(_ job: Machine.Job, _ machine: Machine) {
        files[job.id] = File(job, machine)
        sort()
    }

    /// Puts the files in order again after a job has changed.
    mutating func sort() {
        order.sort { left, right in
            guard let first = files[left]?.job, let second = files[right]?.job else { return left < right }
            return Machine.Job.isBefore(first, second)
        }
    }

    /// - Returns: Number of files to load now; `nil` when there are enough, or no more.
    mutating func remove(_ id: BlobID) -> Int? {
        if let call = files[id]?.call { calls[call] = nil }
        files[id] = nil
        order.removeAll { $0 == id }
        guard order.count < FilePace.window / 2, hasMore else { return nil }
        hasMore = false
        return FilePace.window
    }

    // MARK: Calls

    mutating func start(_ file: File, _ request: Machine.Request, cost: Int) -> UInt64 {
        lastCall += 1
        var file = file
        file.call = lastCall
        file.request = request
        file.inFlight = cost
        calls[lastCall] = file.job.id
        files[file.job.id] = file
        return lastCall
    }

    mutating func finish(_ call: UInt64, _ file: inout File) {
        calls[call] = nil
        file.call = nil
        file.request = nil
        file.inFlight = 0
    }

    /// Bytes of the running pieces, which the budgets do not count yet.
    var underWay: Int { files.values.reduce(0) { $0 + $1.inFlight } }

    // MARK: Delays

    /// An answer came: what it said before is past, and a byte that had never arrived before ends all delays.
    mutating func recordAnswer(_ file: inout File) {
        file.why = nil
        if file.machine.best > file.best { (file.best, failures, file.waits) = (file.machine.best, 0, 0) }
    }

    /// A file is whole: the server works.
    mutating func recordSuccess() { failures = 0 }

    /// Delays a file after an attempt that did not succeed.
    ///
    /// - Parameters:
    ///   - counts: It was the server's answer about this file, or a transfer that broke. Anything else concerns all files.
    ///   - asked: Delay that the server asked for. It concerns all files.
    /// - Returns: The reason to park the file, if it had all of its attempts.
    mutating func hold(_ file: inout File, counts: Bool, asked: Duration?, why: String, _ moment: Moment) -> String? {
        file.why = why
        file.isRetry = true
        file.waits += 1
        if counts { file.machine.count() }
        failures += 1
        var delay = pace.backoff.delay(afterFailures: max(failures, file.machine.attempts, file.waits), using: &random)
        if let asked { delay = Backoff.honouring(asked, over: delay, using: &random) }
        let until = moment.instant.advanced(by: delay)
        file.notBefore = until
        if !counts || asked != nil { heldUntil = max(heldUntil ?? until, until) }
        return file.machine.attempts < pace.attempts ? nil : "no progress in \(pace.attempts) attempts; the last: \(why)"
    }

    /// Delays all files because the server refuses this device. The sync itself finds out what is wrong with the credentials.
    mutating func holdAll(_ file: inout File, why: String, _ moment: Moment) {
        file.why = why
        failures += 1
        let delay = max(.seconds(60), pace.backoff.delay(afterFailures: failures, using: &random))
        heldUntil = moment.instant.advanced(by: delay)
    }

    /// Time of the next attempt for a file after a failure, with the reason.
    func hold(of id: BlobID, at moment: Moment) -> (until: Timestamp, why: String?)? {
        let until = [files[id]?.notBefore, heldUntil].compactMap { $0 }.max()
        guard let until, until > moment.instant else { return nil }
        return (moment.wall.advanced(by: moment.instant.duration(to: until)), files[id]?.why)
    }

    /// The reason why a file waits; `nil` in ``Explanation/deferral`` when it can be next.
    func explanation(of job: Machine.Job, _ terms: FileTerms, now: Timestamp) -> Explanation {
        var situation = terms.situation
        situation.isForced = files[job.id]?.isForced ?? false
        return Policy.explain(
            job.traffic(large: pace.large), in: situation, now: now,
            bytes: min(sizer.bytes, Int(clamping: job.remaining)) + FilePace.overhead, since: job.waitingSince)
    }
}
