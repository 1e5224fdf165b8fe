/// Two sides changed one field: what becomes of it (PROTOCOL D2). The same rules serve the hub, which merges what comes in,
/// and the agent, which rebases what waits.
///
/// | strategy | two values in a contest |
/// |---|---|
/// | `lww` | the higher stamp wins |
/// | `server`, `client` | that side wins |
/// | `merge` | two objects are brought together member by member (``ThreeWay``); otherwise as `lww` |
/// | `append` | an addition goes behind the other text or list; of two texts that were both rewritten both stay, the local one below a line that names its author; of two lists the union |
/// | `counter` | with the value that the local side had seen, the difference is added; otherwise as `lww` |
/// | `set` | two lists: the union, without what the local side took out of the list that it had seen |
/// | `max`, `min` | the extremum, when the two can be compared; otherwise as `lww` |
/// | `manual` | undecided |
///
/// Agents turn plain values into operations where a rule has one (``WireForm``), so most contests of `counter`, `append`,
/// `set`, `max` and `min` never come here: what is left is somebody who rewrote the whole value.
package struct FieldContest: Sendable {
    package enum Outcome: Hashable, Sendable {
        case local, remote
        /// Something of both.
        case both(JSON)
        /// A person must decide.
        case undecided
    }

    /// What the local side had seen in the field when it changed it.
    package enum Known: Hashable, Sendable {
        case unknown
        /// `nil`: there was no such field.
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

        /// The first 8 hexadecimal digits of the key's SHA-256: parts of the key itself are only the time, or a number that
        /// every device counts. A text that holds this is never extended by the same mutation again.
        var marker: String {
            let digest = SHA256.hash(Array(key.text.utf8)).prefix(4)
            return "[#\(digest.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined())]"
        }

        /// `--- ines · pump-17 · 2026-11-20 21:04Z [#9f2c11ab] ---`
        var line: String {
            let time = RFC3339.text(at)
            let names = [author, device.text].compactMap { $0 }.joined(separator: " · ")
            return "--- \(names) · \(time.prefix(10)) \(time.dropFirst(11).prefix(5))Z \(marker) ---"
        }

        /// What goes between the two texts.
        var divider: String { "\n\n\(line)\n" }
    }

    package var rules: EntityRules
    /// Dotted where it is a member of an object that is merged.
    package var field: String
    /// The local stamp is the higher one.
    package var localIsLater: Bool
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
    package func decide(local: JSON?, remote: JSON?) -> Outcome {
        switch rules.strategy(of: field) {
        case .server: return .remote
        case .client: return .local
        case .manual: return .undecided
        case .lww: return later
        case .counter: return sum(local, remote)
        case .merge:
            guard let mine = local?.object, let theirs = remote?.object else { return later }
            return ThreeWay(contest: self).merge(base: known.value?.object ?? [:], local: mine, remote: theirs)
        case .append:
            switch (local, remote) {
            case (.string(let mine), .string(let theirs)): return bounded(texts(mine, theirs))
            case (.array(let mine), .array(let theirs)): return lists(mine, theirs)
            default: return later
            }
        case .set:
            guard let mine = local?.array, let theirs = remote?.array else { return later }
            return united(mine, theirs)
        case .max: return extremum(.max, local, remote)
        case .min: return extremum(.min, local, remote)
        }
    }

    var later: Outcome { localIsLater ? .local : .remote }

    /// Whether a text is longer than its field may get by merging (`max_len`, PROTOCOL D3): then a person decides, because
    /// cutting it would lose what somebody wrote.
    package static func isTooLong(_ value: JSON?, _ field: String, _ rules: EntityRules) -> Bool {
        guard let limit = rules.maxLength[field], let text = value?.text else { return false }
        return text.unicodeScalars.count > limit
    }

    private func bounded(_ outcome: Outcome) -> Outcome {
        guard case .both(let value) = outcome, FieldContest.isTooLong(value, field, rules) else { return outcome }
        return .undecided
    }

    // MARK: Parts

    private func sum(_ local: JSON?, _ remote: JSON?) -> Outcome {
        guard case .value(let known) = known, let delta = WireForm.difference(from: known, to: local),
            let sum = Fold.apply(FieldOperation(field, .increment, .number(delta)), to: remote), case .number = sum
        else { return later }
        return outcome(of: sum, local, remote)
    }

    private func texts(_ mine: JSONString, _ theirs: JSONString) -> Outcome {
        let (local, remote) = (mine.text, theirs.text)
        // One contains the other: nothing is lost by taking the longer one. Or we were here before.
        if remote.utf8.starts(with: local.utf8) || remote.contains(signature.marker) { return .remote }
        if local.utf8.starts(with: remote.utf8) { return .local }
        if case .value(let known?) = known, let suffix = WireForm.suffix(of: .string(mine), after: known)?.text {
            return .both(.string(remote + suffix))
        }
        return .both(.string(remote + signature.divider + local))
    }

    private func lists(_ mine: [JSON], _ theirs: [JSON]) -> Outcome {
        if case .value(let known?) = known, let suffix = WireForm.suffix(of: .array(mine), after: known)?.array {
            return outcome(of: .array(theirs + suffix), .array(mine), .array(theirs))
        }
        return united(mine, theirs)
    }

    private func united(_ mine: [JSON], _ theirs: [JSON]) -> Outcome {
        let operations = WireForm.setDifference(from: known.value?.array ?? [], to: mine, field)
        let all = operations.reduce(JSON.array(theirs)) { Fold.apply($1, to: $0, replaces: localIsLater) ?? $0 }
        return outcome(of: all, .array(mine), .array(theirs))
    }

    private func extremum(_ kind: FieldOperation.Kind, _ local: JSON?, _ remote: JSON?) -> Outcome {
        guard let local, let remote, let extreme = Fold.extreme(kind, local, remote) else { return later }
        return extreme == remote ? .remote : .local
    }

    /// Equal is not enough: whoever rewrote a value keeps it as they wrote it.
    private func outcome(of united: JSON, _ local: JSON?, _ remote: JSON?) -> Outcome {
        if united == remote { return .remote }
        return united == local ? .local : .both(united)
    }
}
