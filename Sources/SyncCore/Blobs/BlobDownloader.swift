/// Decides which file is fetched, when, and how much of it in one request. Like ``BlobUploader`` it performs nothing: events and the time
/// go in, effects come out.
///
/// It works beside the cycles and under the rules of uploads: no piece is begun while a cycle runs, and policy and budget are asked before
/// every request. Bytes that came stay, so a change of the verdict costs nothing.
package struct BlobDownloader: Sendable {
    package struct Settings: Hashable, Sendable {
        package var pace = FilePace()
        /// Largest accepted file, bytes.
        package var limit: Int64 = 2 << 30

        package init() {}
    }

    package enum Event: Sendable {
        /// The wanted files in the order of ``DownloadJob/isBefore(_:_:)``, up to the requested number. It is the first event, and the
        /// answer to every `load`.
        case loaded([DownloadJob])
        /// A file is wanted, or is to be tried again.
        case added(DownloadJob)
        case removed(BlobID)
        /// The file is not this device's to have any more: its request ends, and what came of it goes.
        case cut(CutDownload)
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
        case discard(BlobID, BlobDigest)
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
    var scheduler: FileScheduler<DownloadMachine>
    /// Calls that were ended from here.
    var cancelled: Set<UInt64> = []

    typealias File = FileScheduler<DownloadMachine>.File

    package init(settings: Settings, random: SeededRandom) {
        self.settings = settings
        scheduler = FileScheduler(settings.pace, random: random)
    }

    // MARK: Events

    package mutating func handle(_ event: Event, _ terms: FileTerms, at moment: Moment) -> [Effect] {
        var effects: [Effect] = []
        if scheduler.adopt(terms, moment) { cancelAll(&effects) }
        switch event {
        case .loaded(let jobs):
            scheduler.loaded(jobs.count)
            for job in jobs { add(job) }
        case .added(let job): added(job)
        case .removed(let id):
            if let job = scheduler.files[id]?.job { effects.append(.discard(id, job.digest)) }
            remove(id, &effects)
        case .cut(let download): cut(download, &effects)
        case .answered(let call, let result, let received, let took): answered(call, result, received, took, moment, &effects)
        case .stumbled(let call, let error): conclude(call, moment, &effects) { $0.stumbled(error) }
        case .noRoom(let call, let why): conclude(call, moment, &effects) { $0.noRoom(why) }
        case .compared(let call, let digest): conclude(call, moment, &effects) { $0.compared(digest) }
        case .changed: break
        case .settings(let settings):
            self.settings = settings
            scheduler.pace = settings.pace
        case .otherHub:
            cancelAll(&effects)
            scheduler.sizer = ChunkSizer()
        case .forced: scheduler.force()
        case .timer: scheduler.disarm()
        }
        proceed(moment, &effects)
        return effects
    }

    // MARK: For status, why and the local API

    /// Bytes of the running requests, which the budgets do not count yet.
    package var underWay: Int { scheduler.underWay }

    package func isActive(_ id: BlobID) -> Bool { scheduler.files[id]?.call != nil }

    package func isAwaiting(_ call: UInt64) -> Bool { scheduler.calls[call] != nil }

    /// The reason why a file waits; `nil` in ``Explanation/deferral`` when it can be next.
    package func explanation(of job: DownloadJob, _ terms: FileTerms, now: Timestamp) -> Explanation {
        scheduler.explanation(of: job, terms, now: now)
    }

    /// Time of the next attempt for a file after a failure, with the reason.
    package func hold(of id: BlobID, at moment: Moment) -> (until: Timestamp, why: String?)? { scheduler.hold(of: id, at: moment) }

    /// The reason why a file has not begun for which neither ``explanation(of:_:now:)`` nor ``hold(of:at:)`` gives one.
    package func turn(of id: BlobID, _ terms: FileTerms, at moment: Moment) -> FileTurn { scheduler.turn(of: id, terms, at: moment) }
}
