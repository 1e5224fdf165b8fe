package import SyncCore
import SyncSQLite

extension Store {
    /// Performs a command of the engine. A command that fails returns `.failed` and has changed nothing.
    package func perform(_ command: StoreCommand, at now: Moment) -> StoreAnswer {
        do throws(StoreError) {
            return try answer(command, at: now)
        } catch {
            return .failed(error.description)
        }
    }

    package func answer(_ command: StoreCommand, at now: Moment) throws(StoreError) -> StoreAnswer {
        try useWaitingRules(at: now)
        switch command {
        case .loadInFlight(let limits): return .batch(try loadInFlight(limits, at: now), retryAt: try retryAt(now))
        case .claim(let limits):
            var withheld = WithheldWork()
            let batch = try claim(limits, &withheld, at: now)
            return .batch(batch, retryAt: try retryAt(now), withheld: withheld)
        case .applyResults(let results, let next, let standing, let writtenUnder):
            let applied = try applyResults(results, next: next, standing: standing, writtenUnder: writtenUnder, at: now)
            return .resultsApplied(applied.summary, next: applied.next)
        case .applyRest(let results, let next):
            let applied = try applyRest(results, next: next, at: now)
            return .resultsApplied(applied.summary, next: applied.next)
        case .loadStreams(let also): return .streams(try loadStreams(also: also, at: now))
        case .applyPull(let response): return .pullApplied(try applyPull(response, at: now))
        case .restartStreams(let entities): try restartStreams(entities, at: now)
        case .restartShares(let entities): try restartStreams(entities, ofShare: true, at: now)
        case .adoptReplica(let replica): try adoptReplica(replica, at: now)
        case .setAside(let key, let problem, let counts): try setAside(key, problem, counts: counts, at: now)
        case .remember(let memory): try remember(memory, at: now)
        case .housekeep:
            let more = try housekeep(at: now)
            return .housekept(more: more, expiry: try nextExpiry(at: now))
        case .applySnapshot(let page):
            let applied = try applySnapshot(page, at: now)
            return .snapshotApplied(applied.summary, applied.position)
        case .loadSettled(let seq):
            let settled = try loadSettled(after: seq)
            return .settled(settled.keys, upTo: settled.upTo)
        case .requeue(let keys): return .requeued(try requeue(keys, at: now))
        case .forgetHistory: return .historyForgotten(more: try forgetHistory(at: now))
        case .digest(let entity): return .digest(try digest(of: entity))
        case .recordComparison(let entity, let differs, let shareMark):
            try recordComparison(entity, differs: differs, shareMark: shareMark, at: now)
        }
        return .done
    }

    /// Takes a new replica id after this database went back in time. Invariant: every mutation that may have been sent in the lost time is
    /// frozen with key and payload, and is settled before anything else. `seq` continues; the hub recognises mutations by their keys alone.
    package func adoptReplica(_ replica: ReplicaID, at now: Moment) throws(StoreError) {
        try transact(at: now) { () throws(StoreError) in
            try prepareForChange()
            try setReplica(replica)
        }
    }

    /// - Precondition: In a transaction that is prepared for changes.
    func setReplica(_ replica: ReplicaID) throws(StoreError) {
        try MetaTable(database).set("replica", replica.text)
        self.replica = replica
        try stepOverIdentifiers()
        if options.ablations.contains(.sentPayloadRewritten) { return }
        let waiting = try database.all("SELECT seq FROM mutation WHERE state = 0 ORDER BY seq") {
            row throws(StoreError) in row.int(0)
        }
        guard !waiting.isEmpty else { return }
        // An atomic list stays together, with the decisions that joined it later.
        try database.run(
            """
            UPDATE mutation SET state = 1, ready = 0, sent = 1, next_age = NULL, claim = ?, place = coalesce(first_seq, seq),
                first_sent_ms = coalesce(first_sent_ms, ?) WHERE state = 0
            """, .int(ledger.next(.nextClaim)), .int(now.wall.milliseconds))
        for (group, count) in ledger.counts where group.state == .pending && count > 0 {
            ledger.move(count, from: group, to: .inFlight)
        }
        ledger[.maxSentSeq] = max(ledger[.maxSentSeq], waiting.max() ?? 0)
        journal.add(.mutation(.inFlight), waiting)
        try markLostAttempts()
    }

    /// Sets a mutation aside that was sent alone and made the server fail. It waits again, frozen, and from now on only goes in a batch of
    /// its own. With `counts` the failure counts as an attempt, and past the limit it is parked. All of this applies to its whole atomic
    /// list.
    package func setAside(_ key: MutationKey, _ problem: Problem, counts: Bool, at now: Moment) throws(StoreError) {
        try transact(at: now) { () throws(StoreError) in
            try prepareForChange()
            guard let seq = try seq(of: key), let row = try outboxRow(seq), row.isUnsettled else { return }
            let attempts = row.attempts + (counts ? 1 : 0)
            let isParked = attempts >= Int64(Limits.attempts)
            let delay = isParked ? Self.parkedFor : RetryDelay.after(row.retries + 1, asked: nil, using: &random)
            let members = try row.group.map(groupMembers) ?? [row]
            for member in members {
                // Read again: a mutation that was in flight behind another member has been returned already.
                guard var row = try outboxRow(member.seq), row.isUnsettled else { continue }
                row.isAlone = true
                row.problem = problem.stored
                row.attempts = attempts
                row.retries += 1
                row.nextAge = age + delay.milliseconds
                try move(row, to: isParked ? .failed : .pending)
                // Mutations in flight behind it on its record must not be settled before it, so they return to the queue.
                if let rid = row.rid { try returnLater(of: rid, after: row.seq) }
            }
            for rid in Set(members.compactMap(\.rid)).sorted() { try restatus(rid) }
            if let group = row.group { try refreshReadiness(ofGroup: group) }
        }
    }

    /// Earliest time at which a mutation that waits for its own retry can go, by the present wall clock.
    func retryAt(_ now: Moment) throws(StoreError) -> Timestamp? {
        if try !metTies().isEmpty { return now.wall }
        let next = try database.number("SELECT min(next_age) FROM mutation WHERE next_age IS NOT NULL AND state = 0")
        return next.map { ages.wall(of: $0, at: now) }
    }

    // MARK: - Memory of the engine

    package func remember(_ memory: EngineMemory, at now: Moment) throws(StoreError) {
        try transact(at: now) { () throws(StoreError) in
            try MetaTable(database).set("engine", memory.stored)
            try keep(memory.standing)
            try keep(writtenUnder: memory.writtenUnder)
            try keep(memory.leftOut)
        }
    }

    package func memory() throws(StoreError) -> EngineMemory {
        var memory = EngineMemory(stored: try MetaTable(database).text("engine"))
        memory.standing = try MetaTable(database).text("standing").flatMap { StoredJSON.read($0)?.object }.flatMap { HubStanding($0) }
        memory.writtenUnder = Set(
            try MetaTable(database).text("written_under").flatMap { StoredJSON.read($0)?.array }?.compactMap(\.text) ?? [])
        memory.leftOut = LeftOutRecords(try MetaTable(database).text("left_out").flatMap { StoredJSON.read($0)?.object } ?? [:])
        return memory
    }

    /// Stores the hub's standing, which it may not fall behind. It has a row of its own, because it is written with the verdicts and the
    /// rest of the memory is not.
    func keep(_ standing: HubStanding?) throws(StoreError) {
        let text = standing.map { JSON.object($0.json).json } ?? ""
        try keep(text, as: "standing")
    }

    /// Stores the marks under which verdicts and parts of pulls were recorded. They have a row of their own for the same reason.
    func keep(writtenUnder marks: Set<String>) throws(StoreError) {
        let text = marks.isEmpty ? "" : JSON.list(marks.sorted()).json
        try keep(text, as: "written_under")
    }

    /// Stores the left-out records together with the pages that named them. It has a row of its own for the same reason.
    func keep(_ leftOut: LeftOutRecords) throws(StoreError) {
        let text = leftOut.isEmpty ? "" : JSON.object(leftOut.json).json
        try keep(text, as: "left_out")
    }

    /// Writes a row of the engine's memory only when it changes.
    private func keep(_ text: String, as name: String) throws(StoreError) {
        let meta = MetaTable(database)
        if try meta.text(name) ?? "" != text { try meta.set(name, text) }
    }
}

extension HubStanding {
    fileprivate var json: JSONObject {
        var object: JSONObject = [
            "epoch": .string(epoch), "replica": .string(replica.text), "head": .int(head), "seq": .int(seq),
        ]
        object["receipt"] = receipt.map { .string($0) }
        return object
    }

    /// - Returns: `nil` for damaged JSON: the proof is lost with it, but no data.
    fileprivate init?(_ object: JSONObject) {
        guard let epoch = object["epoch"]?.text, let replica = object["replica"]?.text, let head = object["head"]?.int,
            let seq = object["seq"]?.int
        else { return nil }
        self.init(
            epoch: epoch, replica: ReplicaID(trusted: replica), head: head, seq: seq, receipt: object["receipt"]?.text)
    }
}

extension EngineMemory {
    fileprivate var stored: String {
        var object: JSONObject = ["failures": .int(failures)]
        object["epoch"] = epoch.map { .string($0) }
        if let healing {
            var json: JSONObject = [
                "epoch": .string(healing.epoch), "asked_seq": .int(healing.askedSeq), "requeued": .int(Int64(healing.requeued)),
            ]
            json["standing"] = healing.standing.map { .object($0.json) }
            object["healing"] = .object(json)
        }
        if isBreakerOpen { object["breaker_open"] = .bool(true) }
        object["not_before_ms"] = notBefore.map { .int($0.milliseconds) }
        object["last_success_ms"] = lastSuccess.map { .int($0.milliseconds) }
        object["pulled_ms"] = pulledAt.map { .int($0.milliseconds) }
        object["last_error"] = lastError.map { .string($0) }
        object["last_error_ms"] = lastErrorAt.map { .int($0.milliseconds) }
        object["server"] = server.map { .string($0) }
        object["hub_entities"] = hubEntities.map { JSON.list($0.map(\.text)) }
        object["share"] = share.map { .object($0.json) }
        object["share_mark"] = shareMark.map { .string($0) }
        object["read_under"] = readUnder.map { .string($0) }
        if let pause {
            var json: JSONObject = ["reason": .string(pause.reason), "uid": .int(Int64(pause.uid))]
            json["until_ms"] = pause.until.map { .int($0.milliseconds) }
            object["pause"] = .object(json)
        }
        return object.json
    }

    /// Reads the stored memory. An unreadable text counts as none: the history is asked for again, and the hub's first answer shows whether
    /// it is the one that cursors and versions belong to. The page carries a seal, so only manual editing can cause this.
    fileprivate init(stored text: String?) {
        let object = text.flatMap { StoredJSON.read($0)?.object } ?? [:]
        func time(_ name: String) -> Timestamp? { object[name]?.int.map { Timestamp(milliseconds: $0) } }
        var pause: Pause?
        if let json = object["pause"]?.object {
            pause = Pause(
                until: json["until_ms"]?.int.map { Timestamp(milliseconds: $0) }, reason: json["reason"]?.text ?? "",
                uid: UInt32(clamping: json["uid"]?.int ?? 0))
        }
        self.init(
            epoch: object["epoch"]?.text, notBefore: time("not_before_ms"), failures: Int(clamping: object["failures"]?.int ?? 0),
            pause: pause, lastSuccess: time("last_success_ms"), lastError: object["last_error"]?.text,
            lastErrorAt: time("last_error_ms"), isBreakerOpen: object["breaker_open"]?.bool ?? false)
        pulledAt = time("pulled_ms")
        server = object["server"]?.text
        hubEntities = object["hub_entities"]?.array?.compactMap(\.text).map { EntityName(trusted: $0) }
        share = object["share"]?.object.flatMap { DeviceShare($0) }
        shareMark = object["share_mark"]?.text
        readUnder = object["read_under"]?.text
        if let json = object["healing"]?.object, let epoch = json["epoch"]?.text {
            healing = Healing(
                epoch: epoch, askedSeq: json["asked_seq"]?.int ?? 0, requeued: Int(clamping: json["requeued"]?.int ?? 0),
                standing: json["standing"]?.object.flatMap { HubStanding($0) })
        }
    }
}
