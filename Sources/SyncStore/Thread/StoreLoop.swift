import Glibc
import SyncCore
import SyncThreads

/// The loop of the store's thread: it takes work, does it in a transaction, commits, and reports.
final class StoreLoop {
    private let open: @Sendable (Moment) throws(StoreError) -> Store
    private let time: any TimeSource
    private let deliver: StoreWriter.Deliver
    private let incident: @Sendable (StoreWriter.Incident) -> Void
    private let measured: @Sendable (Duration) -> Void
    /// Runs a job or a commit, and records when it began.
    private let isDoing: @Sendable (_ isJob: Bool, _ work: () -> Void) -> Void
    private let retryAfter: Duration
    private let quietAfter: Duration
    /// `nil` while the database cannot be used.
    private var store: Store?
    /// Place of the files of ``store`` or ``displaced``.
    private var place: DatabasePlace?
    /// The store while its files have lost their names. It must not be used, but its content may still be saved.
    private var displaced: Store?
    /// The reason why the database cannot be used.
    private var failure: StoreError?
    /// Time of the next attempt to open it; `nil`: another database has to be made first, which is not done here.
    private var retryAt: Int64?
    /// Number of failed commits since the last successful one.
    private var failures = 0
    /// Number of consecutive openings that failed because of a failed read.
    private var failedReads = 0

    // The open transaction.
    private var isOpen = false
    private var rows = 0
    private var bytes = 0
    private var waiting: [Done] = []
    /// Number of mutations that were acknowledged already and are lost if the commit fails.
    private var relaxed = 0
    private var deadline: Int64?
    /// Time at which memory is released, if no work comes before.
    private var quietAt: Int64?
    /// Time at which the store continues the work of an earlier transaction, if no other work is waiting.
    private var goesOnAt: Int64?
    /// The highest `seq` that was reported to the shell.
    private var recordedSeq: Int64 = 0

    init(
        open: @escaping @Sendable (Moment) throws(StoreError) -> Store, time: any TimeSource, retryAfter: Duration,
        quietAfter: Duration, deliver: @escaping StoreWriter.Deliver, incident: @escaping @Sendable (StoreWriter.Incident) -> Void,
        measured: @escaping @Sendable (Duration) -> Void, isDoing: @escaping @Sendable (_ isJob: Bool, _ work: () -> Void) -> Void
    ) {
        self.open = open
        self.time = time
        self.retryAfter = retryAfter
        self.quietAfter = quietAfter
        self.deliver = deliver
        self.incident = incident
        self.measured = measured
        self.isDoing = isDoing
    }

    /// Opens the database for the first time.
    func begin() throws(StoreError) -> StoreOpening {
        let store = try openTwice()
        self.store = store
        place = DatabasePlace(of: store.database)
        return store.opening
    }

    /// Most read errors are gone at the second attempt, so a start tries twice instead of waiting half a minute.
    private func openTwice() throws(StoreError) -> Store {
        do throws(StoreError) {
            return try open(time.now())
        } catch {
            guard error.isFailedRead else { throw error }
            return try open(time.now())
        }
    }

    /// Starts without the database: opening is retried until it succeeds, and everything is refused with this error meanwhile.
    func beginResting(after error: StoreError) {
        wait(after: error)
        failedReads = error.isFailedRead ? 1 : 0
    }

    func run(_ thread: StoreThread<[Job]>) {
        while true {
            planRest()
            let taken = thread.wait(until: store == nil ? retryAt : deadline ?? goesOnAt ?? quietAt) { (box: inout [Job]) -> [Job]? in
                if box.isEmpty { return nil }
                defer { box.removeAll(keepingCapacity: true) }
                return box
            }
            switch taken {
            case .value(let jobs):
                work(jobs)
                quietAt = MonotonicTime.now() + quietAfter.nanoseconds
            case .timeOut: wakeUp()
            case .closed:
                commit()
                close()
                return
            }
        }
    }

    private func wakeUp() {
        guard let store else { return tryAgain() }
        if isOpen {
            commit()
            return
        }
        if goesOnAt != nil { return goOn(store) }
        quietAt = nil
        // A read that was under way has delayed it.
        if store.isUntidy {
            keepSmall(store)
            if store.isUntidy { quietAt = MonotonicTime.now() + quietAfter.nanoseconds }
        }
        store.database.release()
    }

    /// Plans the rest of a large rejection. A refused change may end tens of thousands of others, a slice of them in one transaction. The
    /// thread continues with the next slice when it has no other work, also right after a start.
    private func planRest() {
        if store?.isFalling != true { goesOnAt = nil } else if goesOnAt == nil { goesOnAt = 0 }
    }

    private func goOn(_ store: Store) {
        // If it fails, or there is no room for it, it waits like all other work.
        goesOnAt = MonotonicTime.now() + retryAfter.nanoseconds
        guard begin(store) else { return }
        var failure: StoreError?
        isDoing(true) {
            do throws(StoreError) { try store.goOnFalling(at: time.now()) } catch { failure = error }
        }
        let done = Done(needsFlash: true) { [incident] error in if error == nil { incident(.wentOn) } }
        if let failure, failure.code == .corrupt || failure.code == .notADatabase { return giveUp(done, failure) }
        if let failure, failure.isFailedRead { return readAgain(done, failure) }
        if failure == nil { waiting.append(done) }
        quietAt = MonotonicTime.now() + quietAfter.nanoseconds
        if commit(), failure == nil { goesOnAt = nil }
    }

    /// Does all collected jobs, in groups that fit into one commit.
    private func work(_ jobs: [Job]) {
        for job in jobs {
            guard let done = perform(job) else {
                refuse(job)
                continue
            }
            // SQLite has read data that contradicts itself: every later answer could be wrong.
            if let damage = done.damage {
                giveUp(done, damage)
                continue
            }
            if let failure = done.failedRead {
                readAgain(done, failure)
                continue
            }
            rows += job.rows
            bytes += job.bytes
            if store?.options.ablations.contains(.answerBeforeCommit) == true {
                deliver([{ done.finish(nil) }])
            } else {
                waiting.append(done)
            }
            if rows >= Limits.groupRows || bytes >= Limits.groupBytes { commit() }
        }
        guard store != nil else { return }
        if waiting.contains(where: \.needsFlash) { commit() } else { answerEarly() }
    }

    /// - Returns: `nil` when no transaction could be opened for it.
    private func perform(_ job: Job) -> Done? {
        guard let store, begin(store) else { return nil }
        var done: Done?
        isDoing(true) { done = job.run(store, time.now()) }
        return done
    }

    /// Answers relaxed work now; its transaction stays open for at most a second. A transaction without any work is committed at once.
    private func answerEarly() {
        guard isOpen else { return }
        guard rows > 0 else {
            commit()
            return
        }
        relaxed += waiting.reduce(0) { $0 + $1.relaxed }
        answer(waiting, nil)
        waiting.removeAll(keepingCapacity: true)
        deadline = deadline ?? MonotonicTime.now() + StoreWriter.relaxedDelay.nanoseconds
    }

    private func begin(_ store: Store) -> Bool {
        if isOpen { return true }
        do throws(StoreError) {
            try store.begin(at: time.now())
            isOpen = true
            return true
        } catch {
            beginFailure = error
            return false
        }
    }

    private var beginFailure: StoreError?

    private func refuse(_ job: Job) {
        let error = (store == nil ? failure : beginFailure) ?? StoreError(.closed, doing: "use the store")
        deliver([{ job.refuse(error) }])
    }

    /// - Returns: `true` when everything is on the medium.
    @discardableResult
    private func commit() -> Bool {
        guard isOpen, let lastSeq = store?.lastSeq else { return false }
        isOpen = false
        deadline = nil
        let finished = waiting
        let early = relaxed
        (waiting, rows, bytes, relaxed) = ([], 0, 0, 0)
        // A commit into a folder that was moved away would stay there, and it is unknown whether it comes back. The caller would get an
        // unnecessary unknown outcome. Work that was answered as relaxed is better kept there than undone.
        if early == 0, let fault = place?.fault(), fault == .folder || fault == .replaced {
            store?.rollback()
            leave(after: fault, finished, expecting: lastSeq, isUndone: true)
            return false
        }
        do throws(StoreError) {
            let began = time.now().instant
            var outcome: Result<Void, StoreError>?
            isDoing(false) { [store] in
                do throws(StoreError) {
                    outcome = .success(try store?.commit() ?? ())
                } catch {
                    outcome = .failure(error)
                }
            }
            try outcome?.get()
            measured(began.duration(to: time.now().instant))
            failures = 0
            if let fault = place?.fault() {
                leave(after: fault, finished, expecting: lastSeq)
                return false
            }
            // Before any answer is sent, so that the order of the promise holds.
            if lastSeq > recordedSeq, let record = store?.options.recordAcknowledged {
                record(lastSeq)
                recordedSeq = lastSeq
            }
            answer(finished, nil)
        } catch {
            answer(finished, error)
            // Without room nothing was written and the store is unchanged; the same holds after a refusal by a test.
            if error.code == .unknownOutcome {
                reopen(after: error, expecting: lastSeq, relaxed: early)
                return false
            }
            if early > 0 {
                lose(early)
                incident(.commitFailed(error, survived: false, relaxedLost: early))
            }
            if error.code == .diskFull, let store { makeRoom(store) }
            return false
        }
        if let store { keepSmall(store) }
        return true
    }

    /// Moves the log into the database after a commit, over the only connection that writes; never during a commit.
    private func keepSmall(_ store: Store) {
        guard store.database.path != nil else { return }
        // Neither changes stored data, so a failure loses nothing; the next commit meets a broken medium itself.
        if store.isUntidy { try? store.tidy() }
        if store.database.walPages >= Store.checkpointPages { _ = try? store.database.checkpoint(truncating: false) }
    }

    /// Frees space on a full disk. Deleting takes room as well, so the reserved space is released first, then settled rows are removed,
    /// then the log is emptied.
    private func makeRoom(_ store: Store) {
        guard store.options.releaseBallast?() == true else { return }
        for _ in 0..<Self.slicesForRoom {
            // It goes as far as it can: the daily housekeeping repeats a slice that fails now.
            guard (try? store.housekeep(at: time.now())) == true else { return }
        }
    }

    /// Largest number of slices of housekeeping, of 1,000 rows each.
    private static let slicesForRoom = 100

    /// Opens the store again after a failed commit. A failed fsync must not be retried: the kernel has dropped the pages and would report
    /// success. Only reading shows what is on the medium.
    private func reopen(after error: StoreError, expecting lastSeq: Int64, relaxed: Int) {
        failures += 1
        // The connection is dropped with it: two writing connections must never be open together.
        store = nil
        guard failures == 1 else { return rest(error) }
        do throws(StoreError) {
            let fresh = try openAgain()
            let survived = fresh.lastSeq >= lastSeq
            if !survived { lose(relaxed) }
            incident(.commitFailed(error, survived: survived, relaxedLost: survived ? 0 : relaxed))
        } catch {
            rest(error)
        }
    }

    private func openAgain() throws(StoreError) -> Store {
        let fresh = try openTwice()
        // The data that was read back may be in the kernel's cache only, and the next commits would follow it in the log. Rewriting and
        // syncing the database file makes it durable.
        if fresh.database.path != nil { try rewrite(fresh.database) }
        store = fresh
        place = DatabasePlace(of: fresh.database)
        failure = nil
        retryAt = nil
        failedReads = 0
        return fresh
    }

    private func rewrite(_ database: Database) throws(StoreError) {
        for _ in 0..<Self.rewrites {
            if try database.checkpoint(truncating: true) { return }
            // A read delays the checkpoint, and none takes longer than ``StoreReader/timeMax``.
            poll(nil, 0, 250)
        }
        throw StoreError(.locked, doing: "write the log into the database", detail: "another process has been reading from it for too long")
    }

    private static let rewrites = 12

    /// Pauses after a medium failed repeatedly; everything is refused meanwhile.
    private func rest(_ error: StoreError) {
        let before = failure?.code
        store = nil
        // Work that is refused from now on was not begun, so its outcome is not in doubt.
        failure = error.code == .unknownOutcome ? StoreError(.ioError, doing: error.doing, detail: error.detail) : error
        failedReads = error.isFailedRead ? failedReads + 1 : 0
        guard !DatabaseRescue.helps(against: error), failedReads < Self.failedReadsMax else {
            retryAt = nil
            return incident(.fatal(error))
        }
        retryAt = MonotonicTime.now() + retryAfter.nanoseconds
        // The same error again is not reported.
        if failure?.code != before { incident(.unusable(error)) }
    }

    /// Number of failed openings after which a read error counts as permanent: after a minute and a half, each time over a new connection,
    /// a sector is lost, and a new database is made of the rest.
    private static let failedReadsMax = 3

    // MARK: Files that were moved or removed

    /// Handles files that have lost their names: commits to them would be lost. If the folder still exists, all data goes into a new file.
    /// Otherwise no work is accepted until the folder is back.
    ///
    /// - Parameter isUndone: Nothing of the open transaction was committed.
    private func leave(after fault: DatabasePlace.Fault, _ finished: [Done], expecting lastSeq: Int64, isUndone: Bool = false) {
        guard let store, let path = store.database.path else { return }
        let error = fault.error(path)
        (displaced, self.store) = (store, nil)
        if case .removed = fault, restore() {
            incident(.restored(error))
            let survived = (self.store?.lastSeq ?? 0) >= lastSeq
            return answer(finished, survived ? nil : StoreError(.unknownOutcome, doing: error.doing, detail: error.detail))
        }
        answer(finished, isUndone ? error : StoreError(.unknownOutcome, doing: error.doing, detail: error.detail))
        wait(after: error)
        incident(.unusable(error))
    }

    /// - Returns: `true` when the files are in order again. If not, it is tried again later.
    private func restore() -> Bool {
        guard let displaced, let place else { return false }
        do throws(StoreError) {
            try place.restore(from: displaced.database)
        } catch {
            return false
        }
        closeDisplaced()
        do throws(StoreError) {
            _ = try openAgain()
        } catch {
            rest(error)
            return false
        }
        return true
    }

    /// Closes the database whose files are no longer in their place, and leaves all files there alone.
    private func closeDisplaced() {
        displaced?.database.keepFilesWhenClosing()
        displaced = nil
    }

    private func wait(after error: StoreError) {
        failure = error
        retryAt = MonotonicTime.now() + retryAfter.nanoseconds
    }

    private func lookForFiles() {
        guard let store = displaced, let path = place?.path else { return }
        switch place?.fault() {
        case nil:
            (self.store, displaced, failure, retryAt) = (store, nil, nil, nil)
            incident(.usableAgain(StoreOpening()))
        case .removed(let name)?:
            let error = DatabasePlace.Fault.removed(name).error(path)
            guard restore() else {
                if displaced != nil { wait(after: error) }
                return
            }
            incident(.usableAgain(StoreOpening()))
            incident(.restored(error))
        case .folder?: wait(after: DatabasePlace.Fault.folder.error(path))
        // A database that was put in this place is meant to be used.
        case .replaced?:
            closeDisplaced()
            tryAgain()
        }
    }

    // MARK: -

    private func tryAgain() {
        if displaced != nil { return lookForFiles() }
        do throws(StoreError) {
            let fresh = try openAgain()
            incident(.usableAgain(fresh.opening))
        } catch {
            rest(error)
        }
    }

    /// Opens the store again after a page could not be read. SQLite has rolled back the whole transaction, and the connection may hold what
    /// it read before. So the connection is dropped, and the medium is read again.
    private func readAgain(_ done: Done, _ failure: StoreError) {
        let early = relaxed
        let undone = undo(and: done)
        store = nil
        do throws(StoreError) {
            _ = try openAgain()
            lose(early)
            incident(.readFailed(failure, relaxedLost: early))
        } catch {
            rest(error)
        }
        answer(undone, failure)
    }

    /// - Returns: The work whose callers wait for an answer.
    private func undo(and done: Done) -> [Done] {
        store?.rollback()
        isOpen = false
        deadline = nil
        let undone = waiting + [done]
        (waiting, rows, bytes, relaxed) = ([], 0, 0, 0)
        return undone
    }

    /// Rolls back the open transaction, answers its callers with the error, and drops the database.
    private func giveUp(_ done: Done, _ damage: StoreError) {
        let undone = undo(and: done)
        // The damage is recorded before any caller gets an answer.
        rest(damage)
        answer(undone, damage)
    }

    /// Counts relaxed answers that were not kept; the count is written with the next commit.
    private func lose(_ relaxed: Int) {
        store?.countLost(relaxed)
    }

    private func answer(_ finished: [Done], _ error: StoreError?) {
        guard !finished.isEmpty else { return }
        deliver(finished.map { done in { done.finish(error) } })
    }

    private func close() {
        if displaced != nil {
            // The last of many attempts. The loss of the files was reported when it was noticed, and nothing was acknowledged since.
            if case .removed? = place?.fault(), let displaced { try? place?.restore(from: displaced.database) }
            closeDisplaced()
        }
        guard let store else { return }
        do throws(StoreError) {
            try store.close(at: time.now())
        } catch {
            // All acknowledged work is on the medium; the next start only has to read more of it.
            incident(.unusable(error))
        }
        self.store = nil
    }
}
