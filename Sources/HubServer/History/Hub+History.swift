package import SyncCore

// Detection of a database that is an older copy, and the response to it (PROTOCOL A6): one new history, begun under the lock of the
// database. Devices offer again the changes that it does not know.
//
// Only data that this hub has signed moves the history of all devices: a cursor or a receipt that its line of openings does not include. A
// device's unsigned claim about itself heals that device alone, and is reported.
extension Hub {
    /// Begins a new history within the present transaction, which must be a writing one. Commit numbers never go back in it.
    func renewEpoch(_ cause: HubLineage.Cause, by device: DeviceID? = nil, at now: Timestamp? = nil) throws(DatabaseError) {
        let before = state.epoch
        state.epoch = Hub.makeEpoch(&random)
        state.head = max(state.head, try store.newestCommit())
        try store.setEpoch(state.epoch, head: state.head)
        try addOpening(cause, by: device, at: now ?? latest)
        notices.append(.newHistory(cause, from: before, to: state.epoch, head: state.head, device: device))
    }

    /// Records this process's opening before it writes anything else. Part of its first writing transaction.
    func openIfNeeded(at now: Timestamp) throws(DatabaseError) {
        latest = now
        if let opened, lineage.entries.contains(where: { $0.tag == opened }) { return }
        try addOpening(lineage.entries.isEmpty ? .created : .opened, at: now)
    }

    private func addOpening(_ cause: HubLineage.Cause, by device: DeviceID? = nil, at now: Timestamp?) throws(DatabaseError) {
        // A name that is in the line already would be taken for the earlier opening, and its signatures for false ones.
        var tag = Hub.makeTag(&random)
        while lineage.entries.contains(where: { $0.tag == tag }) { tag = Hub.makeTag(&random) }
        try add(cause, epoch: state.epoch, tag: tag, by: device, at: now)
        state.opening = tag
        opened = tag
    }

    private func add(
        _ cause: HubLineage.Cause, epoch: String, tag: String, by device: DeviceID?, at now: Timestamp?
    ) throws(DatabaseError) {
        let entry = HubLineage.Entry(
            n: (lineage.entries.last?.n ?? 0) + 1, epoch: epoch, tag: tag, head: state.head, at: now, cause: cause, device: device)
        try store.add(entry)
        lineage.entries.append(entry)
        if lineage.entries.count > HubLineage.entriesMax { lineage.entries.removeFirst() }
    }

    /// Starts a new history; to be called once after the database was replaced by an older copy. Devices then list everything anew and
    /// offer again the changes that this hub no longer knows.
    ///
    /// - Parameter joining: When several hubs are asked, those that are asked within this time after the first one join its history:
    ///   devices should not go through two.
    /// - Returns: `false` when it has joined.
    @discardableResult
    package func startEpoch(
        _ cause: HubLineage.Cause = .requested, at now: Timestamp? = nil, joining: Duration? = nil
    ) throws(HubError) -> Bool {
        try transact { () throws(DatabaseError) in
            if let now, let joining, let last = lineage.restart, last.cause == .requested, last.epoch == state.epoch,
                let at = last.at, at.advanced(by: joining) > now, now.advanced(by: joining) > at
            {
                return false
            }
            try renewEpoch(cause, at: now)
            return true
        }
    }

    // MARK: Evidence

    /// The evidence in a request's receipt; `nil` when it proves nothing.
    ///
    /// - Parameter row: The known state of the caller's database.
    func evidence(
        _ request: HubRequest, _ caller: HubGate.Caller, _ row: HubStore.ReplicaRow?
    ) -> HubEvidence? {
        if settings.ablations.contains(.proofIgnored) { return nil }
        guard let text = request.hubHeaders.receipt,
            let receipt = Receipt.read(text, secret: state.secret)
        else { return nil }
        let evidence = HubEvidence(
            cause: .receipt, position: receipt.position, device: receipt.device, replica: receipt.replica, seq: receipt.seq)
        if receipt.position.epoch != state.epoch { return lineage.knowsHistory(of: receipt.position) ? nil : evidence }
        let isAboutCaller = receipt.device == caller.device && receipt.replica == caller.replica
        // The numbers of a decision without the lock are preliminary: no device has seen one of them.
        let head = store.group?.basis?.head ?? state.head
        guard !lineage.includes(receipt.position, head: head) || isAboutCaller && row?.maxSeq ?? 0 < receipt.seq else { return nil }
        return evidence
    }

    /// Begins a new history if the evidence still proves a loss: another hub on the same database may have begun one already.
    func renew(upon evidence: HubEvidence, at now: Timestamp) throws(DatabaseError) {
        try begin(.writing)
        if try proves(evidence) {
            // Once for a history: other devices show receipts of it long after.
            if evidence.position.epoch != state.epoch {
                try add(.elsewhere, epoch: evidence.position.epoch, tag: evidence.position.opening, by: evidence.device, at: now)
            }
            try renewEpoch(evidence.cause, by: evidence.device, at: now)
        }
        try commit()
    }

    private func proves(_ evidence: HubEvidence) throws(DatabaseError) -> Bool {
        guard evidence.position.epoch == state.epoch else {
            return evidence.cause == .receipt && !lineage.knowsHistory(of: evidence.position)
        }
        if !lineage.includes(evidence.position, head: state.head) { return true }
        guard let replica = evidence.replica else { return false }
        return try store.replica(evidence.device, replica)?.maxSeq ?? 0 < evidence.seq
    }

    /// The receipt that a device shows with its next requests, as of the answer's transaction.
    ///
    /// - Parameter head: The newest commit number of that transaction.
    func receipt(for caller: HubGate.Caller, seq: Int64, head: Int64) -> String? {
        caller.replica.map {
            Receipt(
                position: HubPosition(epoch: state.epoch, opening: state.opening, head: head), device: caller.device,
                replica: $0, seq: seq
            ).text(secret: state.secret)
        }
    }

    /// Records a change whose base version this history has not reached, without signed evidence. The change is treated as one of another
    /// history; an unsigned claim does not move the history of other devices.
    ///
    /// An `acked_seq` above the known one claims nothing: a device includes mutations in it that it withdrew unsent.
    func countClaim(_ device: DeviceID, version: Int64) {
        claims += 1
        // Once for a device: the next claim tells an operator nothing new.
        guard claimants.count < Hub.claimantsMax, claimants.insert(device).inserted else { return }
        notices.append(.unproved(device, version: version, head: state.head))
    }

    private static let claimantsMax = 1_000

    // MARK: Databases of devices that come back

    /// Returns whether a database of a device speaks again after another one has. It was then restored from an old copy, gets a new id, and
    /// has its outcomes settled.
    ///
    /// Two machines under one name do the same in turns, and must not make new ids forever. After ``returnsMax`` within ``returnWindow``
    /// they are accepted and reported as a clone (``twins(of:_:at:)``). A database with the newest receipt of its id is no old copy: the
    /// other one was copied from it, and both are reported at once.
    func isReturn(_ request: HubRequest, _ device: DeviceID, _ replica: ReplicaID, at now: Timestamp) throws(DatabaseError) -> Bool {
        if settings.ablations.contains(.returnIgnored) { return false }
        let view = try store.view(of: device, replica)
        guard let current = view.current, current != replica, let row = view.replicas[replica],
            view.returns(since: now.advanced(by: .zero - Hub.returnWindow)) < Hub.returnsMax
        else { return false }
        if isNewest(request, device, replica, row) {
            try store.recordTwins(device, [current, replica], at: now)
            return false
        }
        try store.countReturn(device, replica, at: now)
        notices.append(.returned(device, replica))
        return true
    }

    /// Returns whether the receipt is the last one that this database was given.
    private func isNewest(_ request: HubRequest, _ device: DeviceID, _ replica: ReplicaID, _ row: HubStore.ReplicaRow) -> Bool {
        guard let receipt = request.hubHeaders.receipt.flatMap({ Receipt.read($0, secret: state.secret) }) else {
            return false
        }
        return receipt.device == device && receipt.replica == replica && row.maxSeq > 0 && receipt.seq >= row.maxSeq
    }

    static let returnWindow: Duration = .seconds(30 * 86_400)
    static let returnsMax: Int64 = 3

    // MARK: Changes that were not offered yet

    /// The mutations, of records without a trace, that wait for the device that made the record.
    enum Offering {
        /// No mutation waits: the history is old enough, so a missing record was deleted.
        case over
        /// Mutations based on another history wait: this is the first history of the database.
        case ofForeign
        /// All mutations wait: a new history began less than ``Hub/Settings/offerTime`` ago.
        case ofAll
    }

    /// `true` when this is the first history of its database, as far as the database knows.
    package var beganFirstHistory: Bool { lineage.restart == nil }

    func offering(at now: Timestamp) -> Offering {
        if settings.ablations.contains(.unofferedIsDeleted) { return .over }
        guard let began = lineage.began, began.advanced(by: settings.offerTime) > now else { return .over }
        return lineage.restart == nil ? .ofForeign : .ofAll
    }

    // MARK: Repairs

    /// Reads the row of the hub, and the line of openings. A row that is missing, or behind its own records, was changed by hand. The hub
    /// then begins a new history above every commit number in use.
    static func load(
        _ store: HubStore, _ random: inout SeededRandom
    ) throws(DatabaseError) -> (row: HubStore.HubRow, lineage: HubLineage, notices: [HubNotice]) {
        if let row = try store.hub(), try store.newestCommit() <= row.head { return (row, try store.lineage(), []) }
        try store.database.begin(.writing)
        do throws(DatabaseError) {
            let newest = try store.newestCommit()
            var notices: [HubNotice] = []
            // When several hubs begin at once, one makes the row and all use it.
            let present = try store.hub()
            if present == nil || present.map({ newest > $0.head }) == true {
                var row =
                    present
                    ?? HubStore.HubRow(
                        epoch: "", secret: makeSecret(&random), head: 0, counters: HubCounters(), tokens: 0, opening: "")
                let before = row.epoch
                row.epoch = makeEpoch(&random)
                row.head = max(newest, try present == nil ? store.newestVerdict() : 0)
                if present == nil { try store.create(row) } else { try store.setEpoch(row.epoch, head: row.head) }
                let last = try store.lineage().entries.last
                if present != nil || row.head > 0 || last != nil {
                    try store.add(
                        HubLineage.Entry(
                            n: (last?.n ?? 0) + 1, epoch: row.epoch, tag: makeTag(&random), head: row.head, at: nil,
                            cause: .repaired))
                    notices.append(.newHistory(.repaired, from: before, to: row.epoch, head: row.head, device: nil))
                }
            }
            guard let row = try store.hub() else {
                throw DatabaseError(.foreign, doing: "read the hub's row", detail: "it is not there, and cannot be made")
            }
            let lineage = try store.lineage()
            try store.database.commit()
            return (row, lineage, notices)
        } catch {
            try? store.database.rollback()  // The failure itself is thrown; a connection that cannot roll back is given up.
            throw error
        }
    }

    static func makeSecret(_ random: inout SeededRandom) -> [UInt8] {
        var secret: [UInt8] = []
        for _ in 0..<4 { withUnsafeBytes(of: random.next().bigEndian) { secret.append(contentsOf: $0) } }
        return secret
    }

    private static func makeTag(_ random: inout SeededRandom) -> String {
        hexText(withUnsafeBytes(of: UInt32(truncatingIfNeeded: random.next()).bigEndian) { Array($0) })
    }

    static func makeEpoch(_ random: inout SeededRandom) -> String {
        hexText(withUnsafeBytes(of: random.next().bigEndian) { Array($0) })
    }
}

extension HubStore {
    /// The newest commit number that was ever answered. It reads all keys, so it is only for a hub that has lost its own row.
    func newestVerdict() throws(DatabaseError) -> Int64 {
        try database.number(database.spelling.keys.newest)
    }
}
