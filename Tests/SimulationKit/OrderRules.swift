import SyncCore

/// The result that two devices must reach, in either order of arrival, when both wrote one record without having seen the other's change.
package struct OrderRules {
    private let program: Program
    /// Outcomes, by the device that came first.
    private let outcomes: [ProgramWorld.Outcome]

    package init(_ program: Program, _ outcomes: [ProgramWorld.Outcome]) {
        (self.program, self.outcomes) = (program, outcomes)
    }

    /// - Parameter counts: Number of times that both devices had changed a field, by its rule.
    package func faults(_ counts: inout [String: Int]) -> [String] {
        var faults: [String] = []
        let wrote = program.steps.map { $0.reduce(into: Set<String>()) { $0.formUnion($1.act.fields) } }
        let deletes = program.steps.map { $0.contains { $0.act == .delete } }
        // A record in dispute stays as the first device left it until a person decides.
        let isOpen = outcomes.contains { $0.disputes.contains { !$0.isEmpty } }
        if isOpen || (program.rules.onDeleted == .manual && deletes.contains(true))
            || (deletes.contains(true) && program.rules.fields["m"] != nil)
        {
            return manual(wrote, &counts)
        }
        let (one, other) = (outcomes[0].document, outcomes[1].document)
        guard let one, let other else {
            counts["gone", default: 0] += 1
            if (one == nil) != (other == nil) { faults.append("there or not depends on the order") }
            return faults
        }
        if deletes.contains(true) { counts["back", default: 0] += 1 }
        for (name, rule) in Program.fields.sorted(by: { $0.key < $1.key }) where !name.contains(".") {
            let (left, right) = (one[name], other[name])
            let isContested = wrote[0].contains(name) && wrote[1].contains(name)
            let word = name == "txt" ? "text" : name == "a" ? "list" : rule.rawValue
            if isContested { counts[word, default: 0] += 1 }
            // There is nothing to decide unless both devices have written the record.
            if !isContested || program.isShared == false {
                if !isContested, program.isShared, left != right { faults.append("\(name): \(shown(left)) or \(shown(right))") }
                if !isContested { continue }
            }
            switch rule {
            case .server, .client:
                // The hub's value stays: the value of the first device. The device's own value stays: the value of the last one.
                for (first, value) in [left, right].enumerated() {
                    let author = rule == .server ? first : 1 - first
                    guard let value, value.text?.hasPrefix("\(author)-") == true || isUnset(name, author) else {
                        if isUnset(name, author) { continue }
                        faults.append("\(name): \(shown(value)) with \(first) first, expected what \(author) wrote")
                        continue
                    }
                }
            case .append where name == "txt":
                for word in words(left).symmetricDifference(words(right)) { faults.append("txt: <\(word)> is there in one order only") }
            case .append, .set:
                if bag(left) != bag(right) { faults.append("\(name): \(shown(left)) or \(shown(right))") }
            case .lww, .merge, .counter, .max, .min: if left != right { faults.append("\(name): \(shown(left)) or \(shown(right))") }
            case .manual: break
            }
        }
        return faults
    }

    private func isUnset(_ field: String, _ device: Int) -> Bool { program.steps[device].contains { $0.act == .unset(field) } }

    /// No device overwrites unseen values of a manual field: in both orders the record holds the value of the first device.
    private func manual(_ wrote: [Set<String>], _ counts: inout [String: Int]) -> [String] {
        guard wrote[0].contains("m"), wrote[1].contains("m"), program.isShared,
            !program.steps.joined().contains(where: { $0.act == .delete })
        else {
            return []
        }
        counts["manual", default: 0] += 1
        var faults: [String] = []
        for (first, outcome) in outcomes.enumerated() {
            if outcome.document?["m"]?.text?.hasPrefix("\(first)-") != true {
                faults.append("m: \(shown(outcome.document?["m"])) with \(first) first")
            }
            if outcome.disputes[1 - first].isEmpty { faults.append("nobody is asked about m with \(first) first") }
        }
        return faults
    }

    private func shown(_ value: JSON?) -> String { value.map { PlainValue.text($0) } ?? "nothing" }

    private func bag(_ value: JSON?) -> [String] { (value?.array ?? []).map { PlainValue.text($0) }.sorted() }

    private func words(_ value: JSON?) -> Set<String> {
        Set((value?.text ?? "").split(separator: "<").compactMap { part in part.firstIndex(of: ">").map { String(part[..<$0]) } })
    }
}

extension Program {
    /// A program whose second device deletes the record that both have made. The first device has also written a field that people decide.
    package static func refusedCreate(pullsFirst: Bool) -> Program {
        var program = Program(seed: 1, for: .ways)
        program.rules.fields["m"] = .manual
        program.rules.onDeleted = .deleteWins
        (program.isShared, program.pullsFirst, program.untrusted, program.later) = (false, pullsFirst, nil, [])
        program.steps = [
            [Step(act: .create, at: 10), Step(act: .set("m"), at: 20)], [Step(act: .create, at: 30), Step(act: .delete, at: 40)],
        ]
        return program
    }

    /// A program whose second device writes a field that people decide, and then deletes the record. The first device writes the field too.
    package static func disputedBeforeDeletion(pullsFirst: Bool) -> Program {
        var program = Program(seed: 1, for: .ways)
        program.rules.fields["m"] = .manual
        program.rules.onDeleted = .manual
        (program.isShared, program.pullsFirst, program.untrusted, program.later) = (true, pullsFirst, nil, [])
        program.steps = [
            [Step(act: .set("m"), at: 10), Step(act: .set("s"), at: 20)], [Step(act: .set("m"), at: 30), Step(act: .delete, at: 40)],
        ]
        return program
    }

    /// A program that one test of ``OrderRules`` runs.
    package static func overwritten(pullsFirst: Bool) -> Program {
        var program = Program(seed: 1, for: .order)
        program.rules.fields["m"] = nil
        program.rules.onDeleted = .updateWins
        (program.isShared, program.pullsFirst) = (true, pullsFirst)
        program.steps = [[Step(act: .set("s"), at: 20), Step(act: .delete, at: 30)], [Step(act: .set("s"), at: 10)]]
        return program
    }
}
