import LocalAPI
import NIOCore
import NIOPosix
import SyncCore
import SyncHTTP
package import SyncStore
import Synchronization

/// The agent's state of files in memory: the uploader, its running requests, and received files.
struct FileTransfers {
    var uploader: BlobUploader
    let folder: (any BlobFolder)?
    let thread: FileThread
    /// Running requests of uploads, by call.
    var calls: [UInt64: Task<Void, Never>] = [:]
    var wake: LoopTimer?
    /// The remains of a crash are cleaned up: from here on files are accepted.
    var isSwept = false
    /// Requests that came before that, and wait for it or for its failure.
    var whenSwept: [LocalCall] = []
    /// The terms that the uploader got last.
    var told: FileTerms?
    /// There may be waiting files, so there is something to decide.
    var isInUse = false
    /// A file is parked, and is tried again when conditions change.
    var hasParked = false
    /// Announced bytes that have not arrived yet.
    var reserved: Int64 = 0
    /// Files that are about to get their row: their bytes must not be removed as remains.
    var arriving: [BlobDigest: Int] = [:]
    /// Times of the last reported progress, so that a fast link does not fill the journal.
    var toldAt: [BlobID: Instant] = [:]
    var tidiedAt: Instant?
    var lastIntake: UInt64 = 0

    var downloader: BlobDownloader
    /// Running requests of downloads, by call.
    var downloads: [UInt64: Task<Void, Never>] = [:]
    /// Calls that were ended before their request had begun.
    var voidDownloads: Set<UInt64> = []
    /// Open parts: opening one again would read all of it for its digest.
    var parts: [BlobID: DownloadPart] = [:]
    /// Downloads whose end is being recorded. The database still calls them wanted: an answer from before is out of date.
    var endingDownloads: Set<BlobID> = []
    /// Downloads that have ended while the wanted files were being read.
    var endedDuringLoad: Set<BlobID> = []
    /// Number of reads of the wanted files that are under way.
    var downloadLoads = 0
    var downloadWake: LoopTimer?
    /// There may be wanted files.
    var isFetching = false
    /// A download is set aside, and is tried again when conditions change.
    var hasFailedDownloads = false
    /// Calls that wait for a file, by its digest.
    var waiters: [BlobDigest: [BlobWaiter]] = [:]
    var lastWaiter: UInt64 = 0
    /// Times of the last recorded use of files.
    var usedAt: [BlobID: Instant] = [:]
    /// The entities whose files come ahead, as they were last looked through.
    var aheadEntities: Set<EntityName> = []

    init(
        _ settings: BlobUploader.Settings, _ downloads: BlobDownloader.Settings, folder: (any BlobFolder)?, random: SeededRandom
    ) {
        uploader = BlobUploader(settings: settings, random: random)
        downloader = BlobDownloader(settings: downloads, random: random)
        self.folder = folder
        thread = FileThread(isNeeded: folder != nil)
    }
}

extension FileTransfers {
    /// The bytes have their row, or are not needed.
    mutating func endArrival(of digest: BlobDigest) {
        arriving[digest] = arriving[digest].flatMap { $0 > 1 ? $0 - 1 : nil }
    }
}

/// A call that waits for a file.
struct BlobWaiter {
    let number: UInt64
    let call: LocalCall
    let timer: LoopTimer
}

/// One thread for work that waits for the disk. It is made with the agent if files are accepted: NIO ends the process when no thread is
/// available, and later that could be triggered by an app.
final class FileThread: Sendable {
    private let group: MultiThreadedEventLoopGroup?
    /// A transfer may end after the agent, and would hand its last bytes to a thread that is gone.
    private let isStopped = Mutex(false)

    init(isNeeded: Bool) {
        group = isNeeded ? MultiThreadedEventLoopGroup(numberOfThreads: 1) : nil
    }

    /// - Precondition: Files are accepted.
    func run(_ work: @escaping @Sendable () -> Void) {
        isStopped.withLock { isStopped in if !isStopped { loop.execute(work) } }
    }

    /// - Precondition: Files are accepted.
    var loop: any EventLoop {
        guard let group else { preconditionFailure("no files are taken") }
        return group.next()
    }

    /// Running work ends, and no new work begins.
    func stop(on executor: LoopExecutor) {
        guard let group else { return }
        isStopped.withLock { $0 = true }
        // Nothing waits for it: a thread that is writing ends when it has written. It fails for a group that is shut down already.
        Task(executorPreference: executor) { try? await group.shutdownGracefully() }
    }
}

extension AgentConfiguration {
    func uploadSettings(spread: Duration) -> BlobUploader.Settings {
        let server: UploadMachine.Server
        if let url = blobs.uploadURL {
            server = UploadMachine.Server(
                files: url.text, blobs: nil, verify: UploadMachine.Verification(rawValue: blobs.verify.rawValue) ?? .digest)
        } else {
            server = UploadMachine.Server(files: hub.url.text + "/v1/files", blobs: hub.url.text + "/v1/blobs/", verify: .digest)
        }
        var settings = BlobUploader.Settings(server: server)
        settings.pace = filePace(spread: spread)
        return settings
    }

    func downloadSettings(spread: Duration) -> BlobDownloader.Settings {
        var settings = BlobDownloader.Settings()
        settings.pace = filePace(spread: spread)
        settings.limit = Int64(blobs.fetchMaxSizeBytes)
        return settings
    }

    private func filePace(spread: Duration) -> FilePace {
        var pace = FilePace()
        pace.concurrent = blobs.concurrent
        pace.attempts = blobs.attempts
        pace.large = blobs.largeBytes
        pace.backoff = Backoff(cap: sync.maxBackoff)
        // Files come last when a fleet finds its hub again.
        pace.spread = min(spread * 2, .seconds(60))
        return pace
    }

    /// The entities whose files come ahead.
    var aheadEntities: Set<EntityName> { Set(rules.entities.filter { $0.value.files == .ahead }.keys) }

    package var blobCapacity: BlobCapacity {
        var capacity = BlobCapacity()
        capacity.bytes = Int64(blobs.quotaBytes)
        capacity.keptFor = blobs.keptFor
        return capacity
    }
}
