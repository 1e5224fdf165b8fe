package import SyncCore

/// The rules of merging once more, as plainly as the documents say them (the manual, "When two sides change the same record"; PROTOCOL
/// D): what a record must be after each commit of the hub, what each change must be answered, and what must be told.
///
/// It shares no code with what it watches: neither the contests nor the wire forms nor the values' operations. Instead of one stamp for
/// each field it keeps all that happened to a record, and asks of every write whether the author of a change has seen it. That is
/// slow and takes room, and there is little in it to be wrong.
///
/// It knows nothing of what is decided before any rule is asked: keys, ties, groups, limits of documents, ends of the world.
package struct RuleModel: Sendable {
    /// One write that the hub accepted.
    struct Write: Hashable, Sendable {
        var version: Int64
        var device: DeviceID
        var at: HybridTime
    }

    struct Field: Hashable, Sendable {
        /// `nil`: it was removed.
        var value: JSON?
        /// Whose writes the value holds; the one whose word it is comes last.
        var by: [Write]
        /// It never goes back: what stands here has been compared with all that stood here before.
        var at: HybridTime
        /// Of members of an object that is merged, by their dotted names.
        var memberTimes: [String: HybridTime] = [:]
        /// Of all other members, once one has been written for itself.
        var othersAt: HybridTime?

        func time(ofMember place: String) -> HybridTime {
            // What was written of an object around it was written of the member.
            let around = memberTimes.filter { place == $0.key || place.hasPrefix($0.key + ".") }.values.max()
            return around ?? othersAt ?? at
        }
    }

    struct Record: Hashable, Sendable {
        var fields: [String: Field] = [:]
        /// By dotted name and element: who put it in.
        var elements: [String: [JSON: [Write]]] = [:]
        /// Everything that happened to it since it came into being.
        var changes: [PastChange] = []
        /// By device and field: the newest version that the device had seen when it wrote the field.
        var seen: [DeviceID: [String: Int64]] = [:]

        var document: JSONObject {
            var document: JSONObject = [:]
            for (name, field) in fields { document[name] = field.value }
            return document
        }
    }

    struct PastChange: Hashable, Sendable {
        var write: Write
        var fields: [String]
    }

    struct Tombstone: Hashable, Sendable {
        var write: Write
        var since: Timestamp
        /// The record as it was, where a change may bring it back.
        var kept: Record?
    }

    enum State: Hashable, Sendable {
        case record(Record)
        case deleted(Tombstone)
    }

    /// A change as it came in.
    package struct Change: Sendable {
        package var mutation: IncomingMutation
        package var device: DeviceID
        package var key: MutationKey
        /// The number of the commit that it becomes, if it becomes one.
        package var commit: Int64
        package var now: Timestamp

        package init(_ mutation: IncomingMutation, key: MutationKey, by device: DeviceID, commit: Int64, at now: Timestamp) {
            (self.mutation, self.key, self.device, self.commit, self.now) = (mutation, key, device, commit, now)
        }
    }

    /// Something that somebody wrote and that is not there any more.
    package struct Lost: Hashable, Sendable, CustomStringConvertible {
        /// `details.size`, `tags[red]`, or `$delete` for a deletion.
        package var field: String
        /// As canonical text; `nil` for a removal.
        package var value: String?

        package var description: String { "\(field) = \(value ?? "nothing")" }
    }

    package enum Verdict: Hashable, Sendable, CustomStringConvertible {
        /// With the fields that are not what was sent, and what must be found in the hub's list of lost values.
        case accepted(merged: Set<String>, lost: [Lost])
        case conflict(Set<String>)
        /// With the code of the problem.
        case rejected(String)

        package var description: String {
            switch self {
            case .accepted(let merged, let lost): "accepted, merged \(merged.sorted()), lost \(lost)"
            case .conflict(let fields): "a conflict about \(fields.sorted())"
            case .rejected(let code): "rejected as \(code)"
            }
        }
    }

    static let wholeRecord = "$delete"
    static let restOfRecord = "$rest"

    private(set) var states: [RecordName: State] = [:]

    package init() {}

    /// - Returns: `nil` where there is no such record.
    package func document(_ name: RecordName) -> JSONObject? {
        if case .record(let record)? = states[name] { record.document } else { nil }
    }

    package var names: Set<RecordName> { Set(states.compactMap { if case .record = $0.value { $0.key } else { nil } }) }

    /// The same as if this record had never been.
    func without(_ name: RecordName) -> RuleModel {
        var model = self
        model.states[name] = nil
        return model
    }

    /// Takes a change in.
    ///
    /// - Returns: What it must be answered. Only what is accepted has changed anything.
    package mutating func apply(_ change: Change, _ rules: EntityRules) -> Verdict {
        let name = change.mutation.record
        var decision = RuleDecision(change, rules)
        let verdict: Verdict
        switch (change.mutation.content.action, states[name]) {
        case (.delete, .record(let record)?): verdict = decision.delete(record)
        case (.delete, nil) where change.mutation.baseVersion == 0: verdict = decision.deleteUnknown()
        case (.delete, _): verdict = .accepted(merged: [], lost: [])
        case (.update, .record(let record)?): verdict = decision.update(record)
        case (.update, .deleted(let tombstone)?): verdict = decision.updateDeleted(tombstone)
        case (.update, nil): verdict = decision.updateDeleted(nil)
        case (.create, .record(let record)?): verdict = decision.createExisting(record)
        case (.create, .deleted(let tombstone)?): verdict = decision.createOver(tombstone)
        case (.create, nil): verdict = decision.createOver(nil)
        }
        if case .accepted = verdict, let result = decision.result { states[name] = result }
        return verdict
    }

    /// A back office writes a whole document, or deletes the record: what stays as it was is nobody's change.
    package mutating func publish(_ name: RecordName, _ document: JSONObject?, version: Int64, _ rules: EntityRules, at now: Timestamp) {
        let at = HybridTime(milliseconds: UInt64(clamping: now.milliseconds), counter: 0, node: HybridClock.node(of: .hub))
        let write = Write(version: version, device: .hub, at: at)
        var record = if case .record(let record)? = states[name] { record } else { Record() }
        guard let document else {
            let isThere = if case .record? = states[name] { true } else { false }
            let kept = isThere && rules.onDeleted != .deleteWins ? record : nil
            states[name] = .deleted(Tombstone(write: write, since: now, kept: kept))
            return
        }
        var changed: [String] = []
        let before = record.document
        for field in Set(before.names + document.names) where before[field] != document[field] {
            record.fields[field] = Field(value: document[field], by: [write], at: write.at)
            changed.append(field)
        }
        record.changes.append(PastChange(write: write, fields: changed))
        states[name] = .record(record)
    }

    /// Changes all records of an entity, with those that deletions keep, in a way that is nobody's change.
    mutating func convert(_ entity: EntityName, _ body: (inout Record) -> Void) {
        for (name, state) in states where name.entity == entity {
            switch state {
            case .record(var record):
                body(&record)
                states[name] = .record(record)
            case .deleted(var tombstone):
                guard var kept = tombstone.kept else { continue }
                body(&kept)
                tombstone.kept = kept
                states[name] = .deleted(tombstone)
            }
        }
    }

    /// The hub has forgotten deletions that are older.
    package mutating func forget(before: Timestamp) {
        states = states.filter { if case .deleted(let tombstone) = $0.value { tombstone.since >= before } else { true } }
    }
}
