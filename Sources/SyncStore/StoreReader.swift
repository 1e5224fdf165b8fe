import Glibc
package import SyncCore

/// Reads on a connection and a thread of their own, each at most 2 s. Never checkpoints, never writes. Reads that may look at
/// everything there is have another connection and thread, so that no short one waits for them. Each of the two is made with its first
/// read.
package final class StoreReader: @unchecked Sendable {
    /// A read that takes longer ends with `.tooSlow`: while it lasts the log cannot shrink.
    package static let timeMax: Duration = .seconds(2)
    /// The check of a whole file reads half a gigabyte from slow flash.
    package static let checkTimeMax: Duration = .seconds(600)

    private let path: String
    private let time: any TimeSource
    private let limit: Duration
    private let quietAfter: Duration
    private let deliver: StoreWriter.Deliver
    private let damaged: @Sendable (StoreError) -> Void
    /// For long reads; `nil`: this is it.
    private let apart: StoreReader?
    private let thread: StoreThread<Box>

    private struct Box {
        var hasStarted = false
        var reads: [Read] = []
        /// The connection that is there has to go.
        var drops = false
        var keepsConnection = true
    }

    /// With the second argument it may ask to be done once more.
    private typealias Read = @Sendable (Result<Database, StoreError>, Bool) -> Again?

    /// What a read wants to be done once more over.
    private enum Again {
        /// Another connection: the medium did not give what was to be read.
        case anew
        /// One that needs no log: none can be made.
        case withoutLog
    }

    /// - Parameter damaged: Called on the reader's thread for every read that meets damage: only another database helps, and
    ///   that is made at a start. Also for a read that the medium does not answer, twice (``StoreError/isFailedRead``).
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

    /// SQLite's own check of the whole file, beside all other reads: on a thread and a connection that end with it.
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

    /// - Parameter isLong: It may look at everything there is.
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
                let end = StoreThread<Box>.monotonicNow() + limit.nanoseconds
                // One transaction: the parts of an answer belong to one moment.
                result = .success(
                    try database.bounded(by: { StoreThread<Box>.monotonicNow() > end }) { () throws(StoreError) in
                        try database.execute("BEGIN")
                        // Nothing was written. It fails where SQLite has ended the transaction by itself, after an error that is told.
                        defer { try? database.execute("COMMIT") }
                        return try work(StoreReads(database: database), time.now())
                    })
            } catch {
                if mayAskAgain, error.isFailedRead { return .anew }
                if mayAskAgain, [.cannotOpen, .readOnly, .diskFull].contains(error.code) { return .withoutLog }
                result = .failure(error)
                // Who reads the file alone may meet it while it is written.
                // Without a connection nothing was read, and the error of opening it is the one that is told.
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

    /// The next read asks the database that is there now.
    ///
    /// - Parameter keepingConnection: `false` while the writer cannot open the database. In one process all connections share what
    ///   SQLite has of the log, and one that was opened on a disk that can only be read makes it read-only for the writer, too.
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
            // The next read tries again; those that wait are told.
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
                // What a connection has read before is not asked a second time.
                connection = nil
                _ = perform(read, over: &connection, mayAskAgain: false, withoutLog: again == .withoutLog && !hasLog)
                // It would not notice that somebody writes again.
                if again == .withoutLog { connection = nil }
            }
            if !box.keepsConnection { connection = nil }
            quietAt = connection == nil ? nil : StoreThread<Box>.monotonicNow() + quietAfter.nanoseconds
        }
    }

    /// Whether something may have been committed that is not in the file of the database.
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
