/// Two sides changed one field: what becomes of it (PROTOCOL D2). The same rules serve the hub, which merges what comes in,
/// and the agent, which rebases what waits.
///
/// Neither side's base is needed. Where a rule speaks of one (`merge`, `append`), the operations that agents send instead
/// of values carry the difference; what is left here is the plain value of somebody who rewrote the field:
///
/// | strategy | a plain value in a contest |
/// |---|---|
/// | `lww` | the higher stamp wins |
/// | `server`, `client` | that side wins |
/// | `merge` | two objects unite member by member, the later one wins where both have a plain member; otherwise as `lww` |
/// | `append` | two texts: both, the local one below a line that names its author; two lists: the union; otherwise as `lww` |
/// | `set` | two lists: the union; otherwise as `lww` |
/// | `max`, `min` | the extremum, when the two can be compared; otherwise as `lww` |
/// | `counter` | as `lww`: agents send a difference, so a plain value means "set it to this" |
/// | `manual` | undecided |
package struct FieldContest: Sendable {
    package enum Outcome: Hashable, Sendable {
        case local, remote
        /// Something of both.
        case both(JSON)
        /// A person must decide.
        case undecided
    }

    /// Names the local side in a text that keeps both.
    package struct Signature: Hashable, Sendable {
        package var device: DeviceID
        package var at: Timestamp
        package var key: MutationKey

        package init(device: DeviceID, at: Timestamp, key: MutationKey) {
            self.device = device
            self.at = at
            self.key = key
        }

        /// The last 8 characters of the key: its first ones are only the time. A text that holds this is never extended by
        /// the same mutation again.
        var marker: String { "[#\(key.text.suffix(8))]" }

        /// `--- pump-17 · 2026-11-20 21:04Z [#9f2c11ab] ---`
        var line: String {
            let time = RFC3339.text(at)
            return "--- \(device) · \(time.prefix(10)) \(time.dropFirst(11).prefix(5))Z \(marker) ---"
        }
    }

    package var strategy: FieldStrategy
    /// The local stamp is the higher one.
    package var localIsLater: Bool
    package var signature: Signature

    package init(strategy: FieldStrategy, localIsLater: Bool, signature: Signature) {
        self.strategy = strategy
        self.localIsLater = localIsLater
        self.signature = signature
    }

    /// - Parameters: `nil` means that this side removed the field.
    package func decide(local: JSON?, remote: JSON?) -> Outcome {
        switch strategy {
        case .server: return .remote
        case .client: return .local
        case .manual: return .undecided
        case .lww, .counter: return later
        case .merge:
            guard let mine = local?.object, let theirs = remote?.object else { return later }
            return .both(.object(unite(mine, theirs, depth: 1)))
        case .append:
            switch (local, remote) {
            case (.string(let mine), .string(let theirs)): return texts(mine.text, theirs.text)
            case (.array(let mine), .array(let theirs)): return union(mine, theirs)
            default: return later
            }
        case .set:
            guard let mine = local?.array, let theirs = remote?.array else { return later }
            return union(mine, theirs)
        case .max: return extremum(.max, local, remote)
        case .min: return extremum(.min, local, remote)
        }
    }

    private var later: Outcome { localIsLater ? .local : .remote }

    /// Deeper objects are taken whole: nobody nests a form that far, and a hostile document ends here.
    private static let depthMax = 8

    private func unite(_ mine: JSONObject, _ theirs: JSONObject, depth: Int) -> JSONObject {
        var result = theirs
        for member in mine.members {
            let name = member.name.text
            switch (member.value, theirs[name]) {
            case (.object(let a), .object(let b)?) where depth < FieldContest.depthMax:
                result[name] = .object(unite(a, b, depth: depth + 1))
            case (let value, let other): if other == nil || localIsLater { result[name] = value }
            }
        }
        return result
    }

    private func texts(_ mine: String, _ theirs: String) -> Outcome {
        // One contains the other: nothing is lost by taking the longer one. Or we were here before.
        if theirs.utf8.starts(with: mine.utf8) || theirs.contains(signature.marker) { return .remote }
        if mine.utf8.starts(with: theirs.utf8) { return .local }
        return .both(.string("\(theirs)\n\n\(signature.line)\n\(mine)"))
    }

    private func union(_ mine: [JSON], _ theirs: [JSON]) -> Outcome {
        let all = mine.reduce(JSON.array(theirs)) { Fold.apply(FieldOperation("", .add, $1), to: $0) ?? $0 }
        return .both(all)
    }

    private func extremum(_ kind: FieldOperation.Kind, _ local: JSON?, _ remote: JSON?) -> Outcome {
        guard let local, let remote, !local.isNull, !remote.isNull else { return later }
        switch (local, remote) {
        case (.number, .number), (.string, .string):
            return Fold.apply(FieldOperation("", kind, local), to: remote) == local ? .local : .remote
        default: return later
        }
    }
}
