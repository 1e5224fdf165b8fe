/// A JSON value whose numbers and strings keep their source text.
///
/// Documents pass through the agent unchanged: 2^53+1, `1.10` and text in any normalisation form must come back exactly, which no `Double`
/// and no decoded string can guarantee. So a number is stored as its digits, a string as the source between its quotes, and members keep
/// their order. Equality compares the meaning all the same: `1.10` equals `1.1`, `"\u0041"` equals `"A"`, and the order of members does not
/// matter. Text is compared by its UTF-8, never by Unicode equivalence.
package enum JSON: Sendable {
    case null
    case bool(Bool)
    case number(JSONNumber)
    case string(JSONString)
    case array([JSON])
    case object(JSONObject)
}

/// The source between the quotes of a JSON string, escapes included. It is always valid, because it was made by the reader or by escaping.
package struct JSONString: Sendable {
    package let source: String

    package init(_ text: String) {
        source = JSONString.escape(text)
    }

    /// - Precondition: `source` comes from the reader, which has checked its escapes.
    init(validSource source: String) {
        self.source = source
    }

    /// Joins two sources. Two valid sources in sequence are valid: no escape crosses the border, and neither can contain half a surrogate
    /// pair.
    init(joining first: JSONString, _ second: JSONString) {
        source = first.source + second.source
    }

    /// The decoded text.
    package var text: String { hasEscapes ? JSONString.unescape(source) : source }

    var hasEscapes: Bool {
        var source = source
        return source.withUTF8 { $0.contains(UInt8(ascii: "\\")) }
    }
}

/// A number as its digits were sent, in the grammar of RFC 8259.
package struct JSONNumber: Sendable {
    package let source: String

    package init(_ value: Int64) {
        source = String(value)
    }

    package init(_ value: UInt64) {
        source = String(value)
    }

    /// - Returns: `nil` for NaN and infinities, which JSON does not have.
    package init?(_ value: Double) {
        guard value.isFinite else { return nil }
        let text = "\(value)"
        source = text.hasSuffix(".0") ? String(text.dropLast(2)) : text
    }

    /// - Precondition: `source` comes from the reader, which has checked the grammar.
    init(validSource source: String) {
        self.source = source
    }
}

/// Members in the order sent. Names are unique; the reader refuses duplicates.
///
/// A lookup in an object with many members uses an index of their names, and a removal leaves a gap; gaps are closed when they outnumber
/// the members. So finding, replacing, adding and removing cost the same in an object of ten members and of ten thousand, and a merge is
/// linear in its input, whatever the sender. Small objects have no index: comparing a few names is faster than hashing one.
package struct JSONObject: Sendable {
    package struct Member: Sendable {
        package var name: JSONString
        package var value: JSON
    }

    /// The members, with gaps where some were removed.
    private var slots: [Member]
    // Invariant: nil while there are at most `unindexedMax` slots, which have no gaps then.
    private var index: Index?

    /// Number of members up to which names are compared without an index.
    static let unindexedMax = 16

    package init() {
        slots = []
    }

    /// - Precondition: The names are unique.
    package init(uniqueMembers members: [Member]) {
        self.init(uniqueMembers: members, places: nil)
    }

    /// - Parameter places: The place of each name among the members, if known.
    init(uniqueMembers members: [Member], places: [JSONString: Int]?) {
        slots = members
        guard members.count > JSONObject.unindexedMax else { return }
        index = Index(places: places ?? JSONObject.places(of: members))
    }

    /// The members. Linear after a removal, which has left a gap, so it must not be called between removals.
    package var members: [Member] {
        guard let index, !index.gaps.isEmpty else { return slots }
        JSONWork.count(slots.count)
        var members: [Member] = []
        members.reserveCapacity(count)
        for (place, member) in slots.enumerated() where !index.gaps.contains(place) { members.append(member) }
        return members
    }

    package var isEmpty: Bool { count == 0 }
    package var count: Int { slots.count - (index?.gaps.count ?? 0) }

    /// Reads, replaces in place, appends, or with `nil` removes the member of that name.
    package subscript(name: String) -> JSON? {
        get {
            place(of: name).map { slots[$0].value }
        }
        set {
            if let place = place(of: name) {
                if let newValue { slots[place].value = newValue } else { remove(at: place) }
            } else if let newValue {
                append(Member(name: JSONString(name), value: newValue))
            }
        }
    }

    /// The member of that name. It costs no conversion of the name, unlike the lookup by a text.
    package subscript(name: JSONString) -> JSON? {
        guard let index else {
            JSONWork.count(slots.count)
            return slots.first { $0.name == name }?.value
        }
        JSONWork.count(1)
        return index.places[name].map { slots[$0].value }
    }

    package var names: [String] { members.map(\.name.text) }

    private func place(of name: String) -> Int? {
        guard let index else {
            JSONWork.count(slots.count)
            return slots.firstIndex { $0.name.means(name) }
        }
        JSONWork.count(1)
        return index.places[JSONString(name)]
    }

    private mutating func append(_ member: Member) {
        slots.append(member)
        if index != nil {
            ownIndex().places[member.name] = slots.count - 1
        } else if slots.count > JSONObject.unindexedMax {
            index = Index(places: JSONObject.places(of: slots))
        }
    }

    private mutating func remove(at place: Int) {
        guard index != nil else {
            slots.remove(at: place)
            return
        }
        let index = ownIndex()
        index.places[slots[place].name] = nil
        index.gaps.insert(place)
        // Its value is freed now; only the gap stays.
        slots[place].value = .null
        if 2 * index.gaps.count >= slots.count { self = JSONObject(uniqueMembers: members) }
    }

    /// The index, referenced by this value alone.
    private mutating func ownIndex() -> Index {
        // Checked before the index is taken out of its property, which would be a second reference.
        if isKnownUniquelyReferenced(&index), let index { return index }
        let own = Index(places: index?.places ?? [:], gaps: index?.gaps ?? [])
        JSONWork.count(slots.count)
        index = own
        return own
    }

    private static func places(of members: [Member]) -> [JSONString: Int] {
        JSONWork.count(members.count)
        var places = [JSONString: Int](minimumCapacity: members.count)
        for (place, member) in members.enumerated() { places[member.name] = place }
        return places
    }

    /// Unchecked: it changes only while one value alone references it (``ownIndex()``).
    private final class Index: @unchecked Sendable {
        var places: [JSONString: Int]
        /// Places of removed members.
        var gaps: Set<Int>

        init(places: [JSONString: Int], gaps: Set<Int> = []) {
            self.places = places
            self.gaps = gaps
        }
    }
}

// MARK: - Building and taking apart

extension JSON {
    package static func string(_ text: String) -> JSON { .string(JSONString(text)) }
    package static func int(_ value: Int64) -> JSON { .number(JSONNumber(value)) }
    package static func int(_ value: Int) -> JSON { .number(JSONNumber(Int64(value))) }
    /// `null` where there is no text.
    package static func optional(_ text: String?) -> JSON { text.map { .string($0) } ?? .null }
    /// `null` where there is no number.
    package static func optional(_ value: Int64?) -> JSON { value.map { .int($0) } ?? .null }
    package static func list(_ texts: [String]) -> JSON { .array(texts.map { .string($0) }) }

    package var text: String? {
        if case .string(let value) = self { value.text } else { nil }
    }

    package var bool: Bool? {
        if case .bool(let value) = self { value } else { nil }
    }

    package var array: [JSON]? {
        if case .array(let value) = self { value } else { nil }
    }

    package var object: JSONObject? {
        if case .object(let value) = self { value } else { nil }
    }

    /// The value if it is a whole number that `Int64` represents exactly; `1.0` and `1e3` count as whole.
    package var int: Int64? {
        if case .number(let value) = self { value.int } else { nil }
    }

    /// The value as an id or a version: a text, or the digits of a whole number.
    package var idText: String? { text ?? int.map { String($0) } }

    package var double: Double? {
        if case .number(let value) = self { value.double } else { nil }
    }

    package var isNull: Bool {
        if case .null = self { true } else { false }
    }

    /// The kind of the value, for messages: `a string`.
    package var kind: String {
        switch self {
        case .null: "null"
        case .bool: "a Boolean"
        case .number: "a number"
        case .string: "a string"
        case .array: "an array"
        case .object: "an object"
        }
    }
}

extension JSON: ExpressibleByStringLiteral, ExpressibleByIntegerLiteral, ExpressibleByBooleanLiteral,
    ExpressibleByNilLiteral, ExpressibleByArrayLiteral, ExpressibleByDictionaryLiteral
{
    package init(stringLiteral value: String) { self = .string(JSONString(value)) }
    package init(integerLiteral value: Int64) { self = .number(JSONNumber(value)) }
    package init(booleanLiteral value: Bool) { self = .bool(value) }
    package init(nilLiteral: ()) { self = .null }
    package init(arrayLiteral elements: JSON...) { self = .array(elements) }
    package init(dictionaryLiteral elements: (String, JSON)...) {
        var object = JSONObject()
        for (name, value) in elements { object[name] = value }
        self = .object(object)
    }
}

extension JSONObject: ExpressibleByDictionaryLiteral {
    package init(dictionaryLiteral elements: (String, JSON)...) {
        self.init()
        for (name, value) in elements { self[name] = value }
    }
}

extension JSONNumber {
    package var int: Int64? {
        if let value = Int64(source) { return value }
        let decimal = Decimal(self)
        guard decimal.exponent >= 0, decimal.exponent < 20, let digits = Int64(decimal.digits) else { return nil }
        var value = decimal.isNegative ? -digits : digits
        for _ in 0..<decimal.exponent {
            let (product, overflow) = value.multipliedReportingOverflow(by: 10)
            if overflow { return nil }
            value = product
        }
        return value
    }

    /// The nearest `Double`; infinite when too large.
    package var double: Double { Double(source) ?? .nan }
}

// MARK: - Equality by meaning

extension JSON: Hashable {
    package static func == (left: JSON, right: JSON) -> Bool {
        JSONWork.count(1)
        return switch (left, right) {
        case (.null, .null): true
        case (.bool(let a), .bool(let b)): a == b
        case (.number(let a), .number(let b)): a == b
        case (.string(let a), .string(let b)): a == b
        case (.array(let a), .array(let b)): a == b
        case (.object(let a), .object(let b)): a == b
        case (.null, _), (.bool, _), (.number, _), (.string, _), (.array, _), (.object, _): false
        }
    }

    package func hash(into hasher: inout Hasher) {
        switch self {
        case .null: hasher.combine(0)
        case .bool(let value): hasher.combine(value)
        case .number(let value): hasher.combine(value)
        case .string(let value): hasher.combine(value)
        case .array(let value): hasher.combine(value)
        case .object(let value): hasher.combine(value)
        }
    }
}

extension JSONString: Hashable {
    package static func == (left: JSONString, right: JSONString) -> Bool {
        if differAtOnce(left.source, right.source) { return false }
        if sameBytes(left.source, right.source) { return true }
        guard left.hasEscapes || right.hasEscapes else { return false }
        return sameBytes(left.text, right.text)
    }

    package func hash(into hasher: inout Hasher) {
        var text = text
        text.withUTF8 { hasher.combine(bytes: UnsafeRawBufferPointer($0)) }
        // A separator: the same bytes divided differently are other names.
        hasher.combine(0xFF as UInt8)
    }

    /// Compares with plain text, without decoding when there are no escapes.
    package func means(_ other: String) -> Bool {
        if JSONString.differAtOnce(source, other) { return false }
        if sameBytes(source, other) { return !hasEscapes }
        // An escape is longer than the character that it stands for.
        return source.utf8.count > other.utf8.count && hasEscapes && sameBytes(text, other)
    }

    /// Returns whether the first byte already shows that the two differ: a character that begins no escape stands for itself. Member names
    /// are compared very often, and mostly differ there.
    private static func differAtOnce(_ left: String, _ right: String) -> Bool {
        guard let first = left.utf8.first, let second = right.utf8.first else { return left.isEmpty != right.isEmpty }
        let backslash = UInt8(ascii: "\\")
        return first != second && first != backslash && second != backslash
    }
}

// MARK: - Equality of spelling

extension JSON {
    /// Returns whether two values that may be equal also have the same spelling, byte for byte.
    package func isSpelled(as other: JSON) -> Bool {
        JSONWork.count(1)
        return switch (self, other) {
        case (.null, .null): true
        case (.bool(let a), .bool(let b)): a == b
        case (.number(let a), .number(let b)): sameBytes(a.source, b.source)
        case (.string(let a), .string(let b)): sameBytes(a.source, b.source)
        case (.array(let a), .array(let b)): a.count == b.count && zip(a, b).allSatisfy { $0.isSpelled(as: $1) }
        case (.object(let a), .object(let b)): a.isSpelled(as: b)
        case (.null, _), (.bool, _), (.number, _), (.string, _), (.array, _), (.object, _): false
        }
    }
}

extension JSONObject {
    package func isSpelled(as other: JSONObject) -> Bool {
        let (mine, theirs) = (members, other.members)
        return mine.count == theirs.count
            && zip(mine, theirs).allSatisfy { sameBytes($0.name.source, $1.name.source) && $0.value.isSpelled(as: $1.value) }
    }
}

extension JSONNumber: Hashable, Comparable {
    package static func == (left: JSONNumber, right: JSONNumber) -> Bool {
        if sameBytes(left.source, right.source) { return true }
        let (first, second) = (left.shortParts, right.shortParts)
        return first == second && (first != nil || Decimal(left) == Decimal(right))
    }

    package func hash(into hasher: inout Hasher) {
        let parts = shortParts
        hasher.combine(parts)
        if parts == nil { hasher.combine(Decimal(self)) }
    }

    /// Exact for any number of digits.
    package static func < (left: JSONNumber, right: JSONNumber) -> Bool {
        Decimal(left) < Decimal(right)
    }

    /// The exact sum as a decimal number, or `nil` when it would need more than `maxDigits` digits.
    package func adding(_ other: JSONNumber, maxDigits: Int = JSONNumber.sumDigitsMax) -> JSONNumber? {
        Decimal(self).adding(Decimal(other), maxDigits: maxDigits)
    }

    package static let sumDigitsMax = 400

    /// The number of digits that a sum would need, where that exceeds the limit.
    package func digitsOfSum(with other: JSONNumber) -> Int? {
        adding(other) == nil ? Decimal(self).digitsOfSum(with: Decimal(other)) : nil
    }

    package var negated: JSONNumber {
        if source.hasPrefix("-") { return JSONNumber(validSource: String(source.dropFirst())) }
        return Decimal(self).digits == "0" ? self : JSONNumber(validSource: "-" + source)
    }
}

extension JSONObject: Hashable {
    /// Each member is compared with one other, once. Members that differ under the same name are not compared in another order, which would
    /// double the work at each level of a deep document.
    package static func == (left: JSONObject, right: JSONObject) -> Bool {
        guard left.count == right.count else { return false }
        let (mine, theirs) = (left.members, right.members)
        for place in mine.indices {
            guard mine[place].name == theirs[place].name else { return equalInAnyOrder(mine[place...], theirs[place...]) }
            guard mine[place].value == theirs[place].value else { return false }
        }
        return true
    }

    private static func equalInAnyOrder(_ left: ArraySlice<Member>, _ right: ArraySlice<Member>) -> Bool {
        let values = Dictionary(right.map { ($0.name, $0.value) }, uniquingKeysWith: { first, _ in first })
        return left.allSatisfy { values[$0.name] == $0.value }
    }

    package func hash(into hasher: inout Hasher) {
        var sum = 0
        for member in members {
            var one = Hasher()
            one.combine(member.name)
            one.combine(member.value)
            sum &+= one.finalize()
        }
        hasher.combine(sum)
    }
}
