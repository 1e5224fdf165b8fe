import SyncCore

/// What the store's thread does: takes work, does it in a transaction, commits, tells.
final class StoreLoop {
    private let open: @Sendable (Moment) throws(StoreError) -> Store
    private let time: any TimeSource
    private let deliver: StoreWriter.Deliver
    private let incident: @Sendable (StoreWriter.Incident) -> Void
    private let measured: @Sendable (Duration) -> Void
    /// `nil` once it failed for good.
    private var store: Store?
    private var failures = 0

    // The open transaction.
    private var isOpen = false
    private var rows = 0
    private var bytes = 0
    private var waiting: [Done] = []
    /// Answered already, and lost if the commit fails.
    private var relaxed = 0
    private var deadline: Int64?
    /// The highest `seq` that the shell was told of.
    private var notedSeq: Int64 = 0

    let opening: StoreOpening

    init(
        open: @escaping @Sendable (Moment) throws(StoreError) -> Store, time: any TimeSource,
        deliver: @escaping StoreWriter.Deliver, incident: @escaping @Sendable (StoreWriter.Incident) -> Void,
        measured: @escaping @Sendable (Duration) -> Void
    ) throws(StoreError) {
        self.open = open
        self.time = time
        self.deliver = deliver
        self.incident = incident
        self.measured = measured
        let store = try open(time.now())
        self.store = store
        opening = store.opening
    }

    func run(_ thread: StoreThread<[Job]>) {
        while true {
            let taken = thread.wait(until: deadline) { (box: inout [Job]) -> [Job]? in
                if box.isEmpty { return nil }
                defer { box.removeAll(keepingCapacity: true) }
                return box
            }
            switch taken {
            case .value(let jobs): work(jobs)
            case .timeOut: commit()
            case .closed:
                commit()
                close()
                return
            }
        }
    }

    /// Does all that has gathered, in groups that one commit may hold.
    private func work(_ jobs: [Job]) {
        for job in jobs {
            guard let store, begin(store) else {
                refuse(job)
                continue
            }
            let done = job.run(store, time.now())
            rows += job.rows
            bytes += job.bytes
            if store.options.ablations.contains(.answerBeforeCommit) {
                deliver([{ done.finish(nil) }])
            } else {
                waiting.append(done)
            }
            if rows >= Limits.groupRows || bytes >= Limits.groupBytes { commit() }
        }
        if waiting.contains(where: \.needsFlash) || store == nil { return commit() }
        answerEarly()
    }

    /// Relaxed work is answered now; its transaction stays open for at most a second. Without any work in it there is
    /// nothing to keep open.
    private func answerEarly() {
        guard isOpen else { return }
        guard rows > 0 else { return commit() }
        relaxed += waiting.count
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
        let error = beginFailure ?? StoreError(.closed, doing: "use the store", detail: "it failed for good")
        deliver([{ job.refuse(error) }])
    }

    private func commit() {
        guard isOpen, let lastSeq = store?.lastSeq else { return }
        isOpen = false
        deadline = nil
        let finished = waiting
        let early = relaxed
        (waiting, rows, bytes, relaxed) = ([], 0, 0, 0)
        do throws(StoreError) {
            let began = time.now().instant
            try store?.commit()
            measured(began.duration(to: time.now().instant))
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
            } else if early > 0 {
                lose(early)
                incident(.commitFailed(error, survived: false, relaxedLost: early))
            }
            return
        }
        if let store { keepSmall(store) }
    }

    /// The log is moved into the database after a commit, by the one connection that writes; never during one.
    private func keepSmall(_ store: Store) {
        guard store.database.path != nil else { return }
        // Neither changes what is stored, so a failure loses nothing; the next commit meets a broken medium itself.
        if store.tidiness != .done { try? store.tidy() }
        if store.database.walPages >= Store.checkpointPages { _ = try? store.database.checkpoint(truncating: false) }
    }

    /// An fsync that failed may not be tried again: the kernel has dropped the pages and would say that all is well. What
    /// is on the medium is found out by reading it.
    private func reopen(after error: StoreError, expecting lastSeq: Int64, relaxed: Int) {
        failures += 1
        // The connection goes with it: two that write must never be open together.
        store = nil
        guard failures == 1 else { return incident(.fatal(error)) }
        do throws(StoreError) {
            let fresh = try open(time.now())
            // What was read back may be in the kernel's cache only, and the next answers would stand behind it in the log.
            // From the database file, written and synced anew, it cannot vanish.
            if fresh.database.path != nil { try fresh.database.checkpoint(truncating: true) }
            store = fresh
            let survived = fresh.lastSeq >= lastSeq
            if !survived { lose(relaxed) }
            incident(.commitFailed(error, survived: survived, relaxedLost: survived ? 0 : relaxed))
        } catch {
            incident(.fatal(error))
        }
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
        guard let store else { return }
        do throws(StoreError) {
            try store.close(at: time.now())
        } catch {
            incident(.fatal(error))
        }
        self.store = nil
    }
}
