import LocalAPI
import NIOCore
import NIOPosix
import SyncCore
import SyncHTTP
import SyncStore

/// What the agent keeps in memory of files: the uploader, what it waits for, and what is coming in.
struct BlobDesk {
    var uploader: BlobUploader
    let folder: (any BlobFolder)?
    let thread: FileThread
    /// Uploads under way, by call.
    var calls: [UInt64: Task<Void, Never>] = [:]
    var wake: LoopTimer?
    /// What a crash left behind is gone: from here on files are taken.
    var isSwept = false
    /// What came before that, and waits for it or for its failure.
    var whenSwept: [@Sendable () -> Void] = []
    /// What the uploader was told last.
    var told: BlobUploader.Terms?
    /// Nothing that waits is unknown: there is something to decide about.
    var isInUse = false
    /// Something is parked, and tried again when the world changes.
    var hasParked = false
    /// Bytes that were announced and have not all come yet.
    var reserved: Int64 = 0
    /// Files that are about to get their row: their bytes must not be removed as somebody else's rest.
    var arriving: [BlobDigest: Int] = [:]
    /// When progress was last told, so that a fast link does not fill the journal.
    var toldAt: [BlobID: Instant] = [:]
    var tidiedAt: Instant?
    var lastIntake: UInt64 = 0

    init(_ settings: BlobUploader.Settings, folder: (any BlobFolder)?, random: SeededRandom) {
        uploader = BlobUploader(settings: settings, random: random)
        self.folder = folder
        thread = FileThread(isNeeded: folder != nil)
    }
}

/// One thread for what waits for the disk. It is made with the agent, where files are taken: NIO ends the process when there is
/// none to be had, and later that would be at the wish of an app.
final class FileThread: Sendable {
    private let group: MultiThreadedEventLoopGroup?

    init(isNeeded: Bool) {
        group = isNeeded ? MultiThreadedEventLoopGroup(numberOfThreads: 1) : nil
    }

    /// - Precondition: Files are taken.
    func run(_ work: @escaping @Sendable () -> Void) {
        loop.execute(work)
    }

    /// - Precondition: Files are taken.
    var loop: any EventLoop {
        guard let group else { preconditionFailure("no files are taken") }
        return group.next()
    }

    /// What is under way ends; nothing is begun.
    func stop(on executor: LoopExecutor) {
        guard let group else { return }
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
        settings.concurrent = blobs.concurrent
        settings.attempts = blobs.attempts
        settings.large = blobs.largeBytes
        settings.backoff = Backoff(cap: sync.maxBackoff)
        // Files come last when a fleet finds its hub again.
        settings.spread = min(spread * 2, .seconds(60))
        return settings
    }

    var blobCapacity: BlobCapacity {
        var capacity = BlobCapacity()
        capacity.bytes = Int64(blobs.quotaBytes)
        capacity.keptFor = blobs.keptFor
        return capacity
    }
}
