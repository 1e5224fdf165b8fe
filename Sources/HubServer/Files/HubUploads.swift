package import SyncCore
import Synchronization

/// The hub's state of files besides the database: their storage, and the uploads that are being written.
///
/// The thread that owns the database decides which bytes may be written and where; another thread writes them. One rule connects the two:
/// an upload has one writer at a time, and a request for its offset ends the writer before. A connection that hangs somewhere in the
/// network can therefore neither delay an upload nor add to it later.
///
/// Every step that may wait for the storage runs on a thread for it (``later(_:)``), never on the database's. A store that hangs delays
/// files only.
package final class HubUploads: Sendable {
    package struct Limits: Sendable {
        /// Largest size of one file, bytes.
        package var fileBytes: Int64 = 2 << 30
        /// Total size of all files of one device, bytes; incomplete ones count with their full length.
        package var deviceBytes: Int64 = 20 << 30
        /// Number of incomplete uploads of one device.
        package var deviceUploads: Int64 = 100
        /// Space that must stay free on the file system, bytes.
        package var freeBytes: Int64 = 64_000_000
        /// Time after which an upload without progress is dropped.
        package var expiry: Duration = .seconds(3 * 86_400)

        package init() {}
    }

    package let storage: any BlobStorage
    package let limits: Limits
    private let open = Mutex(Open())
    private let runner = Mutex<Runner>({ $0() })
    private let report = Mutex<@Sendable (BlobError) -> Void>({ _ in })

    package typealias Runner = @Sendable (@escaping @Sendable () -> Void) -> Void

    private struct Open {
        var writers: [String: Writer] = [:]
        var lastToken: UInt64 = 0
    }

    /// Number of files whose digest state is held in memory, so that the next piece need not hash all earlier bytes again.
    private static let writersMax = 64

    package init(_ storage: any BlobStorage, limits: Limits = Limits()) {
        self.storage = storage
        self.limits = limits
    }

    /// Sets the threads for work that may wait; before this call such work runs at once.
    ///
    /// - Parameter report: Receives the cause of a refusal whose answer does not name it.
    func use(_ runner: @escaping Runner, report: @escaping @Sendable (BlobError) -> Void) {
        self.runner.withLock { $0 = runner }
        self.report.withLock { $0 = report }
    }

    func reportFailure(_ error: BlobError) {
        report.withLock { $0 }(error)
    }

    func later(_ work: @escaping @Sendable () -> Void) {
        runner.withLock { $0 }(work)
    }

    /// Removes the received bytes of an upload.
    func discard(_ id: String) {
        forget(id)
        later { [storage] in storage.discard(incoming: id) }
    }

    /// One file that is being written. Its lock is held while a piece is written, so that no reader counts half of it.
    private final class Writer: Sendable {
        let state: Mutex<State>

        struct State: ~Copyable {
            var token: UInt64
            var offset: Int64
            /// Number of bytes that are synced to disk. Invariant: synced <= offset.
            var synced: Int64
            /// `nil` until the first piece: opening a large file again means hashing it again.
            nonisolated(unsafe) var file: (any IncomingBlob)?

            /// After an error the state of unsynced bytes is unknown: the next writer continues from the synced ones.
            mutating func restart() {
                token = 0
                offset = synced
                file = nil
            }
        }

        init(token: UInt64, offset: Int64) {
            state = Mutex(State(token: token, offset: offset, synced: offset, file: nil))
        }
    }

    /// Ends the present writer of an upload, if that needs no waiting.
    ///
    /// - Parameter known: The offset in the database.
    /// - Returns: The number of bytes on disk; `nil` when ``fence(_:at:)`` must come first.
    func standing(_ id: String, at known: Int64) -> Int64? {
        guard let writer = open.withLock({ $0.writers[id] }) else { return known }
        let standing: Int64?? = writer.state.withLockIfAvailable { state in
            guard state.offset >= known else { return known }
            guard state.synced == state.offset else { return nil }
            state.token = 0
            return state.offset
        }
        return standing ?? nil
    }

    /// Ends the present writer of an upload. Waits for the piece that it is writing.
    ///
    /// - Parameter known: The offset in the database.
    /// - Returns: The number of bytes on disk.
    @discardableResult
    func fence(_ id: String, at known: Int64) throws(BlobError) -> Int64 {
        guard let writer = open.withLock({ $0.writers[id] }) else { return known }
        // Another replica has continued the upload: the state in memory is older.
        if writer.state.withLock({ $0.offset < known }) {
            forget(id)
            return known
        }
        let result: Result<Int64, BlobError> = writer.state.withLock { state in
            state.token = 0
            do throws(BlobError) {
                try state.file?.sync()
                state.synced = state.offset
                return .success(state.offset)
            } catch {
                state.restart()
                return .failure(error)
            }
        }
        return try result.get()
    }

    /// Makes the holder of the new grant the one writer.
    func grant(_ id: String, at offset: Int64) -> UInt64 {
        open.withLock { open in
            open.lastToken += 1
            let token = open.lastToken
            // A writer whose lock is held is writing at this moment: it is neither at rest nor at this offset.
            let isTaken = open.writers[id]?.state.withLockIfAvailable { state in
                guard state.offset == offset else { return false }
                state.token = token
                return true
            }
            if isTaken != true {
                if open.writers.count >= Self.writersMax,
                    let idle = open.writers.first(where: { $0.value.state.withLockIfAvailable { $0.token == 0 } ?? false })
                {
                    open.writers[idle.key] = nil
                }
                open.writers[id] = Writer(token: token, offset: offset)
            }
            return token
        }
    }

    enum Written: Error {
        /// Another request has become the writer.
        case fenced
        case failed(BlobError)
    }

    /// Appends bytes under a grant.
    func append(_ bytes: [UInt8], to grant: UploadGrant) -> Result<Int64, Written> {
        with(grant) { state throws(BlobError) in
            if state.file == nil { state.file = try storage.open(incoming: grant.id, at: state.offset) }
            try state.file?.append(bytes)
            state.offset += Int64(bytes.count)
            return state.offset
        }
    }

    /// Syncs the written bytes, gives the file its final name when it is complete, and ends the grant.
    func finish(_ grant: UploadGrant) -> Result<UploadEnd, Written> {
        let ended: Result<UploadEnd, Written> = with(grant) { state throws(BlobError) in
            state.token = 0
            guard state.offset == grant.length else {
                try state.file?.sync()
                state.synced = state.offset
                return UploadEnd(offset: state.offset)
            }
            if state.file == nil { state.file = try storage.open(incoming: grant.id, at: state.offset) }
            guard let file = state.file else { return UploadEnd(offset: state.offset) }
            let digest = file.digest()
            if let expected = grant.digest, expected != digest {
                file.discard()
                state.file = nil
                return UploadEnd(offset: state.offset, digest: digest, isWrong: true)
            }
            try file.keep(as: digest)
            state.file = nil
            return UploadEnd(offset: state.offset, digest: digest)
        }
        if case .success(let end) = ended, end.digest != nil { forget(grant.id) }
        return ended
    }

    /// Takes back the bytes of this grant: they are not those that the client meant to send.
    func undo(_ grant: UploadGrant) {
        forget(grant.id)
    }

    func forget(_ id: String) {
        open.withLock { $0.writers[id] = nil }
    }

    private func with<Value: Sendable>(
        _ grant: UploadGrant, _ body: (inout Writer.State) throws(BlobError) -> Value
    ) -> Result<Value, Written> {
        guard let writer = open.withLock({ $0.writers[grant.id] }) else { return .failure(.fenced) }
        return writer.state.withLock { state in
            guard state.token == grant.token else { return .failure(.fenced) }
            do throws(BlobError) {
                return .success(try body(&state))
            } catch {
                state.restart()
                return .failure(.failed(error))
            }
        }
    }
}

/// Permission to write to one upload, from its present end on.
package struct UploadGrant: Sendable, Hashable {
    var id: String
    var token: UInt64
    var offset: Int64
    var length: Int64
    /// The digest of the whole file, if the client announced it.
    var digest: BlobDigest?
    var checksum: Checksum?
    /// The request creates the upload and brings bytes: the answer is 201.
    var isCreation = false

    struct Checksum: Sendable, Hashable {
        var algorithm: String
        var bytes: [UInt8]
    }
}

/// The result of a request that brought bytes.
package struct UploadEnd: Sendable, Hashable {
    var offset: Int64
    /// The digest of the whole file, when it is complete.
    var digest: BlobDigest?
    /// The digest is not the one that the client announced.
    var isWrong = false
    /// A refusal with a status of its own: 460 for a piece that does not match its checksum, 413 for one that is too long.
    var refusal: Problem?
    /// Fewer bytes are on disk than the database says.
    var isLost = false

    init(offset: Int64, digest: BlobDigest? = nil, isWrong: Bool = false, refusal: Problem? = nil) {
        self.offset = offset
        self.digest = digest
        self.isWrong = isWrong
        self.refusal = refusal
    }
}
