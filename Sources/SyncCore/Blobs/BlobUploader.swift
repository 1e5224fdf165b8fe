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
        /// Bytes of running requests for files in the other direction, which the budgets do not count yet.
        package var elsewhere = 0

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

    package internal(set) var settings: Settings
    var files: [BlobID: File] = [:]
    /// Ids in the order of the uploads.
    var order: [BlobID] = []
    var calls: [UInt64: BlobID] = [:]
    var lastCall: UInt64 = 0
    var sizer: ChunkSizer
    var budget = RetryBudget()
    var random: SeededRandom
    /// Number of consecutive failures of the link or of the server as such; `heldUntil` is the resulting delay.
    var failures = 0
    var heldUntil: Instant?
    var terms: Terms?
    var spreadUntil: Instant?
    var hasContact = false
    var uplink: String?
    var isMetered = false
    /// The store has more waiting files than are loaded.
    var hasMore = false
    var armed: Instant?
    var hasLoaded = false
    /// Sizes of the files that ended with the last event.
    var ended: [BlobID: Int64] = [:]

    struct File: Sendable {
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
        adopt(terms, moment, &effects)
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

    /// Bytes of the running pieces, which the budgets do not count yet.
    package var underWay: Int { files.values.reduce(0) { $0 + $1.inFlight } }

    package func isAwaiting(_ call: UInt64) -> Bool { calls[call] != nil }
    /// Size of a waiting file; kept for as long as its end is being reported.
    package func size(of id: BlobID) -> Int64? { files[id]?.job.size ?? ended[id] }
}
