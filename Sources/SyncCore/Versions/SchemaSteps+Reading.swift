extension SchemaSteps {
    /// A mistake in steps, with its place as a JSON pointer below them.
    package struct Fault: Error, Hashable, CustomStringConvertible {
        package var pointer: String
        package var expected: String

        package var description: String { "\(pointer.isEmpty ? "" : pointer + ": ")expected \(expected)" }
    }

    /// Largest number of steps between two versions.
    package static let countMax = 1_000

    /// Reads a list of steps. Each is an object with one member:
    ///
    ///     [{"rename": {"site": "site_id"}}, {"values": {"severity": {"minor": "low"}}}, {"default": {"inspector": "unknown"}},
    ///      {"drop": "legacy"}, {"wrap": "tags"}, {"unwrap": "tags"}, {"move": {"lat": "position.lat"}}]
    ///
    /// - Parameter unfit: Steps that are not allowed here.
    package init(reading json: JSON, without unfit: Set<String> = []) throws(Fault) {
        guard let items = json.array else { throw Fault(pointer: "", expected: "a list of steps, not \(json.kind)") }
        steps = []
        let words = Self.words.filter { !unfit.contains($0) }
        for (index, item) in items.enumerated() {
            steps += try Self.steps(in: item, at: "/\(index)", words)
            guard steps.count <= Self.countMax else {
                throw Fault(pointer: "/\(index)", expected: "at most \(Self.countMax) steps")
            }
        }
    }

    private static let words = ["default", "drop", "move", "rename", "unwrap", "values", "wrap"]

    private static func steps(in item: JSON, at pointer: String, _ words: [String]) throws(Fault) -> [SchemaStep] {
        guard let members = item.object?.members, members.count == 1, let member = members.first else {
            throw Fault(pointer: pointer, expected: "an object with one member: \(words.joined(separator: ", "))")
        }
        let value = member.value, place = pointer + "/" + JSONPointer.escaped(member.name.text)
        let word = words.contains { sameBytes($0, member.name.text) } ? member.name.text : ""
        switch word {
        case "rename":
            return try fields(value, at: place) { field, new, place throws(Fault) in .rename(field, to: try text(new, at: place)) }
        case "default": return try fields(value, at: place) { field, value, _ in .fill(field, value) }
        case "values":
            return try fields(value, at: place) { field, map, place throws(Fault) in .values(field, try object(map, at: place)) }
        case "move":
            return try fields(value, at: place) { from, to, place throws(Fault) in try move(from, try text(to, at: place), at: place) }
        case "drop": return try names(value, at: place).map { .drop($0) }
        case "wrap": return try names(value, at: place).map { .wrap($0) }
        case "unwrap": return try names(value, at: place).map { .unwrap($0) }
        default:
            let nearest = nearestName(to: member.name.text, among: words).map { "; did you mean \($0)?" } ?? ""
            throw Fault(pointer: place, expected: "\(words.joined(separator: ", "))\(nearest)")
        }
    }

    private static func fields(
        _ value: JSON, at place: String, _ step: (String, JSON, String) throws(Fault) -> SchemaStep
    ) throws(Fault) -> [SchemaStep] {
        var steps: [SchemaStep] = []
        for member in try object(value, at: place).members {
            let field = member.name.text
            steps.append(try step(field, member.value, place + "/" + JSONPointer.escaped(field)))
        }
        return steps
    }

    private static func move(_ from: String, _ to: String, at place: String) throws(Fault) -> SchemaStep {
        if let member = Self.member(to), !from.utf8.contains(UInt8(ascii: ".")) { return .moveInto(from, member) }
        if let member = Self.member(from), !to.utf8.contains(UInt8(ascii: ".")) { return .moveOut(member, to) }
        throw Fault(pointer: place, expected: "a field and a member of another field, such as lat and position.lat")
    }

    private static func member(_ text: String) -> SchemaStep.Member? {
        let names = text.split(separator: ".", omittingEmptySubsequences: false)
        return names.count == 2 && names.allSatisfy { !$0.isEmpty } ? SchemaStep.Member(String(names[0]), String(names[1])) : nil
    }

    private static func text(_ value: JSON, at place: String) throws(Fault) -> String {
        guard let text = value.text, !text.isEmpty else { throw Fault(pointer: place, expected: "the new name") }
        return text
    }

    private static func object(_ value: JSON, at place: String) throws(Fault) -> JSONObject {
        guard let object = value.object, !object.isEmpty else { throw Fault(pointer: place, expected: "an object with fields") }
        return object
    }

    private static func names(_ value: JSON, at place: String) throws(Fault) -> [String] {
        if let name = value.text, !name.isEmpty { return [name] }
        let names = value.array?.compactMap(\.text) ?? []
        guard !names.isEmpty, names.count == value.array?.count else {
            throw Fault(pointer: place, expected: "the name of a field, or a list of names")
        }
        return names
    }

    /// The steps as ``init(reading:)`` reads them.
    package var json: JSON {
        .array(
            steps.map { step in
                switch step {
                case .rename(let old, let new): ["rename": .object([old: .string(new)])]
                case .fill(let field, let value): ["default": .object([field: value])]
                case .drop(let field): ["drop": .string(field)]
                case .values(let field, let map): ["values": .object([field: .object(map)])]
                case .wrap(let field): ["wrap": .string(field)]
                case .unwrap(let field): ["unwrap": .string(field)]
                case .moveInto(let field, let member): ["move": .object([field: .string(member.text)])]
                case .moveOut(let member, let field): ["move": .object([member.text: .string(field)])]
                }
            })
    }
}
