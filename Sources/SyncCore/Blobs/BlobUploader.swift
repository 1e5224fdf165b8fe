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
        package var pace = FilePace()

        package init(server: UploadMachine.Server) {
            self.server = server
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
        /// The hub has it, and lets this device read it. It was offered and not sent.
        ///
        /// - Parameter named: ``UploadJob/named`` of the file when it was offered.
        case spared(named: Int64)
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
    var scheduler: FileScheduler<UploadMachine>
    /// Sizes of the files that ended with the last event.
    var ended: [BlobID: Int64] = [:]

    typealias File = FileScheduler<UploadMachine>.File

    package init(settings: Settings, random: SeededRandom) {
        self.settings = settings
        scheduler = FileScheduler(settings.pace, random: random)
    }

    // MARK: Events

    package mutating func handle(_ event: Event, _ terms: FileTerms, at moment: Moment) -> [Effect] {
        var effects: [Effect] = []
        ended = [:]
        if scheduler.adopt(terms, moment) { cancelAll(&effects) }
        switch event {
        case .loaded(let jobs):
            scheduler.loaded(jobs.count)
            for job in jobs { scheduler.add(job, UploadMachine(job)) }
        case .added(let job): added(job)
        case .removed(let id): remove(id, &effects)
        case .answered(let call, let result, let took): answered(call, result, took, moment, &effects)
        case .downloaded(let call, let result): downloaded(call, result, moment, &effects)
        case .lost(let call, let why): lost(call, why, &effects)
        case .changed: break
        case .settings(let settings): adopt(settings, &effects)
        case .forced: scheduler.force()
        case .timer: scheduler.disarm()
        }
        proceed(moment, &effects)
        return effects
    }

    private mutating func proceed(_ moment: Moment, _ effects: inout [Effect]) {
        let server = settings.server
        let next = scheduler.proceed(moment) { file, chunk in
            let request = file.machine.request(server, chunk: chunk)
            return (request, file.machine.bytes(of: request, server))
        }
        for start in next.starts {
            let job = start.file.job
            if start.isFirst { effects.append(.report(.began(job.id))) }
            effects.append(.send(Call(id: start.call, job: job, request: start.request, bytesPerSecond: start.bytesPerSecond)))
        }
        if let wake = next.wake { effects.append(.wake(at: wake)) }
    }

    // MARK: For status, why and plan

    /// The activity of each known file.
    package var active: [BlobID: BlobState] {
        scheduler.files.compactMapValues { file in
            file.call == nil ? nil : file.machine.isVerifying ? .verifying : .uploading
        }
    }

    /// The reason why a file waits; `nil` in ``Explanation/deferral`` when it can be next.
    package func explanation(of job: UploadJob, _ terms: FileTerms, now: Timestamp) -> Explanation {
        scheduler.explanation(of: job, terms, now: now)
    }

    /// Time of the next attempt for a file after a failure, with the reason.
    package func hold(of id: BlobID, at moment: Moment) -> (until: Timestamp, why: String?)? { scheduler.hold(of: id, at: moment) }

    /// The reason why a file has not begun for which neither ``explanation(of:_:now:)`` nor ``hold(of:at:)`` gives one.
    package func turn(of id: BlobID, _ terms: FileTerms, at moment: Moment) -> FileTurn { scheduler.turn(of: id, terms, at: moment) }

    package var isIdle: Bool { scheduler.calls.isEmpty }

    /// Bytes of the running pieces, which the budgets do not count yet.
    package var underWay: Int { scheduler.underWay }

    package func isAwaiting(_ call: UInt64) -> Bool { scheduler.calls[call] != nil }

    /// Size of a waiting file; kept for as long as its end is being reported.
    package func size(of id: BlobID) -> Int64? { scheduler.files[id]?.job.size ?? ended[id] }
}

extension UploadMachine {
    init(_ job: UploadJob) { self.init(size: job.size, digest: job.digest, progress: job.progress) }
}
