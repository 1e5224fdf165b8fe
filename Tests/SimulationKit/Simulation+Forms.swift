import SyncCore

// Changes of apps beside tokens. Several devices change fields of every rule in every way, and only the model of the rules knows the
// results (``RuleModel``).
extension Entities {
    static let formRules: [String: FieldStrategy] = [
        "xs": .lww, "xv": .server, "xc": .client, "xn": .counter, "xt": .append, "xg": .set, "xp": .set, "xa": .max, "xi": .min,
        "xo": .merge, "xo.k": .counter, "xo.g": .set, "xo.a": .max,
    ]
}

extension Simulation {
    /// Adds a form. It is drawn from another generator, so that a seed keeps its history.
    func addForm(to operation: inout Operation, _ agent: SimAgent) {
        var random = SeededRandom(seed: scenario.seed &* 0x2545_F491_4F6C_DD1D &+ UInt64(operation.number))
        let isLed = scenario.toward.map { Self.rulesOfForms.contains($0) } ?? false
        // Operations on members keep edits apart, and a history that is led to coalescing needs joined edits.
        let share = isLed ? 1 : scenario.toward == .coalescedInDoubt ? 0 : 0.4
        guard Entities.counted.contains(operation.record.entity), random.fraction() < share else { return }
        let view = seen(operation.record, agent)
        for _ in 0..<Int.random(in: 1...3, using: &random) { addField(to: &operation, view, &random) }
    }

    private static let rulesOfForms: Set<Ablation> = [
        .unseenDeletionWins, .membersByArrival, .membersByField, .lesserLetThrough, .countsAsValues, .givingWayUntold,
    ]

    private func addField(to operation: inout Operation, _ view: JSONObject?, _ random: inout SeededRandom) {
        // A few values, so that devices often write equal ones.
        let value = JSON.string("x\(Int.random(in: 0...4, using: &random))")
        let number = Int64.random(in: -9...9, using: &random)
        let tag = ["red", "green", "blue"][Int.random(in: 0..<3, using: &random)]
        func operate(_ field: String, _ kind: FieldOperation.Kind, _ value: JSON) {
            // A value precedes the operations on its field. An object that is written whole has no operations on its members.
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
