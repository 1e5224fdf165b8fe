import SyncCore
import Synchronization

/// An open incomplete file of a download.
final class DownloadPart: @unchecked Sendable {
    // Unchecked: used on the files' thread only.
    let file: any IncomingBlob

    init(_ file: any IncomingBlob) { self.file = file }
}

/// Takes the body of one answer. The transport's thread hands pieces over, and the files' thread writes them.
///
/// The transport cannot wait for a disk. So what waits to be written is limited: beyond that the body is stopped, which costs another
/// request and no byte that came.
final class DownloadSink: Sendable {
    private let part: DownloadPart
    private let intake: DownloadIntake
    private let thread: FileThread
    private let start: Int64
    private let state = Mutex(State())

    /// Largest number of bytes that wait to be written.
    static let waitingMax = 4 << 20
    /// Bytes of an error that are kept for its text.
    fileprivate static let textMax = 512
    /// Bytes of an error after which its body is stopped.
    fileprivate static let errorMax = 64 << 10

    fileprivate struct State {
        var verdict: DownloadIntake.Verdict?
        /// Bytes of the body that are here already and come first.
        var skip: Int64 = 0
        /// Bytes that may still be taken.
        var room: Int64 = 0
        var moved: Int64 = 0
        var waiting = 0
        var text: [UInt8] = []
        var error: BlobError?
    }

    /// The rest of an answer when its last byte is on the medium.
    struct Taken: Sendable {
        var received: DownloadMachine.Received
        var text: [UInt8]
        var error: BlobError?
    }

    init(_ part: DownloadPart, _ intake: DownloadIntake, from start: Int64, on thread: FileThread) {
        self.part = part
        self.intake = intake
        self.start = start
        self.thread = thread
    }

    // MARK: On the transport's thread

    func head(_ status: Int, _ headers: HTTPHeaders) {
        let verdict = intake.judge(status, headers)
        state.withLock { state in
            state.verdict = verdict
            guard case .bytes(let skip, let end, _, _) = verdict else { return }
            (state.skip, state.room) = (skip, max(0, end - start))
        }
    }

    /// - Returns: `false` to stop the body.
    func body(_ bytes: [UInt8]) -> Bool {
        let (taken, goesOn) = state.withLock { $0.accept(bytes) }
        if !taken.isEmpty { thread.run { self.write(taken) } }
        return goesOn
    }

    /// Calls back on the files' thread when all that came is on the medium.
    func finish(_ then: @escaping @Sendable (Taken) -> Void) {
        thread.run { [self] in
            var failure = state.withLock(\.error)
            do throws(BlobError) {
                try part.file.sync()
            } catch {
                failure = failure ?? error
            }
            let (moved, text) = state.withLock { ($0.moved, $0.text) }
            then(Taken(received: .init(offset: part.file.offset, moved: moved), text: text, error: failure))
        }
    }

    // MARK: On the files' thread

    private func write(_ bytes: [UInt8]) {
        let isBroken = state.withLock { state in
            state.waiting -= bytes.count
            return state.error != nil
        }
        // A hole must not come between the bytes of a part.
        guard !isBroken else { return }
        do throws(BlobError) {
            try part.file.append(bytes)
        } catch {
            state.withLock { $0.error = $0.error ?? error }
        }
    }
}

extension DownloadSink.State {
    /// - Returns: The bytes that belong to the part, and whether the body goes on.
    fileprivate mutating func accept(_ bytes: [UInt8]) -> (taken: [UInt8], goesOn: Bool) {
        moved += Int64(bytes.count)
        guard case .bytes = verdict else {
            text += bytes.prefix(max(0, DownloadSink.textMax - text.count))
            return ([], moved < DownloadSink.errorMax)
        }
        guard error == nil else { return ([], false) }
        let passed = min(skip, Int64(bytes.count))
        skip -= passed
        let count = min(room, Int64(bytes.count) - passed)
        room -= count
        waiting += Int(count)
        let taken = count == bytes.count ? bytes : Array(bytes.dropFirst(Int(passed)).prefix(Int(count)))
        // An answer that ends where it should leaves its connection open; one that brings more is cut.
        return (taken, passed + count == bytes.count && waiting <= DownloadSink.waitingMax)
    }
}
