package import SyncCore

/// What the apps of two devices do with one record while neither has a link, and what is there before.
package struct Program: Sendable, CustomStringConvertible {
    /// What is known to end otherwise so far. Each is to be switched on with the change that mends it.
    package enum Allows {
        /// Changes have a time to live.
        package static let timesToLive = false
        /// A device writes over its own words in a text: sent alone the hub keeps them as an addition, sent as one they were never there.
        package static let textsWrittenOver = false
    }

    package enum Act: Hashable, Sendable {
        /// A value of a field.
        case set(String)
        case unset(String)
        /// As apps do it: by a whole value made of what is seen.
        case count(Int64), line, rewrite, item, toggle(String), member(String)
        /// By operations.
        case increment(Int64), add(String), remove(String), countMember(Int64)
        case reach(Int64)
        case create, delete

        /// The fields that it writes; all of them for what is about the whole record.
        var fields: Set<String> {
            switch self {
            case .set(let field), .unset(let field): [field]
            case .count, .increment: ["n"]
            case .line, .rewrite: ["txt"]
            case .item: ["a"]
            case .toggle, .add, .remove: ["tags"]
            case .member, .countMember: ["o"]
            case .reach: ["p", "q"]
            case .create, .delete: []
            }
        }
    }

    package struct Step: Hashable, Sendable {
        package var act: Act
        /// Seconds after both have lost their links.
        package var at: Int64
    }

    package var rules: EntityRules
    /// Both have the record before they lose their links.
    package var isShared: Bool
    /// By device.
    package var steps: [[Step]]
    /// On a link, a device looks for news before it sends.
    package var pullsFirst: Bool

    package var description: String {
        let devices = steps.enumerated().map { "\($0.offset): \($0.element.map { "\($0.act) at \($0.at)" }.joined(separator: ", "))" }
        return
            "\(rules.onDeleted.rawValue), \(isShared ? "shared" : "new"), \(pullsFirst ? "pull first" : "push first"); \(devices.joined(separator: "; "))"
    }

    package static let fields: [String: FieldStrategy] = [
        "s": .lww, "l": .lww, "v": .server, "c": .client, "m": .manual, "n": .counter, "a": .append, "txt": .append, "tags": .set,
        "p": .max, "q": .min, "o": .merge, "o.k": .counter,
    ]

    /// What a program is drawn for.
    package enum Purpose: Sendable {
        /// The same with edits made one and with each sent alone.
        case coalescing
        /// The same whoever is first.
        case order
    }

    package init(seed: UInt64, for purpose: Purpose) {
        var random = SeededRandom(seed: seed &* 0x9E37_79B9_7F4A_7C15 &+ 991)
        var rules = EntityRules()
        rules.fields = Program.fields
        rules.onDeleted = [.deleteWins, .updateWins, .updateWins, .manual][Int.random(in: 0..<4, using: &random)]
        // A field that people decide about makes every deletion theirs.
        if random.fraction() < 0.7 { rules.fields["m"] = nil }
        self.rules = rules
        isShared = random.fraction() < 0.75
        pullsFirst = Bool.random(using: &random)
        var steps: [[Step]] = []
        _ = Bool.random(using: &random)
        for device in 0...1 {
            let count = Int.random(in: 1...(purpose == .coalescing ? 5 : 3), using: &random)
            let times: [Int64] = (0..<count).map { _ in Int64.random(in: 0..<1_000, using: &random) }.sorted()
            var acts: [Act] = isShared ? [] : [.create]
            while acts.count < count { acts.append(Self.act(of: device, &random)) }
            if random.fraction() < (purpose == .coalescing ? 0.25 : 0.3) { acts[acts.count - 1] = .delete }
            steps.append(zip(acts, times).map { Step(act: $0, at: $1) })
        }
        self.steps = steps
        exclude(purpose)
    }

    private static func act(of device: Int, _ random: inout SeededRandom) -> Act {
        let tags = ["red", "green", "blue"]
        let tag = tags[Int.random(in: 0..<3, using: &random)]
        switch Int.random(in: 0..<16, using: &random) {
        case 0, 1: return .set("s")
        case 2: return .set("l")
        case 3: return .set("v")
        case 4: return .set("c")
        case 5: return .set("m")
        case 6: return .unset(["s", "l", "c"][Int.random(in: 0..<3, using: &random)])
        case 7: return .count(Int64.random(in: -3...3, using: &random))
        case 8: return .line
        case 9: return .rewrite
        case 10: return .item
        case 11: return .toggle(tag)
        case 12: return Bool.random(using: &random) ? .add(tag) : .remove(tag)
        case 13: return .member("x")
        case 14: return Bool.random(using: &random) ? .increment(Int64.random(in: 1...9, using: &random)) : .countMember(2)
        default: return .reach(Int64.random(in: 0...99, using: &random))
        }
    }

    /// Takes out what is known to end otherwise, and what no rule says anything about.
    private mutating func exclude(_ purpose: Purpose) {
        for device in 0...1 {
            if !Allows.textsWrittenOver, !isShared || steps[device].contains(where: { $0.act == .rewrite }) {
                let first = isShared ? steps[device].firstIndex { $0.act == .rewrite || $0.act == .line } : nil
                steps[device] = steps[device].enumerated().filter { place, step in
                    place == first || step.act != .rewrite && step.act != .line
                }.map(\.element)
            }
        }
    }
}
