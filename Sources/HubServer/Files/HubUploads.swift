package import SyncCore
import Synchronization

/// What the hub keeps of files besides the database: where they lie, and what is being written.
///
/// The thread that owns the database decides what may be written and where; another one writes. Between them stands one rule:
/// an upload has one writer at a time, and whoever asks where it stands ends the one before. A connection that hangs somewhere
/// in the network so can neither hold an upload up nor add to it later.
///
/// Whatever may wait for the storage is called on a thread for that (``later(_:)``), never on the database's: a store that hangs
/// holds files up and nothing else.
package final class HubUploads: Sendable {
    package struct Limits: Sendable {
        /// Of one file, bytes.
        package var fileBytes: Int64 = 2 << 30
        /// Of all files of one device, bytes; those on their way count as a whole.
        package var deviceBytes: Int64 = 20 << 30
        /// Uploads of one device that are not complete.
        package var deviceUploads: Int64 = 100
        /// What must stay free on the file system, bytes.
        package var freeBytes: Int64 = 64_000_000
        /// An upload that nobody goes on with is dropped after this.
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

    /// Files whose digest is held in memory, so that the next piece need not hash all before it again.
    private static let writersMax = 64

    package init(_ storage: any BlobStorage, limits: Limits = Limits()) {
        self.storage = storage
        self.limits = limits
    }

    /// What may wait goes to these threads from now on; before that it is done at once.
    ///
    /// - Parameter report: Told why a request was refused with less than the truth.
    func use(_ runner: @escaping Runner, report: @escaping @Sendable (BlobError) -> Void) {
        self.runner.withLock { $0 = runner }
        self.report.withLock { $0 = report }
    }

    func tell(_ error: BlobError) {
        report.withLock { $0 }(error)
    }

    func later(_ work: @escaping @Sendable () -> Void) {
        runner.withLock { $0 }(work)
    }

    /// Removes what has come of an upload.
    func discard(_ id: String) {
        forget(id)
        later { [storage] in storage.discard(incoming: id) }
    }

    /// One file on its way. Its lock is held while a piece is written, so that nobody counts half of it.
    private final class Writer: Sendable {
        let state: Mutex<State>

        struct State: ~Copyable {
            var token: UInt64
            var offset: Int64
            /// Up to where it is on disk. Invariant: synced <= offset.
            var synced: Int64
            /// `nil` until the first piece: taking up a large file means to hash it again.
            nonisolated(unsafe) var file: (any IncomingBlob)?

            /// After an error nobody knows what became of what was not synced: the next one takes up what is.
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

    /// Ends whoever writes to an upload, if that needs no waiting.
    ///
    /// - Parameter known: What the database says that is there.
    /// - Returns: What is there, on disk; `nil` when ``fence(_:at:)`` must come first.
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

    /// Ends whoever writes to an upload. Waits for what it is writing.
    ///
    /// - Parameter known: What the database says that is there.
    /// - Returns: What is there, on disk.
    @discardableResult
    func fence(_ id: String, at known: Int64) throws(BlobError) -> Int64 {
        guard let writer = open.withLock({ $0.writers[id] }) else { return known }
        // Another replica went on with it: what we hold in memory is of before.
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

    /// Makes whoever holds the grant the one that writes.
    func grant(_ id: String, at offset: Int64) -> UInt64 {
        open.withLock { open in
            open.lastToken += 1
            let token = open.lastToken
            // One whose lock is taken writes at this moment: it is neither at rest nor where we stand.
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
        /// Somebody else has taken over.
        case fenced
        case failed(BlobError)
    }

    /// Appends bytes for whoever holds the grant.
    func append(_ bytes: [UInt8], to grant: UploadGrant) -> Result<Int64, Written> {
        with(grant) { state throws(BlobError) in
            if state.file == nil { state.file = try storage.open(incoming: grant.id, at: state.offset) }
            try state.file?.append(bytes)
            state.offset += Int64(bytes.count)
            return state.offset
        }
    }

    /// Puts on disk what was written, gives the file its final name when all is there, and lets go.
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

    /// Takes back what this grant has written: its bytes are not what the client meant to send.
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

/// Leave to write to one upload, from its present end on.
package struct UploadGrant: Sendable, Hashable {
    var id: String
    var token: UInt64
    var offset: Int64
    var length: Int64
    /// What the whole must hash to, if the client said so.
    var digest: BlobDigest?
    var checksum: Checksum?
    /// A creation with bytes: the answer is 201.
    var isCreation = false

    struct Checksum: Sendable, Hashable {
        var algorithm: String
        var bytes: [UInt8]
    }
}

/// How a request that brought bytes ended.
package struct UploadEnd: Sendable, Hashable {
    var offset: Int64
    /// Of the whole, when it is whole.
    var digest: BlobDigest?
    /// It is not the digest that the client had said.
    var isWrong = false
    /// A status of its own: 460 for a piece that does not match its checksum, 413 for one that is too long.
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
