import SyncCore
import Testing

/// Random records, rules and changes of two sides. A failure shows its case whole, and the seed alone replays it.
@Suite("Properties of merging")
struct MergePropertyTests {
    /// The documents of both sides, and the result of their merge.
    struct Meeting: CustomStringConvertible {
        struct Lost: Hashable {
            var isMine: Bool
            var field: String
            var value: JSON?
        }

        var example: MergeCase
        /// The record as each side left it; `nil`: deleted.
        var mine: JSONObject?
        var theirs: JSONObject?
        var result: JSONObject?
        var lost: [Lost] = []
        /// Fields that people decide about. Their values are not lost yet.
        var disputed: Set<String> = []
        /// `true` when mine came as plain values without a base. Then an element that is missing in a value is not a removal.
        var isPlain = false
        var isCreated = false
        /// `true` when the hub does not remember the elements that were taken out of a set. Then a change at the same time counts as adding
        /// one.
        var isForgotten = false

        init(_ example: MergeCase, mine: JSONObject?, theirs: JSONObject?) {
            self.example = example
            self.mine = mine
            self.theirs = theirs
        }

        mutating func take(_ accepted: HubMerge.Accepted, over record: VersionedRecord?) {
            result = accepted.record == nil ? record?.data : accepted.record?.data
            lost += accepted.lost.map { Lost(isMine: $0.stamp.writer == MergeCase.mine, field: $0.field, value: $0.value) }
        }

        /// The faults of the result; empty for none.
        var faults: [String] { missing(mine, beside: theirs, isMine: true) + missing(theirs, beside: mine, isMine: false) + superfluous }

        /// Values of a side that are nowhere.
        private func missing(_ side: JSONObject?, beside other: JSONObject?, isMine: Bool) -> [String] {
            guard let side else { return [] }
            return Written.all(isMine && isCreated ? [:] : example.base, side, example.rules).compactMap { written in
                if disputed.contains(written.path[0]) { return nil }
                if isPlain, written.isRemoval || written.side == nil, !isUnset(written) { return nil }
                if isForgotten, !isMine, written.isRemoval { return nil }
                // A record that is gone has lost what was removed of it as well.
                if result == nil, written.isRemoval || written.side == nil { return nil }
                func there(_ document: JSONObject?) -> JSON? {
                    written.path.dropFirst().reduce(document?[written.path[0]]) { $0?.object?[$1] }
                }
                if written.isIn(there(result), beside: there(other), isCreated: isCreated || (isPlain && written.path.count > 1)) {
                    return nil
                }
                if lost.contains(where: { $0.isMine == isMine && written.isIn(lost: $0.field, $0.value) }) { return nil }
                let what = written.element ?? written.side
                return
                    "\(isMine ? "my" : "their") \(written.isRemoval ? "removal of " : "")\(what?.json ?? "removal") in \(written.place) is nowhere"
            }
        }

        /// A field is taken out by name, except of a record that is created.
        private func isUnset(_ written: Written) -> Bool { written.path.count == 1 && written.element == nil && !isCreated }

        /// Values that are listed as lost although they are there, or that are listed twice.
        private var superfluous: [String] {
            var faults: [String] = []
            if Set(lost).count != lost.count { faults.append("something is told twice") }
            guard let result else { return faults }
            for loss in lost {
                if loss.field.hasSuffix("]"), let bracket = loss.field.lastIndex(of: "[") {
                    let list = Self.value(String(loss.field[..<bracket]), in: result)?.array ?? []
                    let isThere =
                        loss.value.map { list.contains($0) } ?? !list.contains {
                            loss.field == loss.field[..<bracket] + SetElement.place(of: $0, in: "")
                        }
                    if isThere { faults.append("\(loss.field) is told as lost and is there") }
                } else if Self.value(loss.field, in: result) == loss.value {
                    faults.append("\(loss.field) is told as lost and is there")
                }
            }
            return faults
        }

        private static func value(_ field: String, in document: JSONObject) -> JSON? {
            field.split(separator: ".").reduce(JSON.object(document)) { $0?.object?[String($1)] }
        }

        var description: String {
            func text(_ document: JSONObject?) -> String { document.map { JSON.object($0).json } ?? "deleted" }
            let lost = lost.map { "\($0.isMine ? "mine" : "theirs") \($0.field)=\($0.value?.json ?? "removal")" }
            return """
                \(example)\(isPlain ? ", values only" : "")
                  mine   \(text(mine))
                  theirs \(text(theirs))
                  result \(text(result))
                  lost   \(lost.joined(separator: ", "))
                """
        }
    }

    /// The first thing that is wrong, with its case; one is enough to look at.
    private static func look(_ seeds: Range<UInt64>, _ meet: (inout MergeCase) -> (Meeting, faults: [String])?) {
        var looked = 0
        for seed in seeds {
            var example = MergeCase(seed: seed)
            guard let (meeting, faults) = meet(&example) else { continue }
            looked += 1
            if let fault = (meeting.faults + faults).first {
                Issue.record("\(fault)\n\(meeting)")
                return
            }
        }
        #expect(looked > seeds.count / 2)
    }

    /// The record as the other side has left it, in commit 2.
    private static func other(_ example: inout MergeCase, ms: UInt64) -> VersionedRecord? {
        let isPlain = example.chance(3)
        let content = example.content(example.changed(by: "r"), isPlain: isPlain)
        let outcome = example.push(content, by: MergeCase.other, onto: example.record, ms: ms, commit: 2)
        guard case .accepted(let accepted) = outcome, let record = accepted.record else { return nil }
        return record
    }

    @Test(
        "At the hub, every value that a side wrote is in the record, in dispute, or told as lost; and the answer tells its author what of it has lost"
    )
    func hub() {
        Self.look(0..<4_000) { example in
            let (mine, theirs) = (UInt64(2 + example.number(4)), UInt64(2 + example.number(4)))
            guard let there = Self.other(&example, ms: theirs) else { return nil }
            if example.chance(12) { return Self.deletion(example, there, ms: mine) }
            let isPlain = example.chance(2), changed = example.changed(by: "l")
            var content = example.content(changed, isPlain: isPlain)
            let isCreate = example.chance(8)
            if isCreate { content = MutationContent(.create, data: changed) }
            var meeting = Meeting(example, mine: changed, theirs: there.data)
            meeting.isPlain = isPlain || isCreate
            meeting.isCreated = isCreate
            meeting.isForgotten = true
            switch example.push(content, by: MergeCase.mine, onto: there, ms: mine, commit: 3) {
            // All of it is in the conflict, or in the list of what was refused.
            case .conflict, .rejected: return nil
            case .accepted(let accepted):
                meeting.take(accepted, over: there)
                let told = Rebase.lost(
                    of: example.local(content.withSetsFolded(under: example.rules), ms: mine), merged: accepted.merged,
                    in: meeting.result ?? [:], rules: example.rules
                ).map { Meeting.Lost(isMine: true, field: $0.field, value: $0.value) }
                let isSame = Set(told) == Set(meeting.lost.filter(\.isMine))
                return (meeting, isSame ? [] : ["the answer tells the author \(told.map { "\($0.field)=\($0.value?.json ?? "removal")" })"])
            }
        }
    }

    /// Mine is a deletion.
    private static func deletion(
        _ example: MergeCase, _ there: VersionedRecord, ms: UInt64
    ) -> (Meeting, faults: [String])? {
        let outcome = example.push(MutationContent(.delete), by: MergeCase.mine, onto: there, ms: ms, commit: 3)
        guard case .accepted(let accepted) = outcome else { return nil }
        var meeting = Meeting(example, mine: nil, theirs: there.data)
        meeting.take(accepted, over: there)
        return (meeting, [])
    }

    @Test("On the agent and then at the hub, every value that a side wrote is in the record, in dispute, or told as lost")
    func agent() {
        Self.look(0..<4_000) { example in
            let (mine, theirs) = (UInt64(2 + example.number(4)), UInt64(2 + example.number(4)))
            guard let there = Self.other(&example, ms: theirs) else { return nil }
            let isDelete = example.chance(12)
            let changed = example.changed(by: "l")
            let content = isDelete ? MutationContent(.delete) : example.content(changed, isPlain: false)
            let outcome = Rebase.decide(
                example.local(content, ms: mine), against: .init(known: example.base, record: there.hubRecord()), rules: example.rules)
            var meeting = Meeting(example, mine: isDelete ? nil : changed, theirs: there.data)
            meeting.lost = outcome.lost.map { .init(isMine: $0.side == .local, field: $0.field, value: $0.value) }
            var rest = outcome.content
            switch outcome.verdict {
            case .isRejected: return nil
            case .isSuperseded:
                meeting.result = there.data
                return (meeting, [])
            case .isDisputed(let kind, let fields):
                if kind != .field { return nil }
                meeting.disputed = Set(fields)
                for field in fields {
                    rest.data[field] = nil
                    rest.unset.removeAll { $0 == field }
                    rest.operations.removeAll { $0.field == field }
                }
            case .stays: break
            }
            guard case .accepted(let accepted) = example.push(rest, by: MergeCase.mine, onto: there, base: 2, ms: mine, commit: 3) else {
                return nil
            }
            meeting.take(accepted, over: there)
            return (meeting, [])
        }
    }

    @Test("A rebased mutation is based on the new document: a second rebase changes nothing and loses nothing")
    func rebasedAgain() {
        Self.look(0..<2_000) { example in
            guard let there = Self.other(&example, ms: 4) else { return nil }
            let ms = UInt64(2 + example.number(4)), changed = example.changed(by: "l")
            let isCreate = example.chance(4)
            let content = isCreate ? MutationContent(.create, data: changed) : example.content(changed, isPlain: false)
            let first = Rebase.decide(
                example.local(content, ms: ms), against: .init(known: isCreate ? nil : example.base, record: there.hubRecord()),
                rules: example.rules)
            guard first.verdict == .stays else { return nil }
            let again = Rebase.decide(
                example.local(first.content, ms: ms), against: .init(known: there.data, record: there.hubRecord()), rules: example.rules)
            // The first result is the start of this check, which is about the second merge alone.
            var meeting = Meeting(example, mine: nil, theirs: nil)
            (meeting.mine, meeting.theirs, meeting.disputed) = (changed, there.data, Set(MergeCase.kinds.map(\.field)))
            // A change that would change nothing need not be sent.
            let isWhole = again.verdict == .stays || again.verdict == .isSuperseded
            let isSame =
                isWhole && again.lost.isEmpty && Fold.apply(again.content, to: there.data) == Fold.apply(first.content, to: there.data)
            return (meeting, isSame ? [] : ["\(first.content.line) became \(again.verdict) \(again.content.line), lost \(again.lost)"])
        }
    }

    @Test("Values that come twice make what they made when they came once")
    func twice() {
        let fields = ["lww", "server", "client", "notes", "log", "tags", "parts", "peak", "low"]
        for seed in 0..<2_000 as Range<UInt64> {
            var example = MergeCase(seed: seed, fields: fields)
            guard let there = Self.other(&example, ms: 4) else { continue }
            let ms = UInt64(2 + example.number(4)), content = example.content(example.changed(by: "l"), isPlain: true)
            guard case .accepted(let accepted) = example.push(content, by: MergeCase.mine, onto: there, ms: ms, commit: 3),
                let once = accepted.record,
                case .accepted(let again) = example.push(content, by: MergeCase.mine, onto: once, ms: ms, commit: 4)
            else { continue }
            guard (again.record ?? once).data == once.data else {
                Issue.record(
                    "\(example)\n  sent   \(content.line)\n  once   \(once.data?.json ?? "-")\n  twice  \(again.record?.data?.json ?? "-")")
                return
            }
        }
    }

    // MARK: Order

    /// Sets have no order of their own.
    private static func unordered(_ value: JSON) -> JSON {
        switch value {
        case .array(let elements): .array(elements.map { unordered($0) }.sorted { $0.json < $1.json })
        case .object(let object):
            .object(object.members.reduce(into: JSONObject()) { $0[$1.name.text] = unordered($1.value) })
        case .null, .bool, .number, .string: value
        }
    }

    /// The record after these have come in this order.
    private static func arrive(_ order: [(device: DeviceID, content: MutationContent, ms: UInt64)], _ example: MergeCase) -> JSON? {
        var record = example.record
        for (index, next) in order.enumerated() {
            let outcome = example.push(next.content, by: next.device, onto: record, ms: next.ms, commit: Int64(2 + index))
            guard case .accepted(let accepted) = outcome else { return nil }
            record = accepted.record ?? record
        }
        return record.data.map { unordered(.object($0)) }
    }

    @Test(
        "Rules that add up or go by the stamp make the same record of unseen changes in any order of the devices"
    )
    func order() throws {
        for seed in 0..<2_000 as Range<UInt64> {
            var example = MergeCase(seed: seed, fields: ["lww", "count", "tags", "parts", "peak", "low"], isOdd: false)
            let changes = [MergeCase.mine, MergeCase.other, DeviceID(trusted: "fourth")].map { device in
                let document = example.changed(by: device.text) { $0 == "lww" }
                return (device: device, content: example.content(document, isPlain: false), ms: UInt64(2 + example.number(4)))
            }
            let orders = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]]
            let results = orders.map { order in Self.arrive(order.map { changes[$0] }, example) }
            guard let first = results.first ?? nil, results.allSatisfy({ $0 == first }) else {
                Issue.record(
                    "\(example)\n\(changes.map { "  \($0.device) at \($0.ms): \($0.content.line)" }.joined(separator: "\n"))\n\(results.map { $0?.json ?? "-" })"
                )
                return
            }
        }
    }

    @Test("Two devices that change members of one object make the same of it, whichever comes first")
    func orderOfMembers() {
        for seed in 0..<2_000 as Range<UInt64> {
            var example = MergeCase(seed: seed, fields: ["form"], isOdd: false, members: ["a", "b", "o", "count", "peak", "low"])
            let changes = [MergeCase.mine, MergeCase.other].map { device in
                let document = example.changed(by: device.text) { _ in false }
                return (device: device, content: example.content(document, isPlain: false), ms: UInt64(2 + example.number(4)))
            }
            let (one, two) = (Self.arrive(changes, example), Self.arrive(changes.reversed(), example))
            guard one != nil, one == two else {
                Issue.record(
                    "\(example)\n\(changes.map { "  \($0.device) at \($0.ms): \($0.content.line)" }.joined(separator: "\n"))\n  \(one?.json ?? "-")\n  \(two?.json ?? "-")"
                )
                return
            }
        }
    }
}
