/// Decides a field that two sides have changed (PROTOCOL D2). The hub uses these rules to merge a change that arrives, and the agent to
/// rebase a change that waits.
///
/// | strategy | two values in a contest |
/// |---|---|
/// | `lww` | the higher stamp wins |
/// | `server`, `client` | that side wins |
/// | `merge` | two objects are brought together member by member (``ThreeWay``); otherwise as `lww` |
/// | `append` | an addition goes behind the other text or list; see below for rewritten ones |
/// | `counter` | with the value that the local side had seen, the difference is added; otherwise as `lww` |
/// | `set` | the union of two lists; see below for removed elements |
/// | `max`, `min` | the extremum, when the two can be compared; otherwise as `lww` |
/// | `manual` | undecided |
///
/// Under `append` two texts that were both rewritten both stay, the local one below a line that names its author. Two rewritten lists
/// become their union. Under `set` an element that the local side removed from the list that it had seen is not in the union, unless the
/// element has other content by now.
///
/// Agents turn plain values into operations where a rule has one (``WireForm``). So most contests of `counter`, `append`, `set`, `max` and
/// `min` never come here; a value that was rewritten as a whole does.
///
/// The outcome lists each value that a side wrote and the result lacks, down to members of objects and elements of sets, so that it can be
/// kept for people.
package struct FieldContest: Sendable {
    package enum Outcome: Hashable, Sendable {
        case local, remote
        /// A value that holds parts of both sides.
        case both(JSON)
        /// A person must decide.
        case undecided

        var isBoth: Bool { if case .both = self { true } else { false } }
    }

    package struct Decision: Hashable, Sendable {
        package var outcome: Outcome
        /// Values that the result does not contain. Empty as long as a person is to decide.
        package var lost: [Loss]
        /// Dotted names of the members that the local side has written, for objects that were merged.
        package var written: [String]

        init(_ outcome: Outcome, lost: [Loss] = [], written: [String] = []) {
            self.outcome = outcome
            self.lost = lost
            self.written = written
        }
    }

    /// A value that one side wrote and a contest discarded.
    package struct Loss: Hashable, Sendable {
        package enum Side: String, Hashable, Sendable { case local, remote }

        /// `details.size` for a member, `tags[t-1]` for an element of a set (``SetElement/place(of:in:)``).
        package var field: String
        package var side: Side
        /// `nil` when a removal lost.
        package var value: JSON?
        /// The rule that decided against the value.
        package var strategy: FieldStrategy

        package init(field: String, side: Side, value: JSON?, strategy: FieldStrategy) {
            self.field = field
            self.side = side
            self.value = value
            self.strategy = strategy
        }
    }

    /// The value that the local side had seen in the field when it changed it.
    package enum Known: Hashable, Sendable {
        case unknown
        /// `nil`: the field did not exist.
        case value(JSON?)

        var value: JSON? {
            if case .value(let value) = self { value } else { nil }
        }
    }

    /// Names the local side in a text that keeps both.
    package struct Signature: Hashable, Sendable {
        /// `nil` when the app did not say.
        package var author: String?
        package var device: DeviceID
        package var at: Timestamp
        package var key: MutationKey

        package init(author: String? = nil, device: DeviceID, at: Timestamp, key: MutationKey) {
            self.author = author
            self.device = device
            self.at = at
            self.key = key
        }

        /// The first 8 hexadecimal digits of the key's SHA-256. Parts of the key itself would not do: they are only a time, or a number
        /// that every device counts. A text that holds the marker is never extended by the same mutation again.
        var marker: String {
            "[#\(hexText(Array(SHA256.hash(Array(key.text.utf8)).prefix(4))))]"
        }

        /// `--- ines · pump-17 · 2026-11-20 21:04Z [#9f2c11ab] ---`
        var line: String {
            let time = RFC3339.text(at)
            let names = [author, device.text].compactMap { $0 }.joined(separator: " · ")
            return "--- \(names) · \(time.prefix(10)) \(time.dropFirst(11).prefix(5))Z \(marker) ---"
        }

        /// The text between the two texts.
        var divider: String { "\n\n\(line)\n" }
    }

    package var rules: EntityRules
    /// The name of the field; dotted for a member of a merged object.
    package var field: String
    /// The local stamp is the later one.
    package var localIsLater: Bool
    /// The order of the members of an object, where their own times are known. Otherwise all members have the time of the field.
    package var members: MemberOrder?
    package var signature: Signature
    package var known: Known

    package init(
        _ rules: EntityRules, _ field: String, localIsLater: Bool, signature: Signature, known: Known = .unknown
    ) {
        self.rules = rules
        self.field = field
        self.localIsLater = localIsLater
        self.signature = signature
        self.known = known
    }

    /// - Parameters: `nil` means that this side removed the field.
    package func decide(local: JSON?, remote: JSON?) -> Decision {
        switch strategy {
        case .server: return won(.remote, local, remote)
        case .client: return won(.local, local, remote)
        case .manual: return Decision(.undecided)
        case .lww: return won(later, local, remote)
        case .counter: return sum(local, remote)
        case .merge:
            guard let mine = local?.object, let theirs = remote?.object else { return won(later, local, remote) }
            return ThreeWay(contest: self).merge(base: known.value?.object ?? [:], local: mine, remote: theirs)
        case .append:
            switch (local, remote) {
            case (.string(let mine), .string(let theirs)): return bounded(texts(mine, theirs))
            case (.array(let mine), .array(let theirs)): return lists(mine, theirs)
            default: return won(later, local, remote)
            }
        case .set:
            guard let mine = local?.array, let theirs = remote?.array else { return won(later, local, remote) }
            return united(mine, theirs)
        case .max: return extremum(.max, local, remote)
        case .min: return extremum(.min, local, remote)
        }
    }

    private var strategy: FieldStrategy { rules.strategy(of: field) }

    private var later: Loss.Side { localIsLater ? .local : .remote }

    /// One side's value wins as a whole, and the other one is lost unless both are equal. A value of the other side that the local side had
    /// seen is replaced, not lost.
    private func won(_ side: Loss.Side, _ local: JSON?, _ remote: JSON?) -> Decision {
        let outcome: Outcome = side == .local ? .local : .remote
        if local == remote || (side == .local && known == .value(remote)) { return Decision(outcome) }
        let loser = side == .local ? Loss.Side.remote : .local
        return Decision(outcome, lost: [.init(field: field, side: loser, value: loser == .local ? local : remote, strategy: strategy)])
    }

    /// Returns whether a text is longer than its field may become by merging (`max_len`, PROTOCOL D3). Then a person decides, because
    /// cutting it would lose text.
    package static func isTooLong(_ value: JSON?, _ field: String, _ rules: EntityRules) -> Bool {
        guard let limit = rules.maxLength[field], let text = value?.text else { return false }
        return text.unicodeScalars.count > limit
    }

    /// Returns whether the field would become too long with an appended text.
    static func isTooLong(_ operation: FieldOperation, after field: FieldFold, _ rules: EntityRules) -> Bool {
        guard let limit = rules.maxLength[operation.field], let text = operation.value.text, !field.isList else { return false }
        return (field.value?.text ?? "").unicodeScalars.count + text.unicodeScalars.count > limit
    }

    private func bounded(_ decision: Decision) -> Decision {
        guard case .both(let value) = decision.outcome, FieldContest.isTooLong(value, field, rules) else { return decision }
        return Decision(.undecided)
    }

    // MARK: Parts

    private func sum(_ local: JSON?, _ remote: JSON?) -> Decision {
        guard case .value(let known) = known, let delta = WireForm.difference(from: known, to: local),
            let sum = Fold.apply(FieldOperation(field, .increment, .number(delta)), to: remote), case .number = sum
        else { return won(later, local, remote) }
        let outcome = outcome(of: sum, local, remote)
        // A count on a field that the other side has ended undoes that end.
        guard remote?.isNull ?? true, remote != known else { return Decision(outcome) }
        return Decision(outcome, lost: [.init(field: field, side: .remote, value: remote, strategy: strategy)])
    }

    private func texts(_ mine: JSONString, _ theirs: JSONString) -> Decision {
        let (local, remote) = (mine.text, theirs.text)
        // The text already holds this mutation.
        if remote.contains(signature.marker) { return Decision(.remote) }
        // If one text begins with the other, the longer one has all of both.
        if remote.utf8.starts(with: local.utf8) { return continued(.remote, mine, theirs) }
        if local.utf8.starts(with: remote.utf8) { return continued(.local, mine, theirs) }
        if case .value(let known?) = known, let suffix = WireForm.suffix(of: .string(mine), after: known)?.text {
            return Decision(.both(.string(remote + suffix)))
        }
        return Decision(.both(.string(remote + signature.divider + local)))
    }

    /// The longer text contains the shorter one, but its author may have removed text before that. The shorter text is therefore reported
    /// as lost, unless the former value is known and the shorter text begins with it.
    private func continued(_ side: Loss.Side, _ mine: JSONString, _ theirs: JSONString) -> Decision {
        let shorter = JSON.string(side == .local ? theirs : mine)
        if case .value(let known) = known, known.map({ WireForm.suffix(of: shorter, after: $0) != nil }) ?? true {
            return Decision(side == .local ? .local : .remote)
        }
        return won(side, .string(mine), .string(theirs))
    }

    private func lists(_ mine: [JSON], _ theirs: [JSON]) -> Decision {
        if case .value(let known?) = known, let suffix = WireForm.suffix(of: .array(mine), after: known)?.array {
            return Decision(outcome(of: .array(theirs + suffix), .array(mine), .array(theirs)))
        }
        return united(mine, theirs)
    }

    private func united(_ mine: [JSON], _ theirs: [JSON]) -> Decision {
        let known = known.value?.array ?? []
        let (before, present) = (SetIndex(.array(known)), SetIndex(.array(theirs)))
        let operations = WireForm.setDifference(from: known, to: mine, field).filter { operation in
            // A removal had not seen an element that has replaced the one it names.
            operation.kind != .remove || present.first(operation.value).map { before.hasSame($0) } ?? true
        }
        let fold = FieldFold(.array(theirs))
        for operation in operations { _ = fold.apply(operation, replaces: localIsLater) }
        let all = fold.value ?? .array(theirs)
        let union = Union(field: field, strategy: strategy, known: known, result: all.array ?? [])
        return Decision(
            outcome(of: all, .array(mine), .array(theirs)), lost: union.lost(of: mine, .local) + union.lost(of: theirs, .remote))
    }

    private func extremum(_ kind: FieldOperation.Kind, _ local: JSON?, _ remote: JSON?) -> Decision {
        guard let local, let remote, let extreme = Fold.extreme(kind, local, remote) else { return won(later, local, remote) }
        return won(extreme == remote ? .remote : .local, local, remote)
    }

    /// The side whose value is the merged one. Values that are equal but spelled differently are not the same: the spelling of the writer
    /// stays.
    private func outcome(of united: JSON, _ local: JSON?, _ remote: JSON?) -> Outcome {
        if united == remote { return .remote }
        return united == local ? .local : .both(united)
    }
}

/// Two lists that were merged into one, element by element.
private struct Union {
    let field: String
    let strategy: FieldStrategy
    let known: [JSON]
    let result: [JSON]

    /// Elements that a side added and the result lacks, and elements that it removed and the result has.
    func lost(of elements: [JSON], _ side: FieldContest.Loss.Side) -> [FieldContest.Loss] {
        let kept = Set(result), keys = Set(result.map { SetElement.key($0) })
        var before = known.reduce(into: [JSON: Int]()) { $0[$1, default: 0] += 1 }
        var lost: [FieldContest.Loss] = []
        func lose(_ element: JSON, _ value: JSON?) {
            let place = SetElement.place(of: element, in: field)
            lost.append(.init(field: place, side: side, value: value, strategy: strategy))
        }
        for element in elements {
            if let count = before[element], count > 0 {
                before[element] = count - 1
            } else if !kept.contains(element) {
                lose(element, element)
            }
        }
        var gone = keys.subtracting(elements.map { SetElement.key($0) })
        for element in known where gone.remove(SetElement.key(element)) != nil { lose(element, nil) }
        return lost
    }
}
