import SyncCore

// What apps write beside tokens: fields of every rule that several devices change in every way there is, and of which only the
// model of the rules knows what becomes (``RuleModel``).
extension Entities {
    static let formRules: [String: FieldStrategy] = [
        "xs": .lww, "xv": .server, "xc": .client, "xn": .counter, "xt": .append, "xg": .set, "xp": .set, "xa": .max, "xi": .min,
        "xo": .merge, "xo.k": .counter, "xo.g": .set, "xo.a": .max,
    ]
}

extension Simulation {
    /// Drawn from a generator of its own, so that a seed stays what it was.
    func addForm(to operation: inout Operation, _ agent: SimAgent) {
        var random = SeededRandom(seed: scenario.seed &* 0x2545_F491_4F6C_DD1D &+ UInt64(operation.number))
        let isLed = scenario.toward.map { Self.rulesOfForms.contains($0) } ?? false
        // A history that is led to the moment when edits are joined must not keep them apart by operations on members.
        let share = isLed ? 1 : scenario.toward == .coalescedInDoubt ? 0 : 0.4
        guard Entities.counted.contains(operation.record.entity), random.fraction() < share else { return }
        let view = seen(operation.record, agent)
        for _ in 0..<Int.random(in: 1...3, using: &random) { addField(to: &operation, view, &random) }
    }

    private static let rulesOfForms: Set<Ablation> = [
        .unseenDeletionWins, .membersByArrival, .membersByField, .lesserLetThrough, .countsAsValues, .givingWayUntold,
    ]

    private func addField(to operation: inout Operation, _ view: JSONObject?, _ random: inout SeededRandom) {
        // Few values, so that the same is often written twice.
        let value = JSON.string("x\(Int.random(in: 0...4, using: &random))")
        let number = Int64.random(in: -9...9, using: &random)
        let tag = ["red", "green", "blue"][Int.random(in: 0..<3, using: &random)]
        func operate(_ field: String, _ kind: FieldOperation.Kind, _ value: JSON) {
            // A value comes before the operations on its field; an object that is written whole has none on its members.
            let top = field.split(separator: ".").first.map { String($0) } ?? field
            guard operation.data[top] == nil else { return }
            operation.operations.append(FieldOperation(field, kind, value))
        }
        func set(_ field: String, _ value: JSON) {
            guard !operation.operations.contains(where: { $0.field == field || $0.field.hasPrefix("\(field).") }) else { return }
            operation.data[field] = value
        }
        switch Int.random(in: 0..<16, using: &random) {
        case 0: set("xs", value)
        case 1: set("xv", value)
        case 2: set("xc", value)
        case 3: set("xn", .int((view?["xn"]?.int ?? 0) + number))
        case 4: operate("xn", .increment, .int(number))
        case 5: set("xt", .string((view?["xt"]?.text ?? "") + "[\(operation.number)]"))
        case 6: set("xt", .string("[\(operation.number)]"))
        case 7:
            let tags = view?["xg"]?.array ?? []
            set("xg", .array(tags.contains(.string(tag)) ? tags.filter { $0 != .string(tag) } : tags + [.string(tag)]))
        case 8: operate("xg", Bool.random(using: &random) ? .add : .remove, .string(tag))
        case 9: operate("xp", .add, ["id": .string(tag), "colour": value])
        case 10: operate("xp", .remove, ["id": .string(tag)])
        case 11: set("xa", .int(number))
        case 12: operate("xi", .min, .int(number))
        case 13:
            var object = view?["xo"]?.object ?? [:]
            object[["a1", "b1"][Int.random(in: 0...1, using: &random)]] = value
            set("xo", .object(object))
        case 14: operate("xo.k", .increment, .int(number))
        default: operate("xo.g", Bool.random(using: &random) ? .add : .remove, .string(tag))
        }
    }
}
