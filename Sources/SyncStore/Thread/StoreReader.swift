import Glibc
package import SyncCore
import SyncThreads

/// Reads on a connection and a thread of its own, each for at most 2 s. It never checkpoints and never writes. Reads that may scan
/// everything have another connection and thread, so that no short one waits for them. Each of the two is made with its first read.
package final class StoreReader: @unchecked Sendable {
    /// Time limit of a read; a longer one ends with `.tooSlow`, because the log cannot shrink during a read.
    package static let timeMax: Duration = .seconds(2)
    /// Time limit of the check of a whole file, which reads half a gigabyte from slow flash.
    package static let checkTimeMax: Duration = .seconds(600)

    private let path: String
    private let time: any TimeSource
    private let limit: Duration
    private let quietAfter: Duration
    private let deliver: StoreWriter.Deliver
    private let damaged: @Sendable (StoreError) -> Void
    /// The reader for long reads; `nil`: this is it.
    private let apart: StoreReader?
    private let thread: StoreThread<Box>

    private struct Box {
        var hasStarted = false
        var reads: [Read] = []
        /// The present connection must be dropped.
        var drops = false
        var keepsConnection = true
    }

    /// A read; when the second argument is `true` it may ask for a second attempt.
    private typealias Read = @Sendable (Result<Database, StoreError>, Bool) -> Again?

    /// The kind of connection that a second attempt needs.
    private enum Again {
        /// Another connection, because the medium failed to read.
        case anew
        /// A connection that needs no log, because none can be created.
        case withoutLog
    }

    /// - Parameter damaged: Called on the reader's thread for every read that meets damage. Only a new database helps then, and that is
    ///   made at a start. Also called for a read that the medium fails twice (``StoreError/isFailedRead``).
    package convenience init(
        path: String, time: any TimeSource, limit: Duration = StoreReader.timeMax, quietAfter: Duration = StoreWriter.quietAfter,
        deliver: @escaping StoreWriter.Deliver, damaged: @escaping @Sendable (StoreError) -> Void = { _ in }
    ) {
        let apart = StoreReader(path, time, limit, quietAfter, deliver, damaged, apart: nil)
        self.init(path, time, limit, quietAfter, deliver, damaged, apart: apart)
    }

    private init(
        _ path: String, _ time: any TimeSource, _ limit: Duration, _ quietAfter: Duration, _ deliver: @escaping StoreWriter.Deliver,
        _ damaged: @escaping @Sendable (StoreError) -> Void, apart: StoreReader?
    ) {
        self.apart = apart
        thread = StoreThread(Box(), name: apart == nil ? "store lists" : "store reader")
        self.path = path
        self.time = time
        self.limit = limit
        self.quietAfter = quietAfter
        self.deliver = deliver
        self.damaged = damaged
    }

    /// Runs SQLite's check of the whole file beside all other reads, on a thread and a connection that end with it.
    package func check(completion: @escaping @Sendable (Result<[String], StoreError>) -> Void) {
        let (path, damaged) = (path, damaged)
        let apart = StoreReader(path, time, Self.checkTimeMax, quietAfter, deliver, damaged, apart: nil)
        apart.read { reads, _ throws(StoreError) in
            try reads.check()
        } completion: { result in
            apart.close()
            if case .success(let complaints) = result, let first = complaints.first {
                damaged(StoreError(.corrupt, doing: "check \(path)", detail: first))
            }
            completion(result)
        }
    }

    /// - Parameter isLong: The read may scan everything.
    package func read<Value: Sendable>(
        isLong: Bool = false, _ work: @escaping @Sendable (StoreReads, Moment) throws(StoreError) -> Value,
        completion: @escaping @Sendable (Result<Value, StoreError>) -> Void
    ) {
        if isLong, let apart { return apart.read(work, completion: completion) }
        let (time, limit, deliver, damaged) = (time, limit, deliver, damaged)
        let read: Read = { connection, mayAskAgain in
            let result: Result<Value, StoreError>
            do throws(StoreError) {
                let database = try connection.get()
                let end = MonotonicTime.now() + limit.nanoseconds
                // One transaction, because the parts of an answer belong to one moment.
                result = .success(
                    try database.bounded(by: { MonotonicTime.now() > end }) { () throws(StoreError) in
                        try database.execute("BEGIN")
                        // Nothing was written. The COMMIT fails where SQLite has ended the transaction by itself, after an error that is
                        // reported.
                        defer { try? database.execute("COMMIT") }
                        return try work(StoreReads(database: database), time.now())
                    })
            } catch {
                if mayAskAgain, error.isFailedRead { return .anew }
                if mayAskAgain, [.cannotOpen, .readOnly, .diskFull].contains(error.code) { return .withoutLog }
                result = .failure(error)
                // A reader of the file alone may read it while it is written. Without a connection nothing was read, and the error of the
                // opening is the one to report.
                let isSure = (try? connection.get())?.isImmutable != true
                if isSure, [.corrupt, .notADatabase].contains(error.code) || error.isFailedRead { damaged(error) }
            }
            deliver([{ completion(result) }])
            return nil
        }
        let isFirst = thread.change { box in
            box.reads.append(read)
            defer { box.hasStarted = true }
            return !box.hasStarted
        }
        switch isFirst {
        case nil: deliver([{ completion(.failure(StoreError(.closed, doing: "read"))) }])
        case true?: begin()
        case false?: break
        }
    }

    /// Makes the next read open the database again.
    ///
    /// - Parameter keepingConnection: `false` while the writer cannot open the database. All connections of a process share SQLite's state
    ///   of the log, and one that was opened on a read-only disk makes it read-only for the writer, too.
    package func openAgain(keepingConnection: Bool = true) {
        apart?.openAgain(keepingConnection: keepingConnection)
        _ = thread.change { ($0.drops, $0.keepsConnection) = (true, keepingConnection) }
    }

    package func close() {
        apart?.close()
        thread.close()
    }

    private func begin() {
        do throws(StoreError) {
            try thread.start { [self] in run() }
        } catch {
            // The next read tries again; waiting reads get the error.
            let reads = thread.change { box in
                box.hasStarted = false
                defer { box.reads.removeAll() }
                return box.reads
            }
            for read in reads ?? [] { _ = read(.failure(error), false) }
        }
    }

    private func run() {
        var connection: Database?
        var quietAt: Int64?
        while true {
            let taken = thread.wait(until: quietAt) { (box: inout Box) -> Box? in
                if box.reads.isEmpty, !box.drops { return nil }
                defer { (box.reads, box.drops) = ([], false) }
                return box
            }
            let box: Box
            switch taken {
            case .value(let taken): box = taken
            case .timeOut:
                connection?.release()
                quietAt = nil
                continue
            case .closed: return
            }
            if box.drops { connection = nil }
            for read in box.reads {
                guard let again = perform(read, over: &connection, mayAskAgain: true) else { continue }
                // The second attempt uses a new connection, because the old one may have cached what it read.
                connection = nil
                _ = perform(read, over: &connection, mayAskAgain: false, withoutLog: again == .withoutLog && !hasLog)
                // It would not notice that another connection writes again.
                if again == .withoutLog { connection = nil }
            }
            if !box.keepsConnection { connection = nil }
            quietAt = connection == nil ? nil : MonotonicTime.now() + quietAfter.nanoseconds
        }
    }

    /// `true` when there may be commits that are not in the database file.
    private var hasLog: Bool {
        var facts = stat()
        return stat(path + "-wal", &facts) == 0 ? facts.st_size > 0 : errno != ENOENT
    }

    private func perform(_ read: Read, over connection: inout Database?, mayAskAgain: Bool, withoutLog: Bool = false) -> Again? {
        do throws(StoreError) {
            let open = if let connection { connection } else { try Database.openReader(path: path, withoutLog: withoutLog) }
            connection = open
            return read(.success(open), mayAskAgain)
        } catch {
            return read(.failure(error), mayAskAgain)
        }
    }
}
