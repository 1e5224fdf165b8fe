import Glibc
import SyncCore

/// What the store's thread does: takes work, does it in a transaction, commits, tells.
final class StoreLoop {
    private let open: @Sendable (Moment) throws(StoreError) -> Store
    private let time: any TimeSource
    private let deliver: StoreWriter.Deliver
    private let incident: @Sendable (StoreWriter.Incident) -> Void
    private let measured: @Sendable (Duration) -> Void
    /// Does a job, or a commit, and notes since when.
    private let isDoing: @Sendable (_ isJob: Bool, _ work: () -> Void) -> Void
    private let retryAfter: Duration
    private let quietAfter: Duration
    /// `nil` while the database cannot be used.
    private var store: Store?
    /// Of the files of ``store`` or ``displaced``.
    private var place: DatabasePlace?
    /// The store while its files have lost their names: nobody may use it, and what it has may still be kept.
    private var displaced: Store?
    /// Why it cannot.
    private var failure: StoreError?
    /// When it is tried again; `nil`: another one has to be made first, which is not done here.
    private var retryAt: Int64?
    /// Commits that failed since the last one that did not.
    private var failures = 0
    /// Openings one after another that failed because the medium did not give what was to be read.
    private var failedReads = 0

    // The open transaction.
    private var isOpen = false
    private var rows = 0
    private var bytes = 0
    private var waiting: [Done] = []
    /// Mutations that were acknowledged already, and are lost if the commit fails.
    private var relaxed = 0
    private var deadline: Int64?
    /// When memory is given back, if nothing comes before.
    private var quietAt: Int64?
    /// When the store goes on with what an earlier transaction left to be done, if nobody else wants anything.
    private var goesOnAt: Int64?
    /// The highest `seq` that the shell was told of.
    private var notedSeq: Int64 = 0

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

    /// Most errors of reading are gone the next time, and a start is not to wait half a minute for that.
    private func openTwice() throws(StoreError) -> Store {
        do throws(StoreError) {
            return try open(time.now())
        } catch {
            guard error.isFailedRead else { throw error }
            return try open(time.now())
        }
    }

    /// Begins without it: it is tried again until it can be opened, and everything is refused with this meanwhile.
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
                quietAt = StoreThread<[Job]>.monotonicNow() + quietAfter.nanoseconds
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
        store.database.release()
    }

    /// A refused change may take tens of thousands along, a slice of them in one transaction. The thread goes on with the next slice
    /// whenever nobody has work for it, also right after a start.
    private func planRest() {
        if store?.isFalling != true { goesOnAt = nil } else if goesOnAt == nil { goesOnAt = 0 }
    }

    private func goOn(_ store: Store) {
        // Where it fails, or there is no room for it, it waits like everything else that does.
        goesOnAt = StoreThread<[Job]>.monotonicNow() + retryAfter.nanoseconds
        guard begin(store) else { return }
        var failure: StoreError?
        isDoing(true) {
            do throws(StoreError) { try store.goOnFalling(at: time.now()) } catch { failure = error }
        }
        let done = Done(needsFlash: true) { [incident] error in if error == nil { incident(.wentOn) } }
        if let failure, failure.code == .corrupt || failure.code == .notADatabase { return giveUp(done, failure) }
        if let failure, failure.isFailedRead { return readAgain(done, failure) }
        if failure == nil { waiting.append(done) }
        quietAt = StoreThread<[Job]>.monotonicNow() + quietAfter.nanoseconds
        if commit(), failure == nil { goesOnAt = nil }
    }

    /// Does all that has gathered, in groups that one commit may hold.
    private func work(_ jobs: [Job]) {
        for job in jobs {
            guard let done = perform(job) else {
                refuse(job)
                continue
            }
            // SQLite has read something that contradicts itself: every answer from now on could be wrong.
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

    /// - Returns: `nil` when there is no transaction to do it in.
    private func perform(_ job: Job) -> Done? {
        guard let store, begin(store) else { return nil }
        var done: Done?
        isDoing(true) { done = job.run(store, time.now()) }
        return done
    }

    /// Relaxed work is answered now; its transaction stays open for at most a second. Without any work in it there is
    /// nothing to keep open.
    private func answerEarly() {
        guard isOpen else { return }
        guard rows > 0 else {
            commit()
            return
        }
        relaxed += waiting.reduce(0) { $0 + $1.relaxed }
        tell(waiting, nil)
        waiting.removeAll(keepingCapacity: true)
        deadline = deadline ?? StoreThread<[Job]>.monotonicNow() + StoreWriter.relaxedDelay.nanoseconds
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

    /// - Returns: Whether all of it is on the medium.
    @discardableResult
    private func commit() -> Bool {
        guard isOpen, let lastSeq = store?.lastSeq else { return false }
        isOpen = false
        deadline = nil
        let finished = waiting
        let early = relaxed
        (waiting, rows, bytes, relaxed) = ([], 0, 0, 0)
        // What is committed into a folder that was moved away is kept there, and whether it comes back nobody knows: the caller
        // would hear of a doubt that need not be. What was answered as relaxed is better kept there than undone.
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
            // Before anybody hears of it, as the order of the promise is.
            if lastSeq > notedSeq, let note = store?.options.noteAcknowledged {
                note(lastSeq)
                notedSeq = lastSeq
            }
            tell(finished, nil)
        } catch {
            tell(finished, error)
            // Without room nothing was written, and the store is as it was before; so it is after a refusal by a test.
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

    /// The log is moved into the database after a commit, by the one connection that writes; never during one.
    private func keepSmall(_ store: Store) {
        guard store.database.path != nil else { return }
        // Neither changes what is stored, so a failure loses nothing; the next commit meets a broken medium itself.
        if store.tidiness != .done { try? store.tidy() }
        if store.database.walPages >= Store.checkpointPages { _ = try? store.database.checkpoint(truncating: false) }
    }

    /// A full disk stands in the way of its own cure: to delete takes room as well. So what is kept for this goes first, then
    /// what is settled, then the log.
    private func makeRoom(_ store: Store) {
        guard store.options.releaseBallast?() == true else { return }
        for _ in 0..<Self.slicesForRoom {
            // As far as it gets: what fails now is tried again by the daily work.
            guard (try? store.housekeep(at: time.now())) == true else { return }
        }
    }

    /// Slices of housekeeping, of 1,000 rows each.
    private static let slicesForRoom = 100

    /// An fsync that failed may not be tried again: the kernel has dropped the pages and would say that all is well. What
    /// is on the medium is found out by reading it.
    private func reopen(after error: StoreError, expecting lastSeq: Int64, relaxed: Int) {
        failures += 1
        // The connection goes with it: two that write must never be open together.
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
        // What was read back may be in the kernel's cache only, and the next answers would stand behind it in the log.
        // From the database file, written and synced anew, it cannot vanish.
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
            // A read holds it up, and none takes longer than ``StoreReader/timeMax``.
            poll(nil, 0, 250)
        }
        throw StoreError(.locked, doing: "write the log into the database", detail: "somebody reads from it for long")
    }

    private static let rewrites = 12

    /// A medium that fails again and again is left alone for a while, and everything is refused meanwhile.
    private func rest(_ error: StoreError) {
        let before = failure?.code
        store = nil
        // What is refused from now on was not even begun: about that there is no doubt.
        failure = error.code == .unknownOutcome ? StoreError(.ioError, doing: error.doing, detail: error.detail) : error
        failedReads = error.isFailedRead ? failedReads + 1 : 0
        guard !DatabaseRescue.helps(against: error), failedReads < Self.failedReadsMax else {
            retryAt = nil
            return incident(.fatal(error))
        }
        retryAt = StoreThread<[Job]>.monotonicNow() + retryAfter.nanoseconds
        // That it is still so is no news.
        if failure?.code != before { incident(.unusable(error)) }
    }

    /// What cannot be read after a minute and a half, each time by a connection of its own, will not be read any more: a sector
    /// is gone, and another database is made of the others.
    private static let failedReadsMax = 3

    // MARK: Files that are not where they were

    /// What was committed is where nobody will look for it. If the folder is still there, all that is known goes into a new file;
    /// otherwise nothing is taken any more until it is back.
    ///
    /// - Parameter isUndone: Nothing of it was committed.
    private func leave(after fault: DatabasePlace.Fault, _ finished: [Done], expecting lastSeq: Int64, isUndone: Bool = false) {
        guard let store, let path = store.database.path else { return }
        let error = fault.error(path)
        (displaced, self.store) = (store, nil)
        if case .removed = fault, restore() {
            incident(.restored(error))
            let survived = (self.store?.lastSeq ?? 0) >= lastSeq
            return tell(finished, survived ? nil : StoreError(.unknownOutcome, doing: error.doing, detail: error.detail))
        }
        tell(finished, isUndone ? error : StoreError(.unknownOutcome, doing: error.doing, detail: error.detail))
        wait(after: error)
        incident(.unusable(error))
    }

    /// - Returns: Whether it is in order again. If not, it is tried again later.
    private func restore() -> Bool {
        guard let displaced, let place else { return false }
        do throws(StoreError) {
            try place.restore(from: displaced.database)
        } catch {
            return false
        }
        letGo()
        do throws(StoreError) {
            _ = try openAgain()
        } catch {
            rest(error)
            return false
        }
        return true
    }

    private func letGo() {
        displaced?.database.letGo()
        displaced = nil
    }

    private func wait(after error: StoreError) {
        failure = error
        retryAt = StoreThread<[Job]>.monotonicNow() + retryAfter.nanoseconds
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
        // Whoever put it there wants it to be used.
        case .replaced?:
            letGo()
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

    /// A page that was not to be had: SQLite has undone the whole transaction, and the connection may hold what it read before.
    /// So nothing of it is used any more, and what is on the medium is read anew.
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
        tell(undone, failure)
    }

    /// - Returns: Who waits for it.
    private func undo(and done: Done) -> [Done] {
        store?.rollback()
        isOpen = false
        deadline = nil
        let undone = waiting + [done]
        (waiting, rows, bytes, relaxed) = ([], 0, 0, 0)
        return undone
    }

    /// Undoes what the open transaction holds, tells whoever waits for it, and lets go of the database.
    private func giveUp(_ done: Done, _ damage: StoreError) {
        let undone = undo(and: done)
        // Before anybody hears of it, it is written down that there is damage.
        rest(damage)
        tell(undone, damage)
    }

    /// Counts answers that were no promise and were not kept; the count is written with the next commit.
    private func lose(_ relaxed: Int) {
        store?.countLost(relaxed)
    }

    private func tell(_ finished: [Done], _ error: StoreError?) {
        guard !finished.isEmpty else { return }
        deliver(finished.map { done in { done.finish(error) } })
    }

    private func close() {
        if displaced != nil {
            // The last attempt of many: that the files are gone was told when it was noticed, and nothing was acknowledged since.
            if case .removed? = place?.fault(), let displaced { try? place?.restore(from: displaced.database) }
            letGo()
        }
        guard let store else { return }
        do throws(StoreError) {
            try store.close(at: time.now())
        } catch {
            // What was acknowledged is on the medium; the next start only has to look at more of it.
            incident(.unusable(error))
        }
        self.store = nil
    }
}
