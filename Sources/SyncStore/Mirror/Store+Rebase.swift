import SyncCore
import SyncSQLite

// Every new document of the hub arrives here and is merged with the mutations that wait for its record (PROTOCOL C7).

/// The hub's side of a record as it arrived.
struct RemoteSide {
    var version: Int64
    /// The hub's record; `nil`: deleted.
    var record: HubRecord?
    /// Time of a deletion; a record carries its own.
    var hlc: String?
    /// The device that wrote the record last, or deleted it.
    var device: String?
    var author: String?

    init(_ record: HubRecord, device: String? = nil, author: String? = nil) {
        version = record.version
        self.record = record
        self.device = device
        self.author = author
    }

    init(deletedIn version: Int64) {
        self.version = version
    }

    init(_ deletion: StreamPage.Deletion, version: Int64) {
        self.init(deletedIn: version)
        (hlc, device, author) = (deletion.hlc, deletion.originDevice, deletion.originAuthor)
    }

    /// A field at the hub, with its author and time.
    func value(of field: String) -> ConflictSide.Value {
        let origin = record?.fieldOrigins?[field]?.object ?? record?.fieldOrigins?[HubMerge.wholeRecord]?.object
        let hlc = (record?.fieldHLC?[field]?.text ?? record?.hlc ?? hlc).flatMap { HybridTime($0) }
        var side = ConflictSide.Value(
            record?.data[field], isDeleted: record == nil, author: origin == nil ? author : origin?["author"]?.text,
            device: origin?["device"]?.text ?? device)
        // Zero marks a clock that was not trusted.
        if let hlc, hlc.milliseconds > 0 { side.at = Timestamp(milliseconds: Int64(clamping: hlc.milliseconds)) }
        side.version = version
        return side
    }
}

extension Store {
    /// Replaces the hub's document of a record. Invariant: every open mutation that was never sent is rebased onto it or set aside for a
    /// person. Nothing is dropped without a row in the audit trail.
    ///
    /// - Precondition: The record is in `records`.
    /// - Parameters:
    ///   - asked: Fields of a conflict that is about to open: no other mutation asks about them as well.
    ///   - unmet: Documents that are already in the base, but that waiting mutations have not been rebased onto.
    func applyRemote(
        _ remote: RemoteSide, of rid: Int64, _ records: inout TouchedRecords, asked: [String] = [], after unmet: UnmetRemote? = nil
    ) throws(StoreError) {
        guard var touched = records[rid] else { return }
        let before = unmet?.before ?? touched.row
        touched.row.setBase(remote.record?.data.json, version: remote.version, at: now.wall)
        touched.needsFold = true
        touched.source = .remote
        // A change of this device counts from now on: it can be undone, or offered again, as long as its row is here.
        let stamp = before.status == .synced ? remote.record?.hlc.flatMap { HybridTime($0) } : nil
        touched.changedAge = KeepRule.changedAt(stamp, wall: trustedWall, age: age)
        records[rid] = touched
        observe(remote.record?.hlc)
        for member in remote.record?.fieldHLC?.members ?? [] { observe(member.value.text) }
        guard before.status != .synced else { return }
        try rebase(rid, before: before, onto: remote, asked, own: unmet?.own ?? [], &records)
    }

    private func rebase(
        _ rid: Int64, before: MirrorRow, onto remote: RemoteSide, _ asked: [String], own: [MutationContent],
        _ records: inout TouchedRecords
    ) throws(StoreError) {
        let rules = rules[names.entity(before.eid)] ?? EntityRules()
        guard rules.kind == .record else { return }
        let base = before.parsedBase
        let known = base.known
        var hubSide = Rebase.HubSide(known: known, record: remote.record)
        hubSide.isLast = options.rest != nil
        hubSide.isTouched = remote.device.map { $0 != options.device.text } ?? false && remote.version > before.baseVersion
        // With a damaged base, the state that the mutations were made on is unknown.
        hubSide.isKnown = base.isReadable
        func addAsked(_ fields: [String]) {
            for field in fields { hubSide.asked[field, default: []].insert(remote.record?.data[field]) }
        }
        let canGiveWay = rules.keepsDeleted && options.rest == nil
        // The record was deleted and is back, so nothing is known of what the author of a waiting deletion had seen.
        let hasReturned = base.known == nil && before.baseVersion > 0 && remote.record != nil
        // Earlier mutations of this device may be at the hub already.
        var hasSent = false
        var written = known
        func addExpected(by content: MutationContent) {
            for member in content.data.members { hubSide.expected[member.name.text, default: []].insert(member.value) }
            for field in content.unset { hubSide.expected[field, default: []].insert(nil) }
            for operation in content.operations where operation.kind == .add { hubSide.expectedElements.insert(operation.elementName) }
            // A text with what this device has added to it: a later change that rewrites the text has seen the addition.
            written = Fold.apply(content, to: written)
            for operation in content.operations where operation.kind == .append && operation.path.isEmpty {
                if let text = written?[operation.top] { hubSide.expected[operation.top, default: []].insert(text) }
            }
            hasSent = true
        }
        // These fields go to the hub before a later mutation, unless people are asked about them.
        func addOverwritten(by content: MutationContent) { hubSide.overwritten.formUnion(content.fields.map { JSONString($0) }) }
        addAsked(asked)
        for content in own { addExpected(by: content) }
        var hasDeleted = false
        // The document that a create of this device makes which the hub has still to decide about.
        var made: JSONObject?
        try eachOpenMutation(of: rid) { open throws(StoreError) in
            guard let content = open.payload?.content(under: rules), var payload = open.payload else { return true }
            // The rejection of its atomic list may have ended it meanwhile.
            guard try outboxRow(open.row.seq)?.state == open.row.state else { return true }
            let isBlind = try isBlind(payload, content, before)
            // A deletion of a record whose document is not kept was made on a version alone, and the hub decides about it.
            // So it does about one that may give way, behind sent changes of the record: only the hub can tell these from the changes of
            // others, and they may bring the record back.
            // Edits behind a create that the hub has not decided about go with it, or fall with it.
            let isForHub =
                switch content.action {
                case .create: false
                case .update: made != nil && remote.record == nil
                case .delete: canGiveWay && (hasSent || hasReturned && payload.baseVersion < before.baseVersion)
                }
            let isFree = open.row.state == .pending && !open.row.isSent && !isBlind && before.stub == nil && !isForHub
            // Contests compare the time at which the mutation was made, which may be known by now.
            if isFree { try dateAnew(&payload) }
            var hasFallen = false
            if content.action == .create { made = isFree ? nil : Fold.apply(content, to: nil) }
            if hasDeleted {
                // The local deletion leaves nothing of the record, so later mutations are based on that.
                if isFree, remote.record == nil { try rewrite(payload, content, restingOn: remote.version) }
                return false
            }
            if open.row.state == .conflicted {
                // A field that was asked about is not asked about again for a later change.
                addAsked(try refresh(open.row, payload, content, before: before, remote, rules, &records))
                if remote.record == nil { return false }
            } else if !isFree {
                // Frozen: the hub decides about it. It may have it already, or is to find what its author had not seen.
                addExpected(by: content)
                addOverwritten(by: content)
                if remote.record == nil, content.action == .update {
                    // The hub may have made the record before it was deleted there.
                    var seen = made
                    // The base of an older history contains the changes that are offered again, and they are based on less than that.
                    if let document = base.known { seen = try withoutRequeued(before, document, from: open.row.seq, rules) }
                    if let seen { try keepDeleted(seen, for: open.row.seq, content) }
                }
            } else {
                let outcome = Rebase.decide(local(payload, content), against: hubSide, rules: rules)
                try apply(outcome, to: open.row, payload, content, known: known, remote, &records)
                switch outcome.verdict {
                case .stays: addOverwritten(by: outcome.content)
                case .isDisputed(_, let fields): addAsked(fields)
                case .isSuperseded, .isRejected: break
                }
                hasFallen = outcome.verdict.isRejected || outcome.verdict == .isSuperseded
                // It brings the record back, or people will be asked about it; later mutations are based on it.
                if remote.record == nil, outcome.content.action == .create, outcome.verdict != .isSuperseded,
                    !outcome.verdict.isRejected
                {
                    return false
                }
            }
            // Mutations after a local deletion are not based on the hub's document, unless the deletion gave way to it. Mutations after a
            // local create have seen only that create.
            hasDeleted = content.action == .delete && !(hasFallen && remote.record != nil)
            if content.action == .create, remote.record != nil, !hasFallen {
                hubSide.known = Fold.apply(content, to: nil)
                // If it brings the record back, they have also seen what the record was before.
                for member in content.base.members { hubSide.expected[member.name.text, default: []].insert(member.value) }
            }
            return true
        }
    }

    /// Returns whether it replaces a refused mutation and was made on an older version than the present one (`Store+Retry.swift`). A
    /// decision about a conflict is excepted, because its author has seen both sides.
    private func isBlind(_ payload: Payload, _ content: MutationContent, _ before: MirrorRow) throws(StoreError) -> Bool {
        guard payload.supersedes != nil, content.action != .create, payload.baseVersion < before.baseVersion else { return false }
        return try database.number("SELECT 1 FROM conflict WHERE rid = ? AND into_seq = ?", .int(before.rid), .int(payload.seq)) == nil
    }

    struct OpenMutation {
        var row: OutboxRow
        /// The stored mutation; `nil` when it is damaged.
        var payload: Payload?
    }

    /// All mutations of the record's fold, oldest first.
    func openMutations(of rid: Int64, after seq: Int64 = 0) throws(StoreError) -> [OpenMutation] {
        var found: [OpenMutation] = []
        try eachOpenMutation(of: rid, after: seq) { open throws(StoreError) in
            found.append(open)
            return true
        }
        return found
    }

    /// Visits the same mutations one by one, with few of them in memory at a time. A change that `body` makes is seen by later calls.
    ///
    /// - Parameter body: Returns whether to continue.
    func eachOpenMutation(
        of rid: Int64, after seq: Int64 = 0, _ body: (OpenMutation) throws(StoreError) -> Bool
    ) throws(StoreError) {
        var last = seq
        while true {
            let slice = try database.all(
                """
                SELECT p.*, m.* FROM mutation m JOIN payload p ON p.seq = m.seq
                WHERE m.rid = ? AND m.seq > ? AND m.state < 6 AND m.state <> 3 ORDER BY m.seq LIMIT ?
                """, .int(rid), .int(last), .int(Self.openSlice)
            ) { row throws(StoreError) in
                OpenMutation(
                    row: OutboxRow(row, at: Payload.columnCount),
                    payload: Payload.isSound(row, at: 0) ? Payload(row, at: 0) : nil)
            }
            for open in slice where try !body(open) { return }
            guard slice.count == Self.openSlice, let end = slice.last else { return }
            last = end.row.seq
        }
    }

    /// Mutations in memory at a time; 8 MB at their largest.
    private static let openSlice = 64

    func local(_ payload: Payload, _ content: MutationContent) -> Rebase.Local {
        Rebase.Local(
            record: RecordName(names.entity(payload.eid), payload.recordID), content: content,
            hlc: payload.clock == .unsynced ? nil : HybridTime(payload.hlc), hasSeenTime: payload.clock == .synced,
            signature: .init(
                author: payload.author, device: options.device, at: Timestamp(milliseconds: payload.createdMS),
                key: MutationKey(trusted: payload.key)))
    }

    private func apply(
        _ outcome: Rebase.Outcome, to row: OutboxRow, _ payload: Payload, _ content: MutationContent,
        known: JSONObject?, _ remote: RemoteSide, _ records: inout TouchedRecords
    ) throws(StoreError) {
        try keepLost(outcome.lost, of: payload, remote)
        switch outcome.verdict {
        case .stays: try rewrite(payload, outcome.content, restingOn: remote.version)
        case .isSuperseded:
            try finalize(row, as: .superseded, keptFor: try keptFor(row))
            if let group = row.group { try refreshReadiness(ofGroup: group) }
        case .isRejected(let problem):
            var row = row
            row.problem = problem.stored
            try move(row, to: .rejected)
            if let group = row.group { try rejectRest(of: group, &records) }
            if remote.record == nil { try rejectEdits(ofCreate: row, &records) }
        case .isDisputed(let kind, let fields):
            if options.ablations.contains(.conflictLosesLocal) { return try finalize(row, as: .superseded) }
            let sides = sides(kind, fields, payload, content, known: known, remote)
            try rewrite(payload, outcome.content, restingOn: remote.version)
            try openConflict(row, kind, sides, remoteVersion: remote.version, seen: payload.baseVersion)
            if let group = row.group { try refreshReadiness(ofGroup: group) }
        }
    }

    /// Rejects the other members of an atomic list: it fails as a whole.
    func rejectRest(of group: ClosedRange<Int64>, _ records: inout TouchedRecords) throws(StoreError) {
        var pass = ResultsPass()
        pass.records = records
        for member in try groupMembers(group) where member.state == .pending {
            // Read again, because a member that creates its record may have ended this one already.
            guard var member = try outboxRow(member.seq), member.state == .pending else { continue }
            member.problem = Self.groupRejected.stored
            try move(member, to: .rejected)
            guard let rid = member.rid else { continue }
            try touch(rid, &pass.records)
            pass.records[rid]?.needsFold = true
            try rejectFollowers(of: member, &pass)
        }
        records = pass.records
    }

    /// Both sides of the disputed fields.
    ///
    /// - Parameter isKnown: The mutation was made on `known`. Otherwise its base is unknown, except for a mutation that brings a record
    ///   back, which carries it.
    func sides(
        _ kind: ConflictKind, _ fields: [String], _ payload: Payload, _ content: MutationContent, known: JSONObject?,
        _ remote: RemoteSide, isKnown: Bool = true
    ) -> [ConflictSide] {
        let mine = Fold.apply(content, to: known)
        let bringsBack = content.action == .create && !content.base.isEmpty
        // After a deletion at the hub, all fields that were changed here are in dispute.
        var once: Set<JSONString> = []
        let shown = kind == .updateDelete ? content.fields.filter { once.insert(JSONString($0)).inserted } : fields
        return shown.map { field in
            let local = ConflictSide.Value(
                mine?[field], isDeleted: kind == .deleteUpdate, author: payload.author, device: options.device.text,
                at: Timestamp(milliseconds: payload.createdMS))
            let base = bringsBack ? content.base[field] : isKnown ? known?[field] : nil
            let shownBase = options.ablations.contains(.conflictLosesBase) ? nil : base
            return ConflictSide(field, base: shownBase, local: local, remote: remote.value(of: field))
        }
    }

    /// Sets a mutation aside for a person to decide.
    ///
    /// - Parameter seen: The version that its author had seen; the mutation itself rests on the hub's version from now on.
    func openConflict(
        _ row: OutboxRow, _ kind: ConflictKind, _ sides: [ConflictSide], remoteVersion: Int64, seen: Int64
    ) throws(StoreError) {
        guard let rid = row.rid else { return }
        var row = row
        var conflict = ConflictRow(of: row, rid, kind, sides, remoteVersion: remoteVersion, at: now.wall)
        conflict.addEvent("opened", at: now.wall, ["remote_version": .int(remoteVersion), "base_version": .int(seen)])
        row.problem =
            Problem(
                "conflict", status: 409, detail: "the hub has other values in: \(conflict.fieldWords)",
                members: ["fields": JSON.list(conflict.fields)]
            ).stored
        if row.state != .conflicted { try move(row, to: .conflicted) }
        conflict.cid = ledger.next(.nextConflict)
        try conflict.insert(into: database)
        addToJournal(conflict)
    }

    // MARK: - Open conflicts

    /// Updates the sides of an open conflict by the hub's new record, or lists it as moot when nothing is left to decide.
    ///
    /// - Returns: The fields that people are asked about from now on.
    private func refresh(
        _ row: OutboxRow, _ payload: Payload, _ content: MutationContent, before: MirrorRow, _ remote: RemoteSide,
        _ rules: EntityRules, _ records: inout TouchedRecords
    ) throws(StoreError) -> [String] {
        guard var conflict = try openConflict(ofSeq: row.seq) else { return [] }
        let base = before.parsedBase
        var known = base.known
        switch conflict.kind {
        case .updateDelete: known = nil
        case .field, .deleteUpdate: for side in conflict.sides { known?[side.field] = side.base }
        }
        var hubSide = Rebase.HubSide(known: known, record: remote.record)
        hubSide.isLast = options.rest != nil
        hubSide.isKnown = base.isReadable
        hubSide.disputed = conflict.kind == .updateDelete && remote.record != nil ? [] : Set(conflict.fields)
        if conflict.kind == .updateDelete { hubSide.disputed.insert(HubMerge.wholeRecord) }
        let outcome = Rebase.decide(local(payload, content), against: hubSide, rules: rules)
        try keepLost(outcome.lost, of: payload, remote)
        guard case .isDisputed(let kind, let fields) = outcome.verdict else {
            if case .stays = outcome.verdict { try rewrite(payload, outcome.content, restingOn: remote.version) }
            records.moot.append(.init(cid: conflict.cid, isEmpty: outcome.verdict == .isSuperseded))
            return []
        }
        var sides = sides(kind, fields, payload, content, known: known, remote)
        if kind == .updateDelete, conflict.kind == .updateDelete { sides = conflict.sides }
        try rewrite(payload, outcome.content, restingOn: remote.version)
        let old = Dictionary(conflict.sides.map { (JSONString($0.field), $0.local) }, uniquingKeysWith: { first, _ in first })
        for index in sides.indices {
            // Only the hub's side has changed; the author of the local side stays.
            if let local = old[JSONString(sides[index].field)] { sides[index].local = local }
        }
        let isNew = kind != conflict.kind || sides.map { [$0.remote.value] } != conflict.sides.map { [$0.remote.value] }
        conflict.kind = kind
        conflict.sides = sides
        conflict.remoteVersion = remote.version
        if isNew {
            conflict.state = .stale
            conflict.addEvent("remote_changed", at: now.wall, ["remote_version": .int(remote.version)])
        }
        try conflict.update(in: database)
        if isNew { addToJournal(conflict) }
        return conflict.fields
    }

    // MARK: - Traces

    /// Records lost values in the audit trail, in the transaction that drops them.
    func keepLost(_ lost: [Rebase.Loss], of payload: Payload, _ remote: RemoteSide) throws(StoreError) {
        let rules = rules[names.entity(payload.eid)] ?? EntityRules()
        for loss in lost {
            // A deletion follows the rule of the entity, not that of a field.
            let isWhole = [HubMerge.wholeRecord, HubMerge.restOfRecord].contains(loss.field)
            let rule = isWhole ? rules.onDeleted.rawValue : loss.strategy.rawValue
            var entry: JSONObject = [
                "field": .string(loss.field), "side": .string(loss.side.rawValue), "strategy": .string(rule),
                "mutation": .string(payload.key), "remote_version": .int(remote.version),
            ]
            if let value = loss.value { entry["value"] = value }
            if loss.side == .local, let author = payload.author { entry["author"] = .string(author) }
            try audit(
                "lost", "\(names.entity(payload.eid))/\(payload.recordID)", uid: UInt32(clamping: payload.uid), entry)
        }
    }

    /// Changes the content and the base of a mutation that was never sent. Its key stays.
    func rewrite(_ payload: Payload, _ content: MutationContent, restingOn version: Int64) throws(StoreError) {
        var changed = payload
        changed.setContent(content)
        changed.baseVersion = max(0, version)
        changed.action = content.action
        guard changed.contentDiffers(from: payload) else { return }
        let isSame =
            (changed.action, changed.data, changed.unset, changed.operations) == (
                payload.action, payload.data, payload.unset, payload.operations
            )
        if !isSame, payload.firstDigest == nil { changed.firstDigest = payload.digest(entity: names.entity(payload.eid)) }
        try rewrite(changed)
    }
}
