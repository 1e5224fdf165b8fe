import SyncCore
import SyncStore

/// The rules of outbox and mirror once more, in the plainest way: everything is computed from the whole list each time.
struct NaiveStore {
    struct Mutation {
        var seq: Int64
        var key: MutationKey
        /// `nil` for an event.
        var record: String?
        var content: MutationContent
        var state = MutationState.pending
        var priority: Priority
        var group: ClosedRange<Int64>?
        /// In its list: the `seq` that it was written with, or that of the member that it takes the place of.
        var place: Int64
        /// When it was claimed, among all that were.
        var turn = 0
        var isSent = false
        var isDelayed = false
        var attempts = 0
        /// The version of the record that it rests on.
        var baseVersion: Int64 = 0

        /// Mutations before it on its record have a lower `seq` than this.
        var front: Int64 { group?.lowerBound ?? seq }

        init(
            seq: Int64, key: MutationKey, record: String?, content: MutationContent, priority: Priority,
            group: ClosedRange<Int64>? = nil
        ) {
            (self.seq, self.key, self.record, self.content, self.priority, self.group) = (seq, key, record, content, priority, group)
            place = seq
        }
    }

    var turns = 0

    struct Record {
        var base: JSONObject?
        var version: Int64 = 0
    }

    /// A dispute: what both sides had seen in its fields.
    struct Conflict {
        var kind: ConflictKind
        var base: [String: JSON?]
    }

    /// Open conflicts by the seq of their mutation.
    var conflicts: [Int64: Conflict] = [:]
    /// Mutations in dispute of which nothing is left to decide.
    var moot: [Int64] = []
    var mutations: [Mutation] = []
    var records: [String: Record] = [:]

    func index(_ key: MutationKey) -> Int? { mutations.firstIndex { $0.key == key } }

    func open(_ record: String) -> [Mutation] { mutations.filter { $0.record == record && !$0.state.isTerminal } }

    func view(_ record: String) -> JSONObject? {
        Fold.view(base: records[record]?.base, mutations: open(record).filter(\.state.isFolded).map(\.content))
    }

    func status(_ record: String) -> RecordSnapshot.SyncStatus {
        let states = Set(open(record).map(\.state))
        if states.contains(.conflicted) { return .conflict }
        if !states.isDisjoint(with: [.rejected, .failed, .held]) { return .error }
        return states.isEmpty ? .synced : .pending
    }

    // MARK: - Enqueue

    mutating func add(
        _ enqueued: Enqueued, record: String?, _ content: MutationContent, _ priority: Priority, group: ClosedRange<Int64>? = nil
    ) {
        var mutation = Mutation(
            seq: enqueued.seq, key: enqueued.key, record: record, content: content, priority: priority, group: group)
        if let record, content.action != .update || !isMadeAnew(record) { mutation.baseVersion = records[record]?.version ?? 0 }
        mutations.append(mutation)
        raise()
    }

    /// Returns whether the newest changes of the record follow a creation after its deletion: they have not seen the hub's record.
    private func isMadeAnew(_ record: String) -> Bool {
        guard records[record]?.base != nil, let newest = open(record).last else { return false }
        if newest.content.action != .update || newest.baseVersion != 0 { return newest.content.action == .create }
        return open(record).contains { $0.state.isFolded && $0.content.action == .create }
    }

    /// Until nothing changes: the older ones of a record are at least as urgent as the younger, a list is of one urgency.
    mutating func raise() {
        var hasChanged = true
        while hasChanged {
            hasChanged = false
            for index in mutations.indices where Self.isUnsettled(mutations[index].state) {
                let mine = mutations[index]
                let demand = mutations.filter { other in
                    Self.isUnsettled(other.state)
                        && ((mine.record != nil && other.record == mine.record && other.seq > mine.seq)
                            || (mine.group != nil && other.group == mine.group))
                }.map(\.priority).min()
                if let demand, demand < mine.priority {
                    mutations[index].priority = demand
                    hasChanged = true
                }
            }
        }
    }

    private static func isUnsettled(_ state: MutationState) -> Bool { state == .pending || state == .inFlight }

    // MARK: - Claim

    /// The mutations that a claim must take, in order: chosen by priority and age, sent in the order of ``BatchPlace``. A mutation is not
    /// chosen when the batch would place it before another one that it must follow.
    func nextBatch(_ limits: BatchLimits) -> [Int64] {
        var taken: [Int64] = []
        while true {
            var units: [Int64: [Mutation]] = [:]
            for mutation in mutations where mutation.state == .pending && !taken.contains(mutation.seq) {
                units[mutation.group?.lowerBound ?? mutation.seq, default: []].append(mutation)
            }
            let free = units.values.filter { unit in
                unit.allSatisfy { isFree($0, taken: taken) } && unit[0].priority <= limits.leastPriority
                    && predecessors(of: unit).allSatisfy { place(of: $0) < place(of: unit) }
            }
            guard let next = free.min(by: { ($0[0].priority, $0[0].seq) < ($1[0].priority, $1[0].seq) }) else { break }
            if !taken.isEmpty, taken.count + next.count > limits.mutations { break }
            taken += next.map(\.seq)
        }
        let chosen = mutations.filter { taken.contains($0.seq) }
        return chosen.sorted { left, right in
            let (first, second) = (place(of: unit(of: left)), place(of: unit(of: right)))
            return first == second ? (left.place, left.seq) < (right.place, right.seq) : first < second
        }.map(\.seq)
    }

    private func unit(of mutation: Mutation) -> [Mutation] {
        mutation.group == nil ? [mutation] : mutations.filter { $0.group == mutation.group && $0.state == .pending }
    }

    /// The entities of the walk have no parents, so there is one rank.
    private func place(of unit: [Mutation]) -> BatchPlace {
        let places = unit.map { mutation in
            BatchPlace(
                priority: mutation.priority, action: mutation.content.action,
                entity: EntityName(trusted: mutation.record == nil ? "reading" : "audit"),
                seq: mutation.group?.lowerBound ?? mutation.seq, ranks: EntityRanks(RuleBook()))
        }
        return places.min()
            ?? BatchPlace(
                priority: .bulk, action: .delete, entity: EntityName(trusted: "none"), seq: .max, ranks: EntityRanks(RuleBook()))
    }

    /// The units that hold the newest mutation before each member, on the member's record.
    private func predecessors(of unit: [Mutation]) -> [[Mutation]] {
        unit.compactMap { member in
            mutations.last { older in
                older.record != nil && older.record == member.record && older.seq < member.front && older.state == .pending
                    && (member.group == nil || older.group != member.group)
            }.map { self.unit(of: $0) }
        }
    }

    private func isFree(_ mutation: Mutation, taken: [Int64]) -> Bool {
        let mates = mutations.filter { $0.group != nil && $0.group == mutation.group }
        return !mutation.isDelayed && !mates.contains { $0.isDelayed || $0.state.blocksItsRecord }
            && !mutations.contains { older in
                older.record != nil && older.record == mutation.record && older.seq < mutation.front
                    && (older.state == .pending || older.state.blocksItsRecord) && !taken.contains(older.seq)
                    && !(mutation.group?.contains(older.seq) ?? false)
            }
    }

    mutating func claim(_ seqs: [Int64]) {
        for seq in seqs {
            guard let index = mutations.firstIndex(where: { $0.seq == seq }) else { continue }
            mutations[index].state = .inFlight
            mutations[index].isSent = true
            turns += 1
            mutations[index].turn = turns
        }
    }

    // MARK: - Answers

    mutating func apply(_ results: [PushResult]) {
        var returned: [String: Int64] = [:]
        let before = records
        var accepted: [String: [Mutation]] = [:]
        for result in results {
            guard let index = index(result.key), mutations[index].state == .inFlight else { continue }
            let mutation = mutations[index]
            switch result.verdict {
            case .accepted, .duplicate: if let name = mutation.record { accepted[name, default: []].append(mutation) }
            case .conflict, .rejected, .retry: break
            }
            switch result.verdict {
            case .accepted(let version, _, let record, _):
                // The mutations behind it have seen what it wrote, so its content is no news to them.
                defer { mutations[index].state = .done }
                guard let name = mutation.record, version > records[name]?.version ?? 0 else { break }
                if let record {
                    install(.record(record), name)
                    break
                }
                let computed = Fold.apply(mutation.content, to: records[name]?.base)
                if computed != nil || mutation.content.action == .delete {
                    records[name] = Record(base: computed, version: version)
                }
            case .duplicate(_, let current):
                // The mutations behind it have seen what it wrote, so its content is no news to them.
                if let name = mutation.record { install(current, name) }
                mutations[index].state = .done
            case .conflict(let fields, let current):
                if let name = mutation.record {
                    let known = records[name]
                    install(current, name, asked: fields)
                    dispute(
                        index, fields, current, known: known?.base, version: known?.version ?? 0, before: before[name] ?? Record(),
                        accepted[name] ?? [])
                    returned[name] = min(returned[name] ?? .max, mutation.seq)
                }
                mutations[index].state = .conflicted
            case .rejected(_, let current):
                mutations[index].state = .rejected
                if let name = mutation.record, let current {
                    if case .deleted(let version) = current, version >= records[name]?.version ?? 0 { takeEditsAlong(mutation) }
                    install(current, name)
                }
                takeAlong(mutation, .rejected)
            case .retry(let problem, _):
                // Being blocked by an earlier one neither counts nor asks for a wait of its own, if that one is here.
                let isBlocked = problem?.code == "blocked-by-earlier"
                let hasEarlier = mutations.contains {
                    $0.record != nil && $0.record == mutation.record && $0.seq < mutation.seq
                        && ($0.state == .pending || $0.state.blocksItsRecord)
                }
                if !isBlocked { mutations[index].attempts += 1 }
                mutations[index].state = mutations[index].attempts >= Limits.attempts ? .failed : .pending
                mutations[index].isDelayed = mutations[index].state == .pending && !(isBlocked && hasEarlier)
                if let name = mutation.record { returned[name] = min(returned[name] ?? .max, mutation.seq) }
            }
        }
        for index in mutations.indices {
            guard let name = mutations[index].record, let seq = returned[name] else { continue }
            if mutations[index].state == .inFlight, mutations[index].seq > seq { mutations[index].state = .pending }
        }
        raise()
    }

    private mutating func install(_ current: HubState, _ name: String, asked: [String] = []) {
        let known = records[name] ?? Record()
        switch current {
        case .record(let record) where record.version > known.version:
            records[name] = Record(base: record.data, version: record.version)
            rebase(name, known: known.base, onto: record, asked)
        case .deleted(let version) where version > known.version || (version == known.version && known.base != nil):
            records[name] = Record(base: nil, version: version)
            rebase(name, known: known.base, onto: nil, asked)
        default: break
        }
    }

    // MARK: - Rebase

    private func local(_ mutation: Mutation) -> Rebase.Local {
        Rebase.Local(
            record: TestAgent.name(mutation.record ?? ""), content: mutation.content,
            hlc: HybridTime(milliseconds: 1, counter: 0, node: "1"),
            signature: .init(device: DeviceID(trusted: "gw-17"), at: Timestamp(milliseconds: 0), key: mutation.key))
    }

    /// Rebases the mutations that wait for the record, one after the other, on the hub's present document.
    private mutating func rebase(_ name: String, known: JSONObject?, onto remote: HubRecord?, _ asked: [String]) {
        var hubSide = Rebase.HubSide(known: known, record: remote)
        func addAsked(_ fields: [String]) {
            for field in fields { hubSide.expected[field, default: []].insert(remote?.data[field]) }
        }
        addAsked(asked)
        var hasSentCreate = false
        for index in mutations.indices where mutations[index].record == name && mutations[index].state.isFolded {
            let mutation = mutations[index]
            let isFree = mutation.state == .pending && !mutation.isSent
            if mutation.content.action == .create { hasSentCreate = !isFree }
            if mutation.state == .conflicted {
                refresh(index, known: known, onto: remote)
                addAsked(mutation.content.fields)
                if remote == nil { break }
            } else if !isFree || mutation.content.action == .update && hasSentCreate && remote == nil {
                for member in mutation.content.data.members { hubSide.expected[member.name.text, default: []].insert(member.value) }
            } else {
                let outcome = Rebase.decide(local(mutation), against: hubSide, rules: EntityRules())
                switch outcome.verdict {
                case .stays:
                    mutations[index].content = outcome.content
                    mutations[index].baseVersion = records[name]?.version ?? 0
                    if remote == nil { return }
                case .isSuperseded: mutations[index].state = .superseded
                case .isRejected:
                    mutations[index].state = .rejected
                    for mate in mutations.indices
                    where mutations[mate].state == .pending && mutation.group != nil && mutations[mate].group == mutation.group {
                        mutations[mate].state = .rejected
                        takeAlong(mutations[mate], .rejected)
                    }
                    if remote == nil { takeEditsAlong(mutation) }
                case .isDisputed: preconditionFailure("no field here is for people to decide")
                }
            }
            if mutation.content.action == .delete { break }
        }
    }

    private mutating func refresh(_ index: Int, known: JSONObject?, onto remote: HubRecord?) {
        let mutation = mutations[index]
        guard let conflict = conflicts[mutation.seq] else { return }
        var known = known
        if conflict.kind == .updateDelete { known = nil } else { for (field, base) in conflict.base { known?[field] = base } }
        var hubSide = Rebase.HubSide(known: known, record: remote)
        hubSide.disputed = conflict.kind == .updateDelete && remote != nil ? [] : Set(conflict.base.keys)
        if conflict.kind == .updateDelete { hubSide.disputed.insert(HubMerge.wholeRecord) }
        let outcome = Rebase.decide(local(mutation), against: hubSide, rules: EntityRules())
        guard case .isDisputed(let kind, let fields) = outcome.verdict else {
            if outcome.verdict == .stays { mutations[index].content = outcome.content }
            moot.append(mutation.seq)
            return
        }
        mutations[index].content = outcome.content
        if kind == .updateDelete, conflict.kind == .updateDelete { return }
        let shown = kind == .updateDelete ? mutation.content.fields : fields
        conflicts[mutation.seq] = Conflict(kind: kind, base: Dictionary(shown.map { ($0, known?[$0]) }, uniquingKeysWith: { a, _ in a }))
    }

    /// - Parameters:
    ///   - before: The record before the answer.
    ///   - accepted: The mutations of the record that the answer has accepted so far.
    private mutating func dispute(
        _ index: Int, _ fields: [String], _ current: HubState, known: JSONObject?, version: Int64, before: Record, _ accepted: [Mutation]
    ) {
        let mutation = mutations[index]
        var remote: HubRecord?
        if case .record(let record) = current { remote = record }
        var hubSide = Rebase.HubSide(known: known, record: remote)
        hubSide.disputed = Set(fields)
        hubSide.isKnown = mutation.baseVersion >= version
        // Where the answer itself has brought a newer document, the author saw the one before it with the device's own changes.
        let earlier = accepted.filter { $0.seq < mutation.seq }.map(\.content)
        if !hubSide.isKnown, remote != nil, mutation.baseVersion >= before.version,
            let seen = Fold.view(base: before.base, mutations: earlier)
        {
            (hubSide.known, hubSide.isKnown) = (seen, true)
        }
        let outcome = Rebase.decide(local(mutation), against: hubSide, rules: EntityRules())
        var kind = ConflictKind.field
        var disputed = fields
        if case .isDisputed(let found, let names) = outcome.verdict {
            (kind, disputed) = (found, names)
            mutations[index].content = outcome.content
        } else if mutation.content.action == .delete {
            (kind, disputed) = (.deleteUpdate, remote?.data.names ?? [])
        }
        conflicts[mutation.seq] = Conflict(
            kind: kind, base: Dictionary(disputed.map { ($0, hubSide.isKnown ? hubSide.known?[$0] : nil) }, uniquingKeysWith: { a, _ in a })
        )
    }

    /// A record that will not be created takes along what waits for it, up to its next creation; lists fall as a whole.
    mutating func takeAlong(_ first: Mutation, _ state: MutationState) {
        var work = [first]
        while let refused = work.popLast() {
            guard let name = refused.record, refused.content.action == .create, records[name]?.base == nil else { continue }
            for index in mutations.indices where mutations[index].record == name && mutations[index].seq > refused.seq {
                guard mutations[index].state == .pending else { continue }
                if mutations[index].content.action == .create { break }
                let group = mutations[index].group
                for mate in mutations.indices
                where mutations[mate].state == .pending && (mate == index || (group != nil && mutations[mate].group == group)) {
                    mutations[mate].state = state
                    work.append(mutations[mate])
                }
            }
        }
    }

    /// The edits of a refused create, up to a deletion, fall before they meet the deletion of the record at the hub.
    private mutating func takeEditsAlong(_ create: Mutation) {
        guard create.content.action == .create else { return }
        for index in mutations.indices where mutations[index].record == create.record && mutations[index].seq > create.seq {
            guard mutations[index].state == .pending else { continue }
            guard mutations[index].content.action == .update else { return }
            let group = mutations[index].group
            for mate in mutations.indices
            where mutations[mate].state == .pending && (mate == index || (group != nil && mutations[mate].group == group)) {
                mutations[mate].state = .rejected
                takeAlong(mutations[mate], .rejected)
            }
        }
    }

    mutating func pull(_ name: String, _ version: Int64, _ data: JSONObject?) {
        // A record that a verdict left out comes back in the version that it had.
        if data != nil, let known = records[name], known.base == nil, known.version == version { records[name]?.version -= 1 }
        install(data.map { .record(HubRecord(version: version, data: $0)) } ?? .deleted(version: version), name)
    }
}
