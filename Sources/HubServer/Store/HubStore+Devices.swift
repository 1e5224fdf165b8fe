import SyncCore

// Devices and their databases.
extension HubStore {
    struct ReplicaRow {
        /// The highest `seq` seen.
        var maxSeq: Int64 = 0
        var ackedSeq: Int64 = 0
        /// Number of returns after another one had taken over.
        var returns: Int64 = 0
        var lastSeen: Timestamp

        /// Number of returns from which on a database counts as one that takes turns with another one.
        static let returnsOfTwins: Int64 = 2
    }

    /// The known state of a device, and of those of its databases that a request can concern.
    struct DeviceView {
        /// The database that it speaks for; `nil`: it has not connected with one.
        var current: ReplicaID?
        /// The requested databases that exist, and those that came back at least once.
        var replicas: [ReplicaID: ReplicaRow] = [:]
        /// The device was refused records because its agent would keep others (PROTOCOL A16).
        var keeps = false
        /// Databases that were requested by name.
        var asked: Set<ReplicaID> = []

        /// Number of returns of databases that connected since then.
        func returns(since: Timestamp) -> Int64 {
            replicas.values.reduce(0) { $0 + ($1.lastSeen >= since ? $1.returns : 0) }
        }

        /// Databases that came back at least twice after another one had spoken, and connected since then.
        func returning(since: Timestamp) -> Int64 {
            Int64(replicas.values.count { $0.returns >= ReplicaRow.returnsOfTwins && $0.lastSeen >= since })
        }

        fileprivate func knows(_ replica: ReplicaID?) -> Bool { replica.map { asked.contains($0) || replicas[$0] != nil } ?? true }
    }

    static func currentQuery(_ spelling: SQLSpelling) -> LookUp {
        LookUp("SELECT replica FROM device WHERE id = ?1\(spelling.newestRow)", [.text])
    }

    /// The named one, and those with returns. The limit protects against a device that keeps inventing names.
    static func replicaQuery(_ spelling: SQLSpelling) -> LookUp {
        let columns = "id, max_seq, acked_seq, returns, last_seen_ms"
        return LookUp(
            """
            SELECT * FROM (SELECT \(columns) FROM replica WHERE device = ?1 AND id = ?2\(spelling.newestRow)) AS named
            UNION ALL SELECT \(columns) FROM replica WHERE device = ?1 AND returns > 0 LIMIT 1000
            """, [.text, .text])
    }

    private static let keepingQuery = LookUp("SELECT since_ms FROM device_keeping WHERE device = ?1", [.text])
    /// Number of ``questions(_:)``.
    static let questionsCount = 3

    /// - Parameter replica: Included in the view, if it exists.
    func view(of device: DeviceID, _ replica: ReplicaID?) throws(DatabaseError) -> DeviceView {
        let known = group?.view(of: device)
        if let known, known.knows(replica) { return known }
        var view = DeviceView()
        try covered { () throws(DatabaseError) in
            try database.answer(questions([(device, replica)])) { question, _, row in
                HubStore.add(row, of: question, to: &view)
            }
        }
        if let replica { view.asked.insert(replica) }
        group?.facts?.add(device, view)
        if var known {
            // The changes of this transaction take precedence.
            for (id, row) in view.replicas where known.replicas[id] == nil { known.replicas[id] = row }
            known.asked.formUnion(view.asked)
            view = known
        }
        group?.request.seen.views[device] = view
        return view
    }

    func replica(_ device: DeviceID, _ id: ReplicaID) throws(DatabaseError) -> ReplicaRow? {
        try view(of: device, id).replicas[id]
    }

    func questions(_ callers: [(device: DeviceID, replica: ReplicaID?)]) -> [Question] {
        let devices = callers.map { [.text($0.device.text)] as [DatabaseValue] }
        return [
            Question(currentQuery, devices),
            Question(replicaQuery, callers.map { [.text($0.device.text), DatabaseValue($0.replica?.text)] }),
            Question(HubStore.keepingQuery, devices),
        ]
    }

    /// - Parameter question: Index in ``questions(_:)`` of the question that the row answers.
    static func add(_ row: any DatabaseRow, of question: Int, to view: inout DeviceView) {
        switch question {
        case 0: view.current = row.optionalText(0).map { ReplicaID(trusted: $0) }
        case 1:
            view.replicas[ReplicaID(trusted: row.text(0))] = ReplicaRow(
                maxSeq: row.int(1), ackedSeq: row.int(2), returns: row.int(3), lastSeen: Timestamp(milliseconds: row.int(4)))
        case 2: view.keeps = true
        case let other: preconditionFailure("a device has no question \(other)")
        }
    }

    // MARK: Changes

    /// Records that a device connected, and the database that it speaks for.
    ///
    /// A replica that returns after another one has spoken is counted: a restored database gets a new id, so an old id comes back only from
    /// a late request, or from a second device with the same identity.
    func touch(_ device: DeviceID, replica: ReplicaID?, at now: Timestamp) throws(DatabaseError) {
        guard let replica else { return try change(at: now) { $0.writes.device(device) { $0.seen = now } } }
        var view = try view(of: device, replica)
        try change(at: now) { layer in
            let isReturn = view.replicas[replica] != nil && view.current != nil && view.current != replica
            var row = view.replicas[replica] ?? ReplicaRow(lastSeen: now)
            row.lastSeen = max(row.lastSeen, now)
            if isReturn { row.returns += 1 }
            view.replicas[replica] = row
            view.current = replica
            layer.seen.views[device] = view
            layer.writes.device(device) {
                $0.seen = now
                $0.replica = replica
            }
            layer.writes.replica(device, replica) {
                $0.seen = now
                if isReturn { $0.returns += 1 }
            }
        }
    }

    /// Records the progress of a replica. To be called after ``touch(_:replica:at:)``.
    func recordProgress(
        _ device: DeviceID, _ replica: ReplicaID, maxSeq: Int64, ackedSeq: Int64, config: Int64?, adding counted: HubCounters,
        at now: Timestamp
    ) throws(DatabaseError) {
        var view = try view(of: device, replica)
        try change(at: now) { layer in
            if var row = view.replicas[replica] {
                row.maxSeq = max(row.maxSeq, maxSeq)
                row.ackedSeq = max(row.ackedSeq, ackedSeq)
                view.replicas[replica] = row
                layer.seen.views[device] = view
            }
            layer.writes.device(device) {
                $0.seen = now
                $0.config = config ?? $0.config
                $0.counters.add(counted)
            }
            layer.writes.replica(device, replica) {
                $0.seen = now
                $0.maxSeq = max($0.maxSeq, maxSeq)
                $0.ackedSeq = max($0.ackedSeq, ackedSeq)
            }
        }
    }

    /// Records the values that a device reports about itself; `nil`: not reported. To be called after ``touch(_:replica:at:)``.
    func recordFacts(_ device: DeviceID, agent: String?, platform: String?, config: Int64?, at now: Timestamp) throws(DatabaseError) {
        try change(at: now) { layer in
            layer.writes.device(device) {
                $0.seen = now
                $0.agent = agent ?? $0.agent
                $0.platform = platform ?? $0.platform
                $0.config = config ?? $0.config
            }
        }
    }

    /// Records the number of mutations that wait on the device. To be called after ``touch(_:replica:at:)``.
    func recordWaiting(_ device: DeviceID, _ waiting: Int64, at now: Timestamp) throws(DatabaseError) {
        try change(at: now) { layer in
            layer.writes.device(device) {
                $0.seen = now
                $0.waiting = (waiting, now)
            }
        }
    }

    /// Counts a return of an old database of a device that was refused.
    func countReturn(_ device: DeviceID, _ replica: ReplicaID, at now: Timestamp) throws(DatabaseError) {
        try updateReturns(device, [replica], at: now) { $0 + 1 }
    }

    /// Records databases that are in use side by side (``Hub/twins(of:_:at:)``).
    func recordTwins(_ device: DeviceID, _ replicas: [ReplicaID], at now: Timestamp) throws(DatabaseError) {
        try updateReturns(device, replicas, at: now) { max($0, 2) }
    }

    private func updateReturns(
        _ device: DeviceID, _ replicas: [ReplicaID], at now: Timestamp, _ count: (Int64) -> Int64
    ) throws(DatabaseError) {
        for replica in replicas {
            var view = try view(of: device, replica)
            guard var row = view.replicas[replica] else { continue }
            let added = count(row.returns) - row.returns
            row.returns += added
            row.lastSeen = now
            view.replicas[replica] = row
            try change(at: now) { layer in
                layer.seen.views[device] = view
                layer.writes.device(device) { $0.seen = now }
                layer.writes.replica(device, replica) {
                    $0.seen = now
                    $0.returns += added
                }
            }
        }
    }
}

/// Counters of verdicts. `applied` counts the accepted mutations.
package struct HubCounters: Hashable, Sendable {
    package var applied: Int64 = 0
    package var duplicates: Int64 = 0
    package var conflicts: Int64 = 0
    package var rejected: Int64 = 0
    package var retried: Int64 = 0

    package init() {}

    init(row: any DatabaseRow, from column: Int32) {
        applied = row.int(column)
        duplicates = row.int(column + 1)
        conflicts = row.int(column + 2)
        rejected = row.int(column + 3)
        retried = row.int(column + 4)
    }

    /// Mutations that are settled for their device.
    var settled: Int64 { applied + duplicates + conflicts + rejected }

    mutating func add(_ other: HubCounters) {
        applied += other.applied
        duplicates += other.duplicates
        conflicts += other.conflicts
        rejected += other.rejected
        retried += other.retried
    }

    mutating func count(_ verdict: PushResult.Verdict) {
        switch verdict {
        case .accepted: applied += 1
        case .duplicate: duplicates += 1
        case .conflict: conflicts += 1
        case .rejected: rejected += 1
        case .retry: retried += 1
        }
    }
}
