import SyncCore

/// The result of a field's rule when two sides have changed the field.
struct RuleContest {
    enum Result: Hashable {
        case mine, theirs
        case both(JSON)
        /// A person has to decide.
        case open
    }

    /// The knowledge that the author of the change had of the field.
    enum Seen {
        case unknown
        case value(JSON?)
    }

    struct Loser: Hashable {
        var isMine: Bool
        var field: String
        var value: JSON?
    }

    let decision: RuleDecision
    /// Tells by a dotted name if the change was written later than the present value.
    let isLater: (String) -> Bool
    private(set) var losers: [Loser] = []
    /// Members whose values come from the change.
    private(set) var taken: [String] = []

    init(_ decision: RuleDecision, isLater: @escaping (String) -> Bool) {
        (self.decision, self.isLater) = (decision, isLater)
    }

    mutating func decide(_ field: String, _ rule: FieldStrategy, _ mine: JSON?, _ theirs: JSON?, _ seen: Seen, depth: Int = 1) -> Result {
        switch rule {
        case .lww: return later(field, mine, theirs, seen)
        case .server: return whole(field, false, mine, theirs, seen)
        case .client: return whole(field, true, mine, theirs, seen)
        case .manual: return .open
        case .merge:
            guard let mine = mine?.object, let theirs = theirs?.object else { return later(field, mine, theirs, seen) }
            let known: JSONObject = if case .value(let known) = seen { known?.object ?? [:] } else { [:] }
            guard let united = members(field, mine, theirs, known, depth) else { return .open }
            if united == theirs { return .theirs }
            return united == mine ? .mine : .both(.object(united))
        case .append:
            switch (mine, theirs) {
            case (.string(let one)?, .string(let other)?): return texts(field, one.text, other.text, seen)
            case (.array(let one)?, .array(let other)?):
                if case .value(let known?) = seen, let added = PlainValue.suffix(.array(one), behind: known)?.array {
                    return named(.array(other + added), mine, theirs)
                }
                return sets(field, one, other, seen)
            default: return later(field, mine, theirs, seen)
            }
        case .set:
            guard let one = mine?.array, let other = theirs?.array else { return later(field, mine, theirs, seen) }
            return sets(field, one, other, seen)
        case .counter: return counts(field, mine, theirs, seen)
        case .max, .min:
            guard let mine, let theirs, let extreme = PlainValue.extreme(rule, mine, theirs) else {
                return later(field, mine, theirs, seen)
            }
            return whole(field, extreme != theirs, mine, theirs, seen)
        }
    }

    private mutating func later(_ field: String, _ mine: JSON?, _ theirs: JSON?, _ seen: Seen) -> Result {
        whole(field, isLater(field), mine, theirs, seen)
    }

    /// One side stays whole. Values of the other side that the author had seen were replaced knowingly, so they are not lost.
    private mutating func whole(_ field: String, _ mineWins: Bool, _ mine: JSON?, _ theirs: JSON?, _ seen: Seen) -> Result {
        var isReplaced = false
        if mineWins, case .value(let known) = seen { isReplaced = known == theirs }
        if mine != theirs, !isReplaced { losers.append(Loser(isMine: !mineWins, field: field, value: mineWins ? theirs : mine)) }
        return mineWins ? .mine : .theirs
    }

    private func named(_ united: JSON, _ mine: JSON?, _ theirs: JSON?) -> Result {
        if united == theirs { return .theirs }
        return united == mine ? .mine : .both(united)
    }

    // MARK: By rule

    /// Decides member by member. A member that only one side has changed gets its value, and a missing member is not removed.
    private mutating func members(
        _ field: String, _ mine: JSONObject, _ theirs: JSONObject, _ known: JSONObject, _ depth: Int
    ) -> JSONObject? {
        var united = theirs
        for name in mine.names + known.names.filter({ mine[$0] == nil && theirs[$0] != nil }) {
            if mine[name] == known[name] { continue }
            let place = "\(field).\(name)"
            let areCounts = decision.rules.fields[place] == .counter && theirs[name] != known[name]
            if mine[name] == theirs[name], !areCounts {
                taken.append(place)
                continue
            }
            if theirs[name] == known[name] {
                united[name] = mine[name]
                taken.append(place)
                continue
            }
            let rule = decision.rules.fields[place]
            if let one = mine[name]?.object, let other = theirs[name]?.object, depth < 8, rule ?? .merge == .merge {
                guard let inner = members(place, one, other, known[name]?.object ?? [:], depth + 1) else { return nil }
                united[name] = .object(inner)
                continue
            }
            let strategy = decision.rules.criticalFields.contains(place) ? .manual : rule == .merge ? .lww : rule ?? .lww
            switch decide(place, strategy, mine[name], theirs[name], .value(known[name])) {
            case .mine:
                united[name] = mine[name]
                taken.append(place)
            case .theirs: break
            case .both(let value):
                united[name] = value
                taken.append(place)
            case .open: return nil
            }
        }
        return united
    }

    private mutating func texts(_ field: String, _ mine: String, _ theirs: String, _ seen: Seen) -> Result {
        let marker = decision.marker
        if contains(theirs, marker) { return .theirs }
        for (shorter, longer, mineIsLonger) in [(mine, theirs, false), (theirs, mine, true)] {
            guard PlainValue.suffix(.string(longer), behind: .string(shorter)) != nil else { continue }
            // A longer text may also have removed something, unless it continues the same text.
            let isBehind =
                if case .value(let known) = seen {
                    known.map { PlainValue.suffix(.string(shorter), behind: $0) != nil } ?? true
                } else { false }
            if isBehind { return mineIsLonger ? .mine : .theirs }
            return whole(field, mineIsLonger, .string(mine), .string(theirs), seen)
        }
        if case .value(let known?) = seen, let added = PlainValue.suffix(.string(mine), behind: known)?.text {
            return .both(.string(theirs + added))
        }
        return .both(.string(theirs + decision.divider + mine))
    }

    private func contains(_ text: String, _ part: String) -> Bool {
        let (text, part) = (Array(text.utf8), Array(part.utf8))
        guard text.count >= part.count else { return false }
        return (0...text.count - part.count).contains { Array(text[$0..<$0 + part.count]) == part }
    }

    /// Joins additions and removals of both sides. A removal does not cover an element that has replaced the seen one.
    private mutating func sets(_ field: String, _ mine: [JSON], _ theirs: [JSON], _ seen: Seen) -> Result {
        let known: [JSON] = if case .value(let value) = seen { value?.array ?? [] } else { [] }
        func find(_ element: JSON, _ list: [JSON]) -> JSON? { list.first { PlainValue.key($0) == PlainValue.key(element) } }
        let out = known.filter { element in
            find(element, mine) == nil && find(element, theirs).map { known.contains($0) } ?? false
        }
        var united = theirs.filter { find($0, out) == nil }
        // Of several elements with one key, the last one of the list counts.
        for element in PlainValue.once(mine) where known.last(where: { PlainValue.key($0) == PlainValue.key(element) }) != element {
            if let place = united.firstIndex(where: { PlainValue.key($0) == PlainValue.key(element) }) {
                if isLater(field) { united[place] = element }
            } else {
                united.append(element)
            }
        }
        for (side, isMine) in [(mine, true), (theirs, false)] {
            var old = known
            for element in side {
                if let place = old.firstIndex(of: element) {
                    old.remove(at: place)
                } else if !united.contains(element) {
                    losers.append(Loser(isMine: isMine, field: PlainValue.place(field, element), value: element))
                }
            }
            for element in PlainValue.once(known) where find(element, side) == nil && find(element, united) != nil {
                losers.append(Loser(isMine: isMine, field: PlainValue.place(field, element), value: nil))
            }
        }
        return named(.array(united), .array(mine), .array(theirs))
    }

    private mutating func counts(_ field: String, _ mine: JSON?, _ theirs: JSON?, _ seen: Seen) -> Result {
        guard case .value(let known) = seen, case .number(let new)? = mine else { return later(field, mine, theirs, seen) }
        let delta: JSONNumber?
        switch known {
        case .number(let old)?: delta = new.adding(old.negated)
        case let other: delta = PlainValue.isNothing(other) ? new : nil
        }
        guard let delta, case .some(let sum?) = PlainValue.operated(.increment, theirs, .number(delta)) else {
            return later(field, mine, theirs, seen)
        }
        if PlainValue.isNothing(theirs), theirs != known { losers.append(Loser(isMine: false, field: field, value: theirs)) }
        return named(sum, mine, theirs)
    }
}
