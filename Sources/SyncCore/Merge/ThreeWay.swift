/// Merges two versions of an object member by member (PROTOCOL D2, `merge`).
///
/// A member that only one side changed since the object that the local side had seen is taken from that side, also when it was removed.
/// Where both changed it, two objects are merged in turn; any other pair is a contest under the rule that the entity declares for the
/// member (`details.size: max`), or `lww`. Without a known object, an absent member counts as unchanged, so a member is never removed just
/// because it is not mentioned.
///
///     known {a:1,b:1}  local {a:2,b:1}  remote {a:1,c:3}   gives {a:2,c:3}
struct ThreeWay {
    /// The contest of the whole field.
    let contest: FieldContest

    /// Nesting limit of a merge; deeper objects are values. Real forms are not nested that far, and a hostile document ends here.
    static let depthMax = 8

    func merge(base: JSONObject, local: JSONObject, remote: JSONObject) -> FieldContest.Decision {
        var decision = FieldContest.Decision(.remote)
        guard let merged = merge(base, local, remote, at: contest.field, depth: 1, &decision) else { return .init(.undecided) }
        if !merged.isSpelled(as: remote) { decision.outcome = merged.isSpelled(as: local) ? .local : .both(.object(merged)) }
        return decision
    }

    private func isLater(_ place: String) -> Bool { contest.members?.isMineLater(place) ?? contest.localIsLater }

    /// Returns whether the local side is the last one to spell a value anew.
    private func isRespelled(_ mine: JSON?, since known: JSON?, _ theirs: JSON?, at place: String) -> Bool {
        guard let mine, let theirs, !mine.isSpelled(as: theirs) else { return false }
        guard let known else { return isLater(place) }
        return !mine.isSpelled(as: known) && (isLater(place) || theirs.isSpelled(as: known))
    }

    /// - Returns: `nil` when a person must decide about one of the members.
    private func merge(
        _ base: JSONObject, _ local: JSONObject, _ remote: JSONObject, at path: String, depth: Int,
        _ outcome: inout FieldContest.Decision
    ) -> JSONObject? {
        var result = remote
        let gone = base.names.filter { local[$0] == nil && remote[$0] != nil }
        for name in local.names + gone {
            let (known, mine, theirs) = (base[name], local[name], remote[name])
            let place = "\(path).\(name)"
            // When two counts are equal, both were counted.
            if mine == theirs, mine == known || theirs == known || contest.rules.strategy(of: place) != .counter {
                if isRespelled(mine, since: known, theirs, at: place) { result[name] = mine }
                // Writing the same value again counts as a write.
                if mine != known { outcome.written.append(place) }
                continue
            }
            if mine == known { continue }
            if theirs == known {
                result[name] = mine
                outcome.written.append(place)
                continue
            }
            if let mine = mine?.object, let theirs = theirs?.object, depth < ThreeWay.depthMax,
                contest.rules.fields[place] ?? .merge == .merge
            {
                guard let inner = merge(known?.object ?? [:], mine, theirs, at: place, depth: depth + 1, &outcome) else { return nil }
                result[name] = .object(inner)
                continue
            }
            var leaf = contest
            leaf.field = place
            leaf.localIsLater = isLater(place)
            leaf.members = nil
            leaf.known = .value(known)
            // An object that is not merged any deeper is treated as a plain value.
            if leaf.rules.strategy(of: place) == .merge { leaf.rules.fields[place] = .lww }
            let decision = leaf.decide(local: mine, remote: theirs)
            outcome.lost += decision.lost
            switch decision.outcome {
            case .local: result[name] = mine
            case .remote: continue
            case .both(let value): result[name] = value
            case .undecided: return nil
            }
            outcome.written.append(place)
        }
        return result
    }
}
