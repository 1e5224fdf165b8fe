import SyncCore

/// A record that two sides change at the same time, from one seed: a few fields, each with a rule of its own.
struct MergeCase: CustomStringConvertible {
    static let mine = DeviceID(trusted: "mine"), other = DeviceID(trusted: "other"), third = DeviceID(trusted: "third")
    static let name = RecordName(EntityName(trusted: "audits"), RecordID(trusted: "a-1"))

    /// Fields by name, with what they hold. A member's rule stands under its dotted name.
    enum Kind { case text, number, list, scalars, elements, object, nested }
    static let kinds: [(field: String, rule: FieldStrategy, kind: Kind)] = [
        ("lww", .lww, .text), ("server", .server, .text), ("client", .client, .text), ("manual", .manual, .text),
        ("count", .counter, .number), ("notes", .append, .text), ("log", .append, .list), ("tags", .set, .scalars),
        ("parts", .set, .elements), ("peak", .max, .number), ("low", .min, .number), ("form", .merge, .object),
    ]
    static let members: [(name: String, rule: FieldStrategy?, kind: Kind)] = [
        ("a", nil, .text), ("b", nil, .number), ("o", nil, .nested), ("server", .server, .text), ("client", .client, .text),
        ("manual", .manual, .text), ("count", .counter, .number), ("notes", .append, .text), ("log", .append, .list),
        ("tags", .set, .scalars), ("parts", .set, .elements), ("peak", .max, .number), ("low", .min, .number),
    ]

    let seed: UInt64
    private(set) var random: SeededRandom
    private(set) var rules = EntityRules()
    private(set) var base: JSONObject = [:]
    private let kinds: [(field: String, rule: FieldStrategy, kind: Kind)]
    /// Now and then a value is of a kind that its rule does not know.
    private let isOdd: Bool

    private let members: [(name: String, rule: FieldStrategy?, kind: Kind)]

    /// - Parameters:
    ///   - fields: Fields, of which up to three are taken.
    ///   - members: Names of the members that a merged object may have.
    init(seed: UInt64, fields: [String]? = nil, isOdd: Bool = true, members: [String]? = nil) {
        self.seed = seed
        self.isOdd = isOdd
        self.members = Self.members.filter { members?.contains($0.name) ?? true }
        var random = SeededRandom(seed: seed)
        let all = Self.kinds.filter { fields?.contains($0.field) ?? true }
        var kinds: [(field: String, rule: FieldStrategy, kind: Kind)] = []
        for _ in 0...random.number(below: 3) {
            let next = all[random.number(below: all.count)]
            if !kinds.contains(where: { $0.field == next.field }) { kinds.append(next) }
        }
        self.kinds = kinds
        for kind in kinds { rules.fields[kind.field] = kind.rule }
        for member in Self.members {
            if let rule = member.rule { rules.fields["form.\(member.name)"] = rule }
        }
        self.random = random
        for kind in kinds where !chance(5) { base[kind.field] = value(kind.kind, "b") }
    }

    mutating func chance(_ one: Int) -> Bool { random.number(below: one) == 0 }
    mutating func number(_ below: Int) -> Int { random.number(below: below) }

    // MARK: Values

    private mutating func value(_ kind: Kind, _ side: String) -> JSON {
        if isOdd, chance(12) { return [JSON.int(number(9)), "odd", ["odd": 1], [], .null][number(5)] }
        switch kind {
        case .text: return .string("\(side)\(number(3))")
        case .number: return .int(number(9))
        case .list, .scalars: return .array((0..<number(3)).map { _ in element(kind, side) })
        case .elements:
            var list: [JSON] = []
            for id in 0..<3 where chance(2) { list.append(["id": .int(id), "n": .string("\(side)\(number(3))")]) }
            return .array(list)
        case .object: return .object(members(of: self.members.map { ($0.name, $0.kind) }, side))
        case .nested: return .object(members(of: [("x", .text), ("y", .number)], side))
        }
    }

    private mutating func element(_ kind: Kind, _ side: String) -> JSON {
        kind == .elements ? ["id": .int(number(4)), "n": .string("\(side)\(number(3))")] : .string("\(chance(3) ? "b" : side)\(number(4))")
    }

    private mutating func members(of kinds: [(String, Kind)], _ side: String) -> JSONObject {
        var object: JSONObject = [:]
        for (name, kind) in kinds where chance(2) { object[name] = value(kind, side) }
        return object
    }

    // MARK: Changes

    /// The record as a side leaves it.
    mutating func changed(
        by side: String, since seen: JSONObject? = nil, canRemove: (String) -> Bool = { _ in true }
    ) -> JSONObject {
        let base = seen ?? base
        var document = base
        for kind in kinds where !chance(4) {
            document[kind.field] = change(base[kind.field], kind.kind, side, canRemove: canRemove(kind.field))
        }
        return document
    }

    private mutating func change(_ value: JSON?, _ kind: Kind, _ side: String, canRemove: Bool = true) -> JSON? {
        if canRemove, value != nil, chance(8) { return nil }
        switch (kind, value) {
        case (.text, .string(let old)?) where chance(2): return .string(old.text + "+\(side)")
        case (.text, .string(let old)?) where canRemove && chance(6): return .string(String(old.text.dropLast()))
        case (.list, .array(let old)?) where chance(2): return .array(old + [element(kind, side)])
        case (.scalars, .array(let old)?), (.elements, .array(let old)?), (.list, .array(let old)?):
            var list = old.filter { _ in !chance(4) }
            for index in list.indices where chance(3) { list[index] = .object(edited(list[index].object, side) ?? ["id": 9]) }
            if kind != .elements { list = list.filter { $0.object == nil } }
            let new = element(kind, side)
            if chance(2), !list.contains(where: { SetElement.isSame($0, new) }) { list.append(new) }
            return .array(list)
        case (.object, .object(let old)?): return .object(changed(old, self.members.map { ($0.name, $0.kind) }, side))
        case (.nested, .object(let old)?): return .object(changed(old, [("x", .text), ("y", .number)], side))
        default: return self.value(kind, side)
        }
    }

    private mutating func edited(_ element: JSONObject?, _ side: String) -> JSONObject? {
        guard var element else { return nil }
        element["n"] = .string("\(side)\(number(3))")
        return element
    }

    private mutating func changed(_ old: JSONObject, _ kinds: [(String, Kind)], _ side: String) -> JSONObject {
        var object = old
        for (name, kind) in kinds where chance(3) { object[name] = change(old[name], kind, side, canRemove: isOdd || name == "a") }
        return object
    }

    // MARK: Changes as they are sent

    /// Returns the change that makes `document` of the base.
    ///
    /// - Parameter isPlain: `true` for plain values, as from a client that does not know the rules; `false` for the form that agents send.
    func content(_ document: JSONObject, isPlain: Bool) -> MutationContent { content(document, since: base, isPlain: isPlain) }

    /// The same of a record that was seen as something else.
    func content(_ document: JSONObject, since base: JSONObject, isPlain: Bool = false) -> MutationContent {
        var content = MutationContent(.update)
        for member in document.members where base[member.name.text] != member.value { content.data[member.name.text] = member.value }
        content.unset = base.names.filter { document[$0] == nil }
        if isPlain { return content }
        content.base = WireForm.bases(content, seen: base, rules: rules)
        return WireForm.of(content, seen: base, rules: rules)
    }

    /// The record as the third device made it, in commit 1.
    var record: VersionedRecord {
        let stamp = HybridTime(milliseconds: 1, counter: 0, node: "3")
        return VersionedRecord(data: base, stamp: .init(version: 1, hlc: stamp, writer: Self.third))
    }

    func push(
        _ content: MutationContent, by device: DeviceID, onto record: VersionedRecord?, base: Int64 = 1, ms: UInt64, commit: Int64
    ) -> HubMerge.Outcome {
        let mutation = IncomingMutation(
            record: Self.name, content: content, baseVersion: base, hlc: Self.stamp(ms, device), clock: .synced,
            clientUpdatedAt: FieldContestTests.signature.at)
        let key = MutationKey(trusted: "0199c3f3-aaaa-\(device)")
        return HubMerge.apply(
            .init(device: device, key: key, mutation: mutation), to: record, rules: rules, commit: commit,
            now: Timestamp(milliseconds: 1_000))
    }

    static func stamp(_ ms: UInt64, _ device: DeviceID) -> HybridTime {
        HybridTime(milliseconds: ms, counter: 0, node: HybridClock.node(of: device))
    }

    func local(_ content: MutationContent, ms: UInt64) -> Rebase.Local {
        let signature = FieldContest.Signature(
            device: Self.mine, at: FieldContestTests.signature.at, key: MutationKey(trusted: "0199c3f3-aaaa-\(Self.mine)"))
        return Rebase.Local(record: Self.name, content: content, hlc: Self.stamp(ms, Self.mine), signature: signature)
    }

    var description: String {
        let rules = kinds.map { "\($0.field): \($0.rule.rawValue)" }.joined(separator: ", ")
        return "seed \(seed) (\(rules))\n  base   \(JSON.object(base).json)"
    }
}

extension MutationContent {
    /// The change as text, in a line.
    var line: String {
        let operations = operations.map { " \($0.field) \($0.kind.rawValue) \($0.value.json)" }.joined()
        return "\(action.rawValue) \(JSON.object(data).json) unset \(unset)\(operations)"
            + (base.isEmpty ? "" : " of \(JSON.object(base).json)")
    }
}

extension SeededRandom {
    fileprivate mutating func number(below limit: Int) -> Int { Int(next() % UInt64(limit)) }
}

/// Something that a side wrote: a value, an element of a set, or the removal of one of them (`nil`).
struct Written {
    /// Names of members, from the record down.
    let path: [String]
    let rule: FieldStrategy
    let known: JSON?
    let side: JSON?
    /// The element of a set or list that this is about.
    var element: JSON?
    var isRemoval = false

    var place: String { path.joined(separator: ".") }

    /// Returns the writes that make `side` of `base`, as far down as the rules look.
    static func all(_ base: JSONObject, _ side: JSONObject, _ rules: EntityRules) -> [Written] {
        var names = side.names
        for name in base.names where side[name] == nil { names.append(name) }
        return names.flatMap { of(base[$0], side[$0], [$0], rules) }
    }

    private static func of(_ base: JSON?, _ side: JSON?, _ path: [String], _ rules: EntityRules) -> [Written] {
        if base == side { return [] }
        let place = path.joined(separator: ".")
        let rule = path.count == 1 ? rules.strategy(of: place) : rules.fields[place] ?? (side?.object == nil ? .lww : .merge)
        let whole = Written(path: path, rule: rule, known: base, side: side)
        switch (rule, side) {
        case (.merge, .object(let side)?):
            let known = base?.object ?? [:]
            let names = side.names + known.names.filter { side[$0] == nil }
            return names.flatMap { of(known[$0], side[$0], path + [$0], rules) }
        case (.set, .array(let side)?), (.append, .array(let side)?):
            let known = base?.array ?? []
            var written: [Written] = []
            for element in side where !known.contains(element) { written.append(whole.about(element)) }
            // An element may be twice in a list that only grows, and none is removed for good.
            let keys = side.map { SetElement.place(of: $0, in: "") }
            for element in known where rule == .set && !keys.contains(SetElement.place(of: element, in: "")) {
                written.append(whole.about(element, isRemoval: true))
            }
            return written
        default: return [whole]
        }
    }

    private func about(_ element: JSON, isRemoval: Bool = false) -> Written {
        var one = self
        one.element = element
        one.isRemoval = isRemoval
        return one
    }

    // MARK: Results of a merge

    /// - Parameters:
    ///   - beside: The value of the other side.
    ///   - isCreated: `true` for a create by a side that had seen nothing.
    func isIn(_ result: JSON?, beside: JSON?, isCreated: Bool) -> Bool {
        if let element {
            let list = result?.array ?? []
            return isRemoval ? !list.contains { SetElement.isSame($0, element) } : list.contains(element)
        }
        if result == side { return true }
        switch (rule, side, result) {
        case (.append, .string(let side)?, _):
            let added = known?.text.flatMap { side.text.hasPrefix($0) ? String(side.text.dropFirst($0.count)) : nil } ?? side.text
            // Where a list has replaced the text, an added text becomes an element.
            return result?.text?.contains(added) ?? result?.array?.contains(.string(added)) ?? false
        case (.counter, _, _):
            guard let side = side?.int else { return false }
            // A counter that the other side has removed counts from 0.
            return result?.int == side + (beside?.int ?? 0) - (isCreated ? 0 : known?.int ?? 0)
        case (.max, _, _):
            guard let side = side?.int, let result = result?.int else { return false }
            return side < result
        case (.min, _, _):
            guard let side = side?.int, let result = result?.int else { return false }
            return result < side
        default: return false
        }
    }

    /// Returns whether a lost value holds it: the value itself, or an object or list around it.
    func isIn(lost field: String, _ value: JSON?) -> Bool {
        if let element, field == SetElement.place(of: element, in: place) { return isRemoval ? value == nil : value == element }
        guard field == place || place.hasPrefix(field + ".") else { return false }
        let depth = field == place ? path.count : field.split(separator: ".").count
        let found = path[depth...].reduce(value) { $0?.object?[$1] }
        guard let element else { return found == side }
        let has = found?.array?.contains { isRemoval ? SetElement.isSame($0, element) : $0 == element } ?? false
        return has != isRemoval
    }
}
