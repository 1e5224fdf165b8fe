package import SyncCore

/// A second definition of the merge rules, as plain as in the documents (conflicts.md in the manual, section D of PROTOCOL.md): the state
/// of each record after each commit of the hub, the answer to each change, and the losses to report.
///
/// It shares no code with the product: no contests, no wire forms, no operations on values. Instead of one stamp for each field it keeps
/// the whole history of a record, and asks of every write whether the author of a change has seen it. That is slow and takes memory, but
/// it is simple enough to be right.
///
/// It ignores everything that is decided before the rules: keys, ties, groups, limits of documents, changes of history.
package struct RuleModel: Sendable {
    /// One write that the hub accepted.
    struct Write: Hashable, Sendable {
        var version: Int64
        var device: DeviceID
        var at: HybridTime
    }

    struct Field: Hashable, Sendable {
        /// Value that was written; `nil` for a removal.
        var value: JSON?
        /// Writes that the value contains. The last one decided it.
        var by: [Write]
        /// Time of the write. It never goes back, because each value was compared with the one before.
        var at: HybridTime
        /// Times of members of a merged object, by dotted names.
        var memberTimes: [String: HybridTime] = [:]
        /// Time of all other members, once a member was written by itself.
        var othersAt: HybridTime?

        func time(ofMember place: String) -> HybridTime {
            // A write of an object is a write of its members.
            let around = memberTimes.filter { place == $0.key || place.hasPrefix($0.key + ".") }.values.max()
            return around ?? othersAt ?? at
        }
    }

    struct Record: Hashable, Sendable {
        var fields: [String: Field] = [:]
        /// Writers of elements, by dotted name and element.
        var elements: [String: [JSON: [Write]]] = [:]
        /// All changes of the record since its creation.
        var changes: [PastChange] = []
        /// The newest version that the device had seen when it wrote the field, by device and field.
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
        /// The record before its deletion, if a change may restore it.
        var kept: Record?
    }

    enum State: Hashable, Sendable {
        case record(Record)
        case deleted(Tombstone)
    }

    /// A change as the hub received it.
    package struct Change: Sendable {
        package var mutation: IncomingMutation
        package var device: DeviceID
        package var key: MutationKey
        /// Number of the commit that the change gets if it is accepted.
        package var commit: Int64
        package var now: Timestamp

        package init(_ mutation: IncomingMutation, key: MutationKey, by device: DeviceID, commit: Int64, at now: Timestamp) {
            (self.mutation, self.key, self.device, self.commit, self.now) = (mutation, key, device, commit, now)
        }
    }

    /// A value that was written and is not in the record any more.
    package struct Lost: Hashable, Sendable, CustomStringConvertible {
        /// Name of the place: `details.size`, `tags[red]`, or `$delete` for a deletion.
        package var field: String
        /// Value as canonical text; `nil` for a removal.
        package var value: String?

        package var description: String { "\(field) = \(value ?? "nothing")" }
    }

    package enum Verdict: Hashable, Sendable, CustomStringConvertible {
        /// Accepted, with the fields that differ from what was sent, and the values that the hub must list as lost.
        case accepted(merged: Set<String>, lost: [Lost])
        case conflict(Set<String>)
        /// Rejected, with the code of the problem.
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

    /// - Returns: `nil` if there is no such record.
    package func document(_ name: RecordName) -> JSONObject? {
        if case .record(let record)? = states[name] { record.document } else { nil }
    }

    /// The device whose write decided the field; `nil` if there is none.
    func author(of field: String, in name: RecordName) -> DeviceID? {
        if case .record(let record)? = states[name] { record.fields[field]?.by.last?.device } else { nil }
    }

    /// Returns whether the hub has the record, or a tombstone of it.
    package func knows(_ name: RecordName) -> Bool { states[name] != nil }

    package var names: Set<RecordName> { Set(states.compactMap { if case .record = $0.value { $0.key } else { nil } }) }

    /// The same model without any history of this record.
    func without(_ name: RecordName) -> RuleModel {
        var model = self
        model.states[name] = nil
        return model
    }

    /// Decides about a change.
    ///
    /// - Returns: The verdict that the hub must give. Only an accepted change alters the model.
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

    /// A back office writes a whole document, or deletes the record. Unchanged fields do not count as written.
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

    /// Changes all records of an entity, also those kept after a deletion, without an author.
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

    /// Removes deletions that are older than what the hub remembers.
    package mutating func forget(before: Timestamp) {
        states = states.filter { if case .deleted(let tombstone) = $0.value { tombstone.since >= before } else { true } }
    }
}
