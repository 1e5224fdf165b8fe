import SyncCore

/// Decides about one change of one record of the model.
struct RuleDecision {
    let change: RuleModel.Change
    var rules: EntityRules
    /// The record after the change; `nil`: unchanged.
    private(set) var result: RuleModel.State?

    private var record = RuleModel.Record()
    /// The author did not know the record and creates one that exists.
    private var isBlind = false
    private var merged: Set<String> = []
    private var lost: [RuleModel.Lost] = []
    private var open: Set<String> = []
    /// Time of the part under way. A field or an operation may be older than the whole change.
    private var at: HybridTime
    private var whole: HybridTime
    private var content: MutationContent

    init(_ change: RuleModel.Change, _ rules: EntityRules) {
        (self.change, self.rules) = (change, rules)
        content = change.mutation.content
        whole = Self.trusted(change.mutation.hlc, of: change)
        at = whole
        // A set has each element once.
        for (field, rule) in rules.fields where rule == .set {
            let path = self.path(of: field)
            guard case .some(let value?) = content.data.plainMember(path), let elements = value.array,
                case let once = PlainValue.once(elements), once.count < elements.count
            else { continue }
            content.data = content.data.settingPlainMember(path, .array(once))
            merged.insert(path[0])
        }
    }

    /// An untrusted clock counts as earlier than all others; an absurd one gets the hub's time.
    private static func trusted(_ sent: HybridTime, of change: RuleModel.Change) -> HybridTime {
        if change.mutation.clock == .unsynced { return HybridTime(milliseconds: 0, counter: 0, node: sent.node) }
        let limit = UInt64(clamping: change.now.advanced(by: .seconds(300)).milliseconds)
        guard sent.milliseconds > limit else { return sent }
        return HybridTime(milliseconds: UInt64(clamping: change.now.milliseconds), counter: 0, node: sent.node)
    }

    private func time(_ part: HybridTime?) -> HybridTime {
        guard let part, change.mutation.clock != .unsynced else { return whole }
        return Self.trusted(part, of: change)
    }

    // MARK: Who has seen what

    private var write: RuleModel.Write { .init(version: change.commit, device: change.device, at: at) }

    /// A device has always seen its own writes.
    private func isUnseen(_ write: RuleModel.Write) -> Bool {
        write.device != change.device && write.version > (isBlind ? 0 : change.mutation.baseVersion)
    }

    private func isUnseen(_ writes: [RuleModel.Write]?) -> Bool { writes?.contains { isUnseen($0) } ?? false }

    private func rule(of field: String) -> FieldStrategy {
        if rules.criticalFields.contains(field) { return .manual }
        return switch rules.strategy {
        case .lww: .lww
        case .server: .server
        case .client: .client
        case .manual: .manual
        case .fields: rules.fields[field] ?? .lww
        }
    }

    private func addsUp(_ rule: FieldStrategy) -> Bool { [.append, .counter, .set, .max, .min].contains(rule) }

    /// `form.count` is a member where `form` is merged.
    private func path(of name: String) -> [String] {
        let names = name.split(separator: ".", omittingEmptySubsequences: false).map { String($0) }
        for end in 1..<max(2, names.count) where end < names.count {
            let top = names[..<end].joined(separator: ".")
            if rule(of: top) == .merge { return [top] + names[end...] }
        }
        return [name]
    }

    private func accepted(_ state: RuleModel.State?) -> RuleModel.Verdict {
        .accepted(merged: merged, lost: lost)
    }

    // MARK: Records that are there

    mutating func update(_ record: RuleModel.Record) -> RuleModel.Verdict {
        self.record = record
        return fields()
    }

    /// A device that lost its memory and creates the same record again gets the first answer again.
    mutating func createExisting(_ record: RuleModel.Record) -> RuleModel.Verdict {
        var fresh = self
        let isOwn = record.fields.values.allSatisfy { $0.by.last?.device == change.device }
        if isOwn, case .accepted = fresh.createFresh(), case .record(let again)? = fresh.result, again.document == record.document {
            return accepted(nil)
        }
        self.record = record
        isBlind = true
        return fields()
    }

    mutating func delete(_ record: RuleModel.Record) -> RuleModel.Verdict {
        // A lost value with writes of other devices is reported. A value that this device had overwritten was reported then.
        let foreign = Set(record.fields.filter { isUnseen($0.value.by) }.keys)
        var unseen = foreign
        var isTouched = record.changes.last.map { isUnseen($0.write) && $0.write.device != .hub } ?? false
        // This also holds for values that this device has overwritten since, unless it had seen them by then.
        let seen = record.seen[change.device] ?? [:]
        for past in record.changes where isUnseen(past.write) {
            let fields = past.fields.filter { past.write.version > seen[$0] ?? 0 }
            unseen.formUnion(fields)
            isTouched = isTouched || (past.write.device != .hub && !fields.isEmpty)
        }
        if isTouched || !unseen.isEmpty {
            switch ending(touching: unseen) {
            case .manual: return .conflict([RuleModel.wholeRecord])
            case .updateWins:
                merged.insert(RuleModel.wholeRecord)
                lose(RuleModel.wholeRecord, nil)
                return accepted(nil)
            case .deleteWins: break
            }
        }
        for field in foreign.sorted() { if let value = record.fields[field]?.value { lose(field, value) } }
        let kept = rules.onDeleted == .deleteWins ? nil : record
        result = .deleted(RuleModel.Tombstone(write: write, since: change.now, kept: kept))
        return accepted(result)
    }

    /// A record that was created and deleted before it was ever sent is deleted at the hub, too.
    mutating func deleteUnknown() -> RuleModel.Verdict {
        result = .deleted(RuleModel.Tombstone(write: write, since: change.now, kept: nil))
        return accepted(result)
    }

    /// The rule for a deletion and a change that have not seen each other.
    private func ending(touching fields: Set<String>) -> EntityRules.OnDeleted {
        if rules.onDeleted == .updateWins { return .updateWins }
        return fields.contains { rule(of: $0) == .manual } ? .manual : rules.onDeleted
    }

    private var touched: Set<String> { Set(content.data.names + content.unset + content.operations.map { path(of: $0.field)[0] }) }

    // MARK: Records that are gone

    mutating func updateDeleted(_ tombstone: RuleModel.Tombstone?) -> RuleModel.Verdict {
        switch ending(touching: touched) {
        case .manual: return .conflict([RuleModel.wholeRecord])
        case .deleteWins: return .rejected("deleted")
        case .updateWins: break
        }
        if tombstone != nil { lose(RuleModel.wholeRecord, nil) }
        if let kept = tombstone?.kept {
            let verdict = update(kept)
            if case .conflict = verdict { return .conflict([RuleModel.wholeRecord]) }
            return verdict
        }
        merged.insert(RuleModel.restOfRecord)
        lose(RuleModel.restOfRecord, nil)
        return createFresh()
    }

    /// A create that knew of the deletion makes a new record. One that did not, or that states its base, restores the old one.
    mutating func createOver(_ tombstone: RuleModel.Tombstone?) -> RuleModel.Verdict {
        let isNews = tombstone.map { isUnseen($0.write) } ?? false
        if isNews {
            switch ending(touching: touched) {
            case .manual: return .conflict([RuleModel.wholeRecord])
            case .deleteWins: return .rejected("deleted")
            case .updateWins: break
            }
        }
        guard let tombstone, isNews || !content.base.isEmpty else { return createFresh() }
        lose(RuleModel.wholeRecord, nil)
        guard let kept = tombstone.kept else { return createFresh() }
        var attempt = self
        (attempt.record, attempt.isBlind) = (kept, true)
        var verdict = attempt.fields()
        if case .conflict(let fields) = verdict {
            // A device that restores a record has decided without seeing its content, so the verdict carries the content.
            attempt = self
            (attempt.record, attempt.isBlind) = (kept, true)
            attempt.rules.strategy = .fields
            for field in fields {
                attempt.rules.criticalFields.removeAll { $0 == field }
                attempt.rules.fields[field] = .client
            }
            verdict = attempt.fields()
        }
        self = attempt
        return verdict
    }

    private mutating func createFresh() -> RuleModel.Verdict {
        record = RuleModel.Record()
        var document = content.data
        for field in content.unset { document[field] = nil }
        for operation in content.operations {
            let path = path(of: operation.field)
            guard let found = document.plainMember(path), let new = PlainValue.operated(operation.kind, found, operation.value) else {
                return .rejected("validation")
            }
            if operation.kind != .remove || found != nil { document = document.settingPlainMember(path, new) }
        }
        for member in document.members {
            var field = RuleModel.Field(value: member.value, by: [write], at: firstTime(of: member.name))
            field.othersAt = content.data[member.name.text] == nil ? nil : time(content.stamps[member.name])
            for operation in content.operations
            where path(of: operation.field).count > 1 && path(of: operation.field)[0] == member.name.text {
                field.memberTimes[operation.field] = max(time(operation.hlc), field.memberTimes[operation.field] ?? time(operation.hlc))
            }
            for (name, stamp) in content.stamps where path(of: name.text).count > 1 && path(of: name.text)[0] == member.name.text {
                field.memberTimes[name.text] = max(time(stamp), field.memberTimes[name.text] ?? time(stamp))
            }
            record.fields[member.name.text] = field
        }
        // The removal of a field that was coalesced into a create counts as a write of the field.
        for field in content.unset where document[field] == nil && change.mutation.content.action == .create {
            record.fields[field] = RuleModel.Field(value: JSON?.none, by: [write], at: at)
        }
        for operation in content.operations where operation.kind == .add {
            var put = write
            put.at = time(operation.hlc)
            record.elements[operation.field, default: [:]][PlainValue.key(operation.value)] = [put]
        }
        return conclude(over: [:])
    }

    /// The latest time at which the change touches a field of a record that did not exist.
    private func firstTime(of name: JSONString) -> HybridTime {
        var times = content.data.members.contains { $0.name == name } || content.stamps[name] != nil ? [time(content.stamps[name])] : []
        times += content.operations.filter { JSONString(path(of: $0.field)[0]) == name }.map { time($0.hlc) }
        return times.max() ?? whole
    }

    // MARK: Fields

    private mutating func fields() -> RuleModel.Verdict {
        let before = record.document
        for member in content.data.members where !content.unset.contains(member.name.text) { assign(member.name.text, member.value) }
        for field in content.unset { assign(field, JSON?.none) }
        if isBlind {
            // The create removes the fields of its base that it does not carry any more.
            for field in content.base.names where content.data[field] == nil && !touched.contains(field) && before[field] != nil {
                assign(field, JSON?.none)
            }
        }
        at = whole
        let present = record.fields
        defer { at = whole }
        for operation in content.operations { guard operate(operation, present) else { return .rejected("validation") } }
        guard open.isEmpty else { return .conflict(open) }
        return conclude(over: before)
    }

    private mutating func overwrite(_ field: String, _ value: JSON?) {
        let old = record.fields[field]
        let latest = max(old?.at ?? at, at)
        record.fields[field] = RuleModel.Field(value: value, by: [write], at: latest)
    }

    private mutating func assign(_ field: String, _ value: JSON?) {
        at = time(content.stamps[JSONString(field)])
        let old = record.fields[field]
        let present = old?.value
        let rule = rule(of: field)
        let base = content.base[field]
        // Two equal counts are two counts, and both are added.
        let isCount = isBlind && rule == .counter && value != base
        let areMembers = rule == .merge && (base != nil || isBlind) && value?.object != nil && present?.object != nil
        var same = RuleContest(self) { _ in false }
        let isMore =
            if areMembers, present == value, case .both = same.decide(field, rule, value, value, .value(base)) { true } else { false }
        if isBlind, let base, old != nil {
            // A restored value is no statement about the field, even if another device has removed it. Another spelling of it is one. A
            // present value that its author had seen may be overwritten.
            if base == value, value != present || value.map({ PlainValue.text($0) }) == PlainValue.text(base) { return }
            if base == present, !areMembers { return overwrite(field, value) }
        }
        if present == value, !isCount, !isMore {
            writeAgain(field, value)
            return areMembers ? recordWriters(same.taken, of: field, over: old) : ()
        }
        let isNews = isUnseen(old?.by) || (isBlind && old != nil && addsUp(rule))
        let seen: RuleContest.Seen =
            if let base { .value(base) } else if isBlind { .value(JSON?.none) } else {
                rule == .set ? seenElements(field, value, old) : .unknown
            }
        guard isNews || isCompared(rule, present, value, base) else { return overwrite(field, value) }
        // Earlier writes of the same device precede the create.
        let isLater = old.map { at > $0.at && change.mutation.clock != .unsynced || (isBlind && !isNews) } ?? true
        let isTimed = change.mutation.clock != .unsynced
        let isOwn = old == nil || (isBlind && !isNews)
        let mine = areMembers ? self : nil
        var contest = RuleContest(self) { place in
            guard let mine, let old, !isOwn else { return isLater }
            return isTimed && mine.time(ofMember: place) > old.time(ofMember: place)
        }
        let outcome = contest.decide(field, rule, value, present, seen)
        // A field that was never written has no loss to report.
        let isTold = old != nil && (isNews || (base != nil && rule == .merge))
        for loser in contest.losers where loser.isMine || isTold { lose(loser.field, loser.value) }
        switch outcome {
        case .mine: overwrite(field, value)
        case .theirs: merged.insert(field)
        case .open: open.insert(field)
        case .both(let united):
            overwrite(field, united)
            guard united != value else { break }
            merged.insert(field)
            hold(old, field)
        }
        if areMembers { recordWriters(contest.taken, of: field, over: old) }
    }

    /// Time at which this change wrote a member: its own time, or that of an object around it.
    private func time(ofMember place: String) -> HybridTime {
        let named = content.stamps.filter { place == $0.key.text || place.hasPrefix($0.key.text + ".") && $0.key.text.contains(".") }
        return named.values.map { time($0) }.max() ?? at
    }

    private mutating func recordWriters(_ written: [String], of field: String, over old: RuleModel.Field?) {
        guard let old else { return }
        var times = old.memberTimes
        for place in written { times[place] = max(time(ofMember: place), old.time(ofMember: place)) }
        record.fields[field]?.memberTimes = times
        record.fields[field]?.othersAt = old.othersAt ?? old.at
    }

    /// Writes the present value once more. This counts as a write at the later of both times, and takes the spelling of the later writer.
    private mutating func writeAgain(_ field: String, _ value: JSON?) {
        guard let old = record.fields[field] else {
            record.fields[field] = RuleModel.Field(value: JSON?.none, by: [write], at: at)
            return
        }
        let isNews = isUnseen(old.by), isLater = at > old.at && change.mutation.clock != .unsynced
        let rule = rule(of: field)
        if value != nil, !isNews || rule == .client || (rule != .server && isLater) { record.fields[field]?.value = value }
        if !isNews || isLater {
            overwrite(field, record.fields[field]?.value)
            if isNews { hold(old, field) }
            return
        }
        // The later word stays. A device that has not seen both writes gets news.
        guard var newest = old.by.last else { return }
        newest.version = change.commit
        let own = newest.device == change.device ? [] : [write]
        record.fields[field]?.by = old.by.dropLast() + own + [newest]
    }

    /// Marks that the field also holds writes of other devices.
    private mutating func hold(_ old: RuleModel.Field?, _ field: String) {
        let others = old?.by.filter { $0.device != change.device } ?? []
        let own = write
        record.fields[field]?.by = others + [own]
    }

    /// Tells if the field's rule compares values regardless of the author of the present one.
    private func isCompared(_ rule: FieldStrategy, _ present: JSON?, _ value: JSON?, _ base: JSON?) -> Bool {
        switch rule {
        case .merge: base != nil || isBlind
        case .max, .min:
            if let present, let value { PlainValue.isLess(present, value) != nil } else { false }
        case .set: base != nil && (isBlind || base != present)
        case .lww, .server, .client, .append, .counter, .manual: base != nil && isBlind
        }
    }

    /// The elements that a list without a base may remove from a set: those that its author had seen.
    private func seenElements(_ field: String, _ value: JSON?, _ old: RuleModel.Field?) -> RuleContest.Seen {
        guard value?.array != nil, let elements = old?.value?.array, isUnseen(old?.by) else { return .unknown }
        let seen = elements.filter { element in
            record.elements[field]?[PlainValue.key(element)].map { !isUnseen($0) } ?? false
        }
        return .value(.array(seen))
    }

    // MARK: Operations

    /// - Parameter present: The fields after all assignments.
    /// - Returns: `true` if the operation fits.
    private mutating func operate(_ operation: FieldOperation, _ present: [String: RuleModel.Field]) -> Bool {
        at = time(operation.hlc)
        let path = path(of: operation.field)
        let (top, name) = (path[0], operation.field)
        let old = record.fields[top]
        let isNews = isUnseen(old?.by)
        guard let found = record.document.plainMember(path) else { return false }
        let key = PlainValue.key(operation.value)
        let isOfSet = operation.kind == .add || operation.kind == .remove
        let writes = isOfSet ? record.elements[name]?[key] : nil
        // An element that exists has an author; the authors of elements that came without an operation are unknown.
        let element = isOfSet ? found?.array?.first { PlainValue.key($0) == key } : nil
        // The stamp of a trusted clock is later than every write that its device had seen.
        let replaces =
            writes.map { writes in
                (change.mutation.clock != .unsynced && writes.allSatisfy { at > $0.at }) || writes.last?.device == change.device
                    || (!isUnseen(writes) && change.mutation.clock != .synced)
            } ?? true
        guard var new = PlainValue.operated(operation.kind, found, operation.value, replaces: replaces) else { return false }
        if operation.kind == .remove, isUnseen(writes) {
            // An addition beats a removal that had not seen it.
            merged.insert(top)
            lose(PlainValue.place(name, key), nil)
            new = found
        } else if operation.kind == .remove {
            record.elements[name]?[key] = nil
        } else if operation.kind == .add {
            if !replaces, let element, element != operation.value {
                merged.insert(top)
                lose(PlainValue.place(name, key), operation.value)
            } else if let element, element != operation.value, isUnseen(writes), writes?.last?.version != write.version {
                lose(PlainValue.place(name, key), element)
            }
            var put = write
            put.at = max(at, writes?.map(\.at).max() ?? at)
            let others = isUnseen(writes) ? writes ?? [] : []
            record.elements[name, default: [:]][key] = others + [put]
        }
        if new != found, path.count == 1, let before = present[top], PlainValue.isNothing(before.value), isUnseen(before.by) {
            lose(top, before.value)
        }
        if operation.kind == .remove, found == nil { return true }
        let document = record.document.settingPlainMember(path, new)
        var field = old ?? RuleModel.Field(value: JSON?.none, by: [], at: at)
        field.value = document[top]
        field.by = (isNews ? field.by.filter { $0.device != change.device } : []) + [write]
        if path.count > 1 {
            let before = old?.time(ofMember: name) ?? at
            field.othersAt = field.othersAt ?? old?.at ?? at
            field.memberTimes[name] = max(at, before)
        }
        field.at = max(field.at, at)
        record.fields[top] = field
        return true
    }

    // MARK: Ends

    private mutating func lose(_ field: String, _ value: JSON?) {
        lost.append(RuleModel.Lost(field: field, value: value.map { PlainValue.text($0) }))
    }

    private mutating func conclude(over before: JSONObject) -> RuleModel.Verdict {
        let document = record.document
        let named = Set(content.data.names + content.operations.filter { $0.kind == .append }.map { path(of: $0.field)[0] })
        // A list that was written as a whole adds its new elements.
        for (name, rule) in rules.fields where rule == .set {
            let path = path(of: name)
            guard named.contains(path[0]), case .some(let value?) = document.plainMember(path) else { continue }
            let written = content.data[path[0]] != nil
            let appended = content.operations.last { $0.kind == .append && self.path(of: $0.field)[0] == path[0] }
            at = time(written ? content.stamps[JSONString(path[0])] : appended?.hlc)
            let old: [JSON] = if case .some(let old?) = before.plainMember(path) { old.array ?? [] } else { [] }
            for element in value.array ?? [] where !old.contains(element) {
                let writes = record.elements[name]?[PlainValue.key(element)]
                let others = isUnseen(writes) ? writes ?? [] : []
                record.elements[name, default: [:]][PlainValue.key(element)] = others + [write]
            }
        }
        at = whole
        for (name, elements) in record.elements {
            let value = document.plainMember(path(of: name)) ?? JSON?.none
            let keys = Set((value?.array ?? []).map { PlainValue.key($0) })
            record.elements[name] = elements.filter { keys.contains($0.key) }
        }
        record.changes.append(RuleModel.PastChange(write: write, fields: touched.sorted()))
        let base = isBlind ? 0 : change.mutation.baseVersion
        for field in touched { record.seen[change.device, default: [:]][field] = max(base, record.seen[change.device]?[field] ?? 0) }
        result = .record(record)
        return accepted(result)
    }

    // MARK: Words between two texts

    /// The first eight digits of the key's SHA-256.
    var marker: String {
        let digits = Array("0123456789abcdef")
        return "[#\(String(SHA256.hash(Array(change.key.text.utf8)).prefix(4).flatMap { [digits[Int($0) >> 4], digits[Int($0) & 15]] }))]"
    }

    var divider: String {
        let time = RFC3339.text(change.mutation.clientUpdatedAt ?? change.now)
        let names = ([change.mutation.author].compactMap { $0 } + [change.device.text]).joined(separator: " · ")
        return "\n\n--- \(names) · \(time.prefix(10)) \(time.dropFirst(11).prefix(5))Z \(marker) ---\n"
    }
}
