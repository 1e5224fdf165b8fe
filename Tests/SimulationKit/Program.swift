package import SyncCore

/// The changes of two devices without a link to one record, and the state of the record before.
package struct Program: Sendable, CustomStringConvertible {
    /// Programs whose results are known to depend on the order so far. Switch each on with the change that fixes it.
    package enum Allows {
        /// Changes have a time to live.
        package static let timesToLive = false
        /// A device overwrites its own words in a text. Sent alone, the hub keeps the words as an addition; coalesced, they never reach
        /// it.
        package static let textsWrittenOver = false
        /// A device adds an element that its record has, and another one has removed it and pulls before it pushes. The removal rests on
        /// the pulled version then, so it takes away the addition that its person had not seen (PROTOCOL D2). Or the device deletes the
        /// record after it: of an addition and a deletion that are joined, the deletion is left.
        package static let elementsAddedAgain = false
    }

    package enum Act: Hashable, Sendable {
        /// A value of a field.
        case set(String)
        case unset(String)
        /// Changes as apps make them: a whole value, made from the present one.
        case count(Int64), line, rewrite, item, toggle(String), member(String)
        /// Changes by operations.
        case increment(Int64), add(String), remove(String), countMember(Int64)
        case reach(Int64)
        case create, delete

        /// The fields that the step writes; all fields for a step about the whole record.
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
        /// Seconds since both devices lost their links.
        package var at: Int64
    }

    package var rules: EntityRules
    /// Both devices have the record before they lose their links.
    package var isShared: Bool
    /// Steps, by device.
    package var steps: [[Step]]
    /// Steps after the device's first exchange with the hub, by device.
    package var later: [[Step]] = []
    /// The device whose clock is not trusted.
    package var untrusted: Int?
    /// A device with a new link pulls before it pushes.
    package var pullsFirst: Bool

    /// Both devices delete the record at the end, and a deletion gives way to changes that its device had not seen. A change that became
    /// one with the deletion behind it is not there to give way to.
    package var deletesOnBothSides: Bool { rules.onDeleted == .updateWins && steps.allSatisfy { $0.last?.act == .delete } }

    package var description: String {
        let devices = steps.enumerated().map { "\($0.offset): \($0.element.map { "\($0.act) at \($0.at)" }.joined(separator: ", "))" }
        return
            "\(rules.onDeleted.rawValue), \(isShared ? "shared" : "new"), \(pullsFirst ? "pull first" : "push first"); \(devices.joined(separator: "; "))"
            + (later.isEmpty ? "" : "; later \(later.map { $0.map { "\($0.act)" } })") + (untrusted.map { "; \($0) has no time" } ?? "")
    }

    /// The program whose devices make all changes of a row at one moment.
    package var atOnce: Program {
        var program = self
        program.steps = steps.map { row in row.map { Step(act: $0.act, at: row.last?.at ?? 0) } }
        program.later = later.map { row in row.map { Step(act: $0.act, at: 0) } }
        return program
    }

    package static let fields: [String: FieldStrategy] = [
        "s": .lww, "l": .lww, "v": .server, "c": .client, "m": .manual, "n": .counter, "a": .append, "txt": .append, "tags": .set,
        "p": .max, "q": .min, "o": .merge, "o.k": .counter,
    ]

    /// The comparison that a program is drawn for.
    package enum Purpose: Sendable {
        /// Coalesced edits must have the result of edits that are sent one by one.
        case coalescing
        /// Both orders of arrival must have the same result.
        case order
        /// All ways must have the same result.
        case ways
    }

    package init(seed: UInt64, for purpose: Purpose) {
        var random = SeededRandom(seed: seed &* 0x9E37_79B9_7F4A_7C15 &+ 991)
        var rules = EntityRules()
        rules.fields = Program.fields
        rules.onDeleted = [.deleteWins, .updateWins, .updateWins, .manual][Int.random(in: 0..<4, using: &random)]
        // With a manual field, a person would have to decide about every deletion.
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
        if purpose == .ways {
            later = (0...1).map { device in
                (0..<Int.random(in: 0...2, using: &random)).map { Step(act: Self.act(of: device, &random), at: Int64($0)) }
            }
            if random.fraction() < 0.25 { untrusted = Int.random(in: 0...1, using: &random) }
        }
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

    /// Takes out steps whose results are known to depend on the order, and steps that no rule covers.
    private mutating func exclude(_ purpose: Purpose) {
        for device in 0...1 {
            if !Allows.textsWrittenOver, !isShared || steps[device].contains(where: { $0.act == .rewrite }) {
                let first = isShared ? steps[device].firstIndex { $0.act == .rewrite || $0.act == .line } : nil
                steps[device] = steps[device].enumerated().filter { place, step in
                    place == first || step.act != .rewrite && step.act != .line
                }.map(\.element)
            }
            let isJoinedAway = purpose == .coalescing && steps[device].last?.act == .delete
            if !Allows.elementsAddedAgain, isShared, isJoinedAway || purpose == .order && pullsFirst {
                let removal = steps[device].firstIndex { $0.act == .remove("red") || $0.act == .toggle("red") } ?? steps[device].count
                steps[device] = steps[device].enumerated().filter { $0 > removal || $1.act != .add("red") }.map(\.element)
            }
        }
    }
}
