package import SyncCore
import SyncSQLite

extension Store {
    /// Records the hub's verdicts. Invariant: state, base, view, status, counters, clock and journal change together.
    ///
    /// Results for mutations that are not in flight are counted and ignored: a late or repeated answer changes nothing.
    ///
    /// - Parameters:
    ///   - next: Claims the following batch in the same transaction.
    ///   - writtenUnder: See ``EngineMemory/writtenUnder``; `nil`: as stored.
    package func applyResults(
        _ results: [PushResult], next: BatchLimits?, standing: HubStanding? = nil, writtenUnder: Set<String>? = nil, at now: Moment
    ) throws(StoreError) -> (summary: ResultsSummary, next: Batch?) {
        try transact(at: now) { () throws(StoreError) in
            try prepareForChange()
            if !results.isEmpty { markAnswered() }
            var pass = ResultsPass()
            let ordered = try inOrder(results)
            pass.shownAgain = try shownAgain(in: ordered)
            for result in ordered {
                try markLowered(by: result)
                try apply(result, &pass)
            }
            if let standing { try keep(standing) }
            if let writtenUnder { try keep(writtenUnder: writtenUnder) }
            return try finish(&pass, next: next, at: now)
        }
    }

    /// Writes the effects of the verdicts.
    func finish(
        _ pass: inout ResultsPass, next: BatchLimits?, at now: Moment
    ) throws(StoreError) -> (summary: ResultsSummary, next: Batch?) {
        try finalizeEvents(pass.doneEvents)
        pass.summary.offers = try offerAgain(Set(pass.accepted.map(\.seq)))
        for (rid, remote) in pass.unmet.sorted(by: { $0.key < $1.key }) {
            try applyRemote(remote.latest, of: rid, &pass.records, after: remote)
        }
        pass.unmet.removeAll()
        for (rid, seq) in pass.returned.sorted(by: { $0.key < $1.key }) { try returnLater(of: rid, after: seq) }
        for rid in pass.hasLeft.filter(\.value).keys.sorted() {
            if let row = pass.records[rid]?.row { try revoke(row, &pass.records) }
        }
        try finish(pass.records)
        for group in pass.groups { try refreshReadiness(ofGroup: group) }
        // Mutations that waited for these can go in the very next batch.
        try endTies()
        try closeAnswered()
        var batch: Batch?
        if let next { batch = try claimNext(next, &pass.summary.withheld) }
        pass.summary.retryAt = try retryAt(now)
        return (pass.summary, batch)
    }

    /// Sorts results in the order in which the mutations were made, whatever the order of the answer. Members of an atomic list share one
    /// version, and each is based on the result of the one before it.
    private func inOrder(_ results: [PushResult]) throws(StoreError) -> [PushResult] {
        let sorted = results.sorted { (UUIDv7.carried(in: $0.key.text) ?? .max) < (UUIDv7.carried(in: $1.key.text) ?? .max) }
        // A decision about a member of a list was sent in that member's place, perhaps before older mutations of its record.
        let hasJoined =
            try database.number(
                "SELECT 1 FROM mutation INDEXED BY mutation_joined WHERE seq > last_seq AND first_seq > 0 LIMIT 1") != nil
        guard hasJoined, results.count > 1 else { return sorted }
        var known: [(row: OutboxRow, result: PushResult)] = []
        var unknown: [PushResult] = []
        for result in sorted {
            let row = try UUIDv7.carried(in: result.key.text).flatMap { seq throws(StoreError) in try outboxRow(seq) }
            if let row { known.append((row, result)) } else { unknown.append(result) }
        }
        // The order of ``loadInFlight(_:at:)``.
        func turn(_ row: OutboxRow) -> (Int64, Int64, Int64) { (row.claim ?? -1, row.place ?? -1, row.seq) }
        known.sort { turn($0.row) < turn($1.row) }
        return try unitsInListOrder(known, \.row).map(\.result) + unknown
    }

    /// Mutations that were accepted with their record, where the next verdict about that record shows it again.
    private func shownAgain(in results: [PushResult]) throws(StoreError) -> Set<Int64> {
        guard results.count(where: { $0.shownRecord != nil }) > 1 else { return [] }
        var found: Set<Int64> = []
        var isShownNext: [Int64: Bool] = [:]
        for result in results.reversed() {
            guard let seq = UUIDv7.carried(in: result.key.text),
                let rid = try database.number("SELECT rid FROM mutation WHERE seq = ? AND state = 1", .int(seq))
            else { continue }
            let isShown = result.shownRecord != nil
            if isShown, isShownNext[rid] == true { found.insert(seq) }
            isShownNext[rid] = isShown
        }
        return found
    }

    private func apply(_ result: PushResult, _ pass: inout ResultsPass) throws(StoreError) {
        guard let row = try begin(result.key, &pass) else { return }
        switch result.verdict {
        case .accepted(let version, let serverID, let record, let merged):
            if let record, !merged.isEmpty { try keepLost(by: row, merged, RemoteSide(record)) }
            try accept(row, version: version, serverID: serverID, record: record, &pass)
            if let rid = row.rid, result.notes.hasLeft || record != nil { pass.hasLeft[rid] = result.notes.hasLeft }
        case .duplicate(.accepted, let current):
            try acceptDuplicate(row, current, &pass)
        case .duplicate(.rejected, let current):
            let unnamed = Problem("rejected", status: 422, detail: "the hub refused it before, and does not say why any more")
            try reject(row, result.notes.problem ?? unnamed, current: current, &pass)
        case .duplicate(.conflict, let current):
            try conflict(row, fields: result.notes.fields, current: current, &pass)
        case .conflict(let fields, let current):
            try conflict(row, fields: fields, current: current, &pass)
        case .rejected(let problem, let current):
            if let current, try isContained(row, in: problem) { return try acceptDuplicate(row, current, &pass) }
            try reject(row, problem, current: current, &pass)
        case .retry(let problem, let after):
            try sendBack(row, problem, after: after, &pass)
        }
    }

    /// The mutation that a verdict is about; `nil` when it is not in flight, which is counted.
    func begin(_ key: MutationKey, _ pass: inout ResultsPass) throws(StoreError) -> OutboxRow? {
        guard let row = try inFlightRow(key) else {
            pass.summary.unknown += 1
            return nil
        }
        if let rid = row.rid {
            try touch(rid, &pass.records)
            if pass.before[rid] == nil { pass.before[rid] = pass.records[rid]?.row }
        }
        if let group = row.group { pass.groups.insert(group) }
        return row
    }

    private func inFlightRow(_ key: MutationKey) throws(StoreError) -> OutboxRow? {
        guard let seq = UUIDv7.carried(in: key.text) else { return nil }
        return try database.first(
            "SELECT m.*, p.key FROM mutation m JOIN payload p ON p.seq = m.seq WHERE m.seq = ? AND m.state = 1", .int(seq)
        ) { row throws(StoreError) in
            row.text(OutboxRow.columnCount) == key.text ? OutboxRow(row) : nil
        } ?? nil
    }

    private func acceptDuplicate(_ row: OutboxRow, _ current: HubState, _ pass: inout ResultsPass) throws(StoreError) {
        // Before the mutation is marked as done: waiting mutations behind it treat its values as no news.
        if let rid = row.rid {
            try install(current, on: rid, &pass.records, absentIsGone: true)
            pass.records[rid]?.needsFold = true
        }
        try done(row, &pass)
    }

    // MARK: - Verdicts

    func accept(
        _ row: OutboxRow, version: Int64, serverID: String?, record: HubRecord?, _ pass: inout ResultsPass
    ) throws(StoreError) {
        guard let rid = row.rid, var touched = pass.records[rid] else {
            pass.countCommit(of: row)
            return try done(row, &pass)
        }
        if let serverID { touched.row.serverID = serverID }
        if record == nil, version > touched.row.baseVersion { pass.countCommit(of: row) }
        if let record {
            // Members of an atomic list share one version, and each shows the record after it. The last one counts.
            if record.version > touched.row.baseVersion || (row.group != nil && record.version == touched.row.baseVersion) {
                pass.records[rid] = touched
                try acceptAsShown(row, record, rid, &pass)
            } else {
                touched.needsFold = true
                pass.records[rid] = touched
            }
        } else {
            try acceptAsComputed(row, version: version, &touched)
            pass.records[rid] = touched
        }
        try done(row, &pass)
    }

    /// Rebases waiting mutations onto the record that the hub shows with an acceptance. If the record is what was computed here, they were
    /// made on it already. Otherwise they are rebased onto the hub's merge, once for all verdicts of the answer.
    private func acceptAsShown(
        _ row: OutboxRow, _ record: HubRecord, _ rid: Int64, _ pass: inout ResultsPass
    ) throws(StoreError) {
        guard var touched = pass.records[rid] else { return }
        let unmet = pass.unmet.removeValue(forKey: rid)
        // A base of an older history cannot be computed from.
        let content = touched.row.baseVersion < 0 ? nil : try content(row.seq)
        let parsed = touched.row.parsedBase
        let base = parsed.known
        guard let content, parsed.isReadable, content.action == .create || base != nil else {
            return try applyRemote(RemoteSide(record), of: rid, &pass.records, after: unmet)
        }
        if unmet == nil, let computed = Fold.apply(content, to: base), computed == record.data {
            observe(record.hlc)
            // Equal values in another spelling or order are no news, but they are shown from now on.
            if !computed.isSpelled(as: record.data) { touched.needsFold = true }
            try moveIntoBase(row, record.data.json, version: record.version, &touched)
            pass.records[rid] = touched
        } else if pass.shownAgain.contains(row.seq), content.action == .update {
            let remote = RemoteSide(record)
            pass.unmet[rid] = UnmetRemote(before: unmet?.before ?? touched.row, latest: remote, own: (unmet?.own ?? []) + [content])
            observe(record.hlc)
            touched.row.setBase(record.data.json, version: record.version, at: now.wall)
            touched.needsFold = true
            touched.source = .remote
            pass.records[rid] = touched
        } else {
            try applyRemote(RemoteSide(record), of: rid, &pass.records, after: unmet)
        }
    }

    /// Moves an applied mutation from the fold into the base. The hub applied this mutation and nothing else. If it was the first of the
    /// fold, the view stays the same.
    private func moveIntoBase(
        _ row: OutboxRow, _ base: String, version: Int64, _ touched: inout TouchedRecords.Touched
    ) throws(StoreError) {
        let wasFirst = try firstBlocking(of: touched.row.rid)?.seq == row.seq && !touched.needsFold
        let document = touched.row.document
        let isLowered = touched.row.isLowered
        touched.row.setBase(base, version: version, at: now.wall)
        // A result that was computed from a base that may say less may say less as well.
        if isLowered { touched.row.gen = MirrorRow.loweredGen }
        if wasFirst { touched.row.setView(document) } else { touched.needsFold = true }
    }

    /// Computes the hub's new document. That is possible because only this mutation changed the record at the hub.
    private func acceptAsComputed(
        _ row: OutboxRow, version: Int64, _ touched: inout TouchedRecords.Touched
    ) throws(StoreError) {
        guard let payload = try payload(row.seq), let content = payload.content(under: rules[names.entity(row.eid)]) else {
            // The row is damaged, and the hub has the sent content: only the hub knows the result.
            return try refetch(&touched)
        }
        // A base of an older history stays one until the hub lists the record again. The hub's merge of it with this mutation cannot be
        // computed here.
        if touched.row.baseVersion < 0, touched.row.base != nil {
            let isInBase = try isRequeued(row.seq)
            if !isInBase {
                guard let object = touched.row.parsedBase.known else { return try refetch(&touched) }
                touched.row.setBase(Fold.apply(content, to: object)?.json, version: -1, at: now.wall)
            }
            return touched.needsFold = true
        }
        let base = touched.row.base
        if content.action == .delete {
            // Version 0: the hub had no record to delete and keeps no trace of it.
            if version >= touched.row.baseVersion || version == 0 {
                touched.row.setBase(nil, version: max(version, touched.row.baseVersion), at: now.wall)
            }
            touched.needsFold = true
            return
        }
        // A base of this version or a newer one came by a pull and contains the mutation. Members of an atomic list are the exception: they
        // share one version, and the base is the result of the member before.
        let isNext = version > touched.row.baseVersion || (row.group != nil && version == touched.row.baseVersion)
        guard isNext else { return touched.needsFold = true }
        let computed: String?
        if base == nil, content.unset.isEmpty, content.operations.isEmpty, content.action == .create {
            computed = payload.data
        } else {
            let object = touched.row.parsedBase
            guard object.isReadable else { return try refetch(&touched) }
            computed = Fold.apply(content, to: object.known)?.json
        }
        // An update of a record that is not stored here: the next pull brings the whole record.
        guard let computed else { return touched.needsFold = true }
        try moveIntoBase(row, computed, version: version, &touched)
    }

    /// Records the values that the hub discarded in a merge. They are unknown for a ``PushResult/Verdict/duplicate(original:current:)``,
    /// which shows the present record and names no fields.
    private func keepLost(by row: OutboxRow, _ merged: [String], _ remote: RemoteSide) throws(StoreError) {
        let rules = rules[names.entity(row.eid)] ?? EntityRules()
        guard row.rid != nil, let payload = try payload(row.seq), let content = payload.content(under: rules) else { return }
        let lost = Rebase.lost(of: local(payload, content), merged: merged, in: remote.record?.data ?? [:], rules: rules)
        try keepLost(lost, of: payload, remote)
    }

    private func done(_ row: OutboxRow, _ pass: inout ResultsPass) throws(StoreError) {
        pass.summary.done += 1
        pass.accepted.append(row)
        var row = row
        row.problem = nil
        if row.rid == nil { pass.doneEvents.append(row) } else { try finalize(row, as: .done) }
    }

    /// Does the same as ``finalize(_:as:keptFor:)``, with one statement for each run of numbers.
    private func finalizeEvents(_ rows: [OutboxRow]) throws(StoreError) {
        for (eid, rows) in Dictionary(grouping: rows, by: \.eid) {
            let pruneAge = pruneAge(eid: eid)
            for run in Self.runs(of: rows.map(\.seq)) {
                try database.run(
                    "UPDATE mutation SET state = 6, prune_age = ?, problem = NULL WHERE seq BETWEEN ? AND ?",
                    .int(pruneAge), .int(run.lowerBound), .int(run.upperBound))
            }
        }
        for row in rows {
            ledger.move(from: row.ledgerGroup, to: .done)
            addTieEnd(row, now: .done)
        }
        if !rows.isEmpty { journal.add(.mutation(.done), rows.map(\.seq)) }
    }

    /// Opens a conflict for a mutation that the hub cannot decide. A person is shown the hub's fields, or those that the same rules find
    /// here. The rest of the mutation is decided now, so that the decision can carry it.
    private func conflict(
        _ row: OutboxRow, fields: [String], current: HubState, _ pass: inout ResultsPass
    ) throws(StoreError) {
        let entity = names.entity(row.eid)
        if !pass.summary.conflicted.contains(entity) { pass.summary.conflicted.append(entity) }
        guard let rid = row.rid, let before = pass.records[rid]?.row else { return try move(row, to: .conflicted) }
        pass.records[rid]?.needsFold = true
        pass.returned[rid] = min(pass.returned[rid] ?? .max, row.seq)
        let rules = rules[entity] ?? EntityRules()
        guard let payload = try payload(row.seq), let content = payload.content(under: rules) else {
            // The mutation is damaged; the fold will set it aside.
            try install(current, on: rid, &pass.records)
            return try move(row, to: .conflicted)
        }
        try install(current, on: rid, &pass.records, asked: fields.isEmpty ? content.fields : fields)
        let remote: RemoteSide =
            switch current {
            case .record(let record): RemoteSide(record)
            case .deleted(let version): RemoteSide(deletedIn: version)
            case .absent: RemoteSide(deletedIn: max(0, before.baseVersion))
            }
        let base = before.parsedBase
        var known = base.known
        var isKnown = base.isReadable && payload.baseVersion >= before.baseVersion
        if remote.record == nil {
            if let document = known {
                // The base is sent only with content that is made again.
                known = try withoutRequeued(before, document, from: row.seq, rules)
            } else if let kept = try keptDeleted(for: row.seq) {
                // A pull has brought the deletion before this verdict.
                (known, isKnown) = (kept, true)
            }
        } else if !isKnown, let seen = try seen(by: payload, of: rid, pass) {
            (known, isKnown) = (seen, true)
        }
        var hubSide = Rebase.HubSide(known: known, record: remote.record)
        hubSide.isLast = options.rest != nil
        hubSide.disputed = Set(fields)
        hubSide.isKnown = isKnown
        var outcome = Rebase.decide(local(payload, content), against: hubSide, rules: rules)
        let isFound = if case .isDisputed = outcome.verdict { true } else { false }
        if fields.isEmpty, !isFound {
            // The rules find no dispute here, but the hub has reported one.
            hubSide.disputed = Set(content.fields)
            outcome = Rebase.decide(local(payload, content), against: hubSide, rules: rules)
        }
        try keepLost(outcome.lost, of: payload, remote)
        var kind = ConflictKind.field
        var disputed = fields.filter { $0 != HubMerge.wholeRecord }
        if case .isDisputed(let found, let names) = outcome.verdict {
            (kind, disputed) = (found, names)
        } else if content.action == .delete {
            // The hub reports a conflict in which no field needs a decision here: then all fields of the record are in dispute.
            kind = .deleteUpdate
            disputed = remote.record?.data.names ?? []
        } else {
            outcome.content = content
        }
        let sides = sides(kind, disputed, payload, content, known: hubSide.known, remote, isKnown: hubSide.isKnown)
        try rewrite(payload, outcome.content, restingOn: remote.version)
        try forgetDeleted(for: row.seq)
        try openConflict(row, kind, sides, remoteVersion: remote.version, seen: payload.baseVersion)
    }

    /// The document that the author of a mutation saw, where an earlier verdict of the same answer has put the hub's document in the place
    /// of the base: the former base with the changes of this device that the hub has accepted since.
    ///
    /// - Returns: `nil` when it is unknown: the mutation was made on an older base, or a row is damaged.
    private func seen(by payload: Payload, of rid: Int64, _ pass: ResultsPass) throws(StoreError) -> JSONObject? {
        // A base of an older history contains changes that are offered again.
        guard let before = pass.before[rid], before.baseVersion >= 0, payload.baseVersion >= before.baseVersion else { return nil }
        let base = before.parsedBase
        guard base.isReadable else { return nil }
        var document = base.known
        for row in pass.accepted where row.rid == rid && row.seq < payload.seq {
            // A newer base may contain the change already.
            guard let made = try self.payload(row.seq), made.baseVersion >= before.baseVersion, let content = try content(row.seq) else {
                return nil
            }
            document = Fold.apply(content, to: document)
        }
        return document
    }

    func reject(
        _ row: OutboxRow, _ problem: Problem, current: HubState?, _ pass: inout ResultsPass
    ) throws(StoreError) {
        let isKept = options.ablations.contains(.rollbackSkipped)
        if isKept, let rid = row.rid, let content = try content(row.seq), let touched = pass.records[rid] {
            let object = touched.row.parsedBase.known
            pass.records[rid]?.row.setBase(
                Fold.apply(content, to: object)?.json, version: touched.row.baseVersion, at: now.wall)
        }
        var row = row
        row.problem = try namingParent(ofOlderHub(problem, row), of: row).stored
        try move(row, to: .rejected)
        pass.summary.rejected += 1
        guard let rid = row.rid else { return }
        let before = ledger.count(.rejected)
        if case .deleted(let version)? = current, version >= pass.records[rid]?.row.baseVersion ?? 0 {
            try rejectEdits(ofCreate: row, &pass.records)
        }
        pass.summary.rejected += Int(ledger.count(.rejected) - before)
        if let current, !isKept { try install(current, on: rid, &pass.records) }
        if options.ablations.contains(.laterEditsForgotten), let touched = pass.records[rid] {
            pass.records[rid]?.row.setView(touched.row.base)
            return
        }
        pass.records[rid]?.needsFold = true
        try rejectFollowers(of: row, &pass)
    }

    /// Translates the answer of an older hub, which calls a record deleted after it has refused the record's create.
    private func ofOlderHub(_ problem: Problem, _ row: OutboxRow) throws(StoreError) -> Problem {
        guard problem.code == "deleted", try refusedCreate(before: row) != nil else { return problem }
        return Problem("parent-rejected", status: 409, detail: "the mutation that creates the record was rejected")
    }

    func sendBack(
        _ row: OutboxRow, _ problem: Problem?, after: Duration?, _ pass: inout ResultsPass
    ) throws(StoreError) {
        var row = row
        row.problem = problem?.stored
        row.retries += 1
        if !Self.uncounted.contains(problem?.code ?? "") { row.attempts += 1 }
        if let rid = row.rid { pass.returned[rid] = min(pass.returned[rid] ?? .max, row.seq) }
        guard row.attempts < Int64(Limits.attempts) else {
            row.nextAge = age + Self.parkedFor.milliseconds
            return try move(row, to: .failed)
        }
        pass.summary.retried += 1
        // A mutation that waits for another one needs no delay of its own.
        if problem?.code == "blocked-by-earlier", let rid = row.rid, try lastBlocking(of: rid, before: row.seq) != nil {
            row.nextAge = nil
        } else if problem?.code == "dependency-missing", try isTied(row.seq) {
            row.nextAge = nil
        } else {
            row.nextAge = age + RetryDelay.after(row.retries, asked: after, using: &random).milliseconds
        }
        try move(row, to: .pending)
        if problem?.code == "dependency-missing" { try fallWithDependencies(of: row.seq) }
    }

    /// Problem codes that are not about this mutation itself. They do not count towards parking it.
    static let uncounted: Set<String> = [
        "busy", "dependency-missing", "blocked-by-earlier", "blob-missing", "not-attempted",
    ]
    /// Time after which a parked mutation is sent again, unless a person decides earlier.
    static let parkedFor: Duration = .seconds(86_400)

    // MARK: - Followers of a rejected create

    /// Rejects the mutations that follow a rejected create on the same record, up to its next create. An atomic list is rejected as a
    /// whole.
    func rejectFollowers(of row: OutboxRow, _ pass: inout ResultsPass) throws(StoreError) {
        let followers = try followers(of: row, in: pass.records)
        guard !followers.isEmpty else { return }
        let before = ledger.count(.rejected)
        let parent = try payload(row.seq)?.key ?? "\(row.seq)"
        for follower in followers { try rejectAlong(follower, with: parent, .refused, &pass.records) }
        pass.summary.rejected += Int(ledger.count(.rejected) - before)
    }

    /// Rejects the edits of a refused create before they meet the deletion of its record at the hub. Each of them alone could ask people
    /// about the deletion, and their decision would bring back a record without the content of its create.
    ///
    /// A deletion behind them meets the other one: it may take effect, and a later create may rest on it.
    func rejectEdits(ofCreate row: OutboxRow, _ records: inout TouchedRecords) throws(StoreError) {
        let followers = try followers(of: row, in: records, isGone: true)
        guard !followers.isEmpty else { return }
        let parent = try payload(row.seq)?.key ?? "\(row.seq)"
        for follower in followers {
            guard try action(of: follower.seq) == .update else { return }
            try rejectAlong(follower, with: parent, .refused, &records)
        }
    }
}

extension PushResult {
    /// The record that an acceptance carries.
    fileprivate var shownRecord: HubRecord? {
        if case .accepted(_, _, let record, _) = verdict { record } else { nil }
    }
}
