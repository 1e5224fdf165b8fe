/// A JSON value. No number changes on its way: a whole number of 64 bits is an `Int64`, and every other number keeps its text.
///
///     let data: JSONObject = ["status": "open", "count": 3, "price": .decimal("1.10")]
///
/// Two values are equal if they have the same members, in any order. `1` and `1.0` are different values, because they have
/// different texts.
public enum JSONValue: Sendable, Equatable {
    case null
    case bool(Bool)
    case integer(Int64)
    /// A number with a fraction or an exponent, a whole number that does not fit 64 bits, or `-0`.
    case decimal(JSONNumber)
    case string(String)
    case array([JSONValue])
    case object(JSONObject)
}

// MARK: Reading a value

extension JSONValue {
    public var isNull: Bool { self == .null }

    public var bool: Bool? {
        if case .bool(let value) = self { value } else { nil }
    }

    /// The value as a whole number; `nil` if it is none, or has more than 64 bits.
    public var integer: Int64? {
        if case .integer(let value) = self { value } else { nil }
    }

    /// The nearest floating-point number. It can differ from the text of the number; ``number`` does not.
    public var double: Double? {
        switch self {
        case .integer(let value): Double(value)
        case .decimal(let number): number.double
        case .null, .bool, .string, .array, .object: nil
        }
    }

    /// The number with its exact text.
    public var number: JSONNumber? {
        switch self {
        case .integer(let value): JSONNumber(value)
        case .decimal(let number): number
        case .null, .bool, .string, .array, .object: nil
        }
    }

    public var string: String? {
        if case .string(let value) = self { value } else { nil }
    }

    public var array: [JSONValue]? {
        if case .array(let value) = self { value } else { nil }
    }

    public var object: JSONObject? {
        if case .object(let value) = self { value } else { nil }
    }

    /// The member of an object; `nil` if this is no object, or has no such member.
    public subscript(name: String) -> JSONValue? { object?[name] }

    /// The element of a list; `nil` if this is no list, or is shorter.
    public subscript(index: Int) -> JSONValue? {
        guard let array, array.indices.contains(index) else { return nil }
        return array[index]
    }
}

// MARK: Writing a value in Swift

extension JSONValue: ExpressibleByNilLiteral, ExpressibleByBooleanLiteral, ExpressibleByIntegerLiteral,
    ExpressibleByFloatLiteral, ExpressibleByStringInterpolation, ExpressibleByArrayLiteral, ExpressibleByDictionaryLiteral
{
    public init(nilLiteral: ()) { self = .null }
    public init(booleanLiteral value: Bool) { self = .bool(value) }
    public init(integerLiteral value: Int64) { self = .integer(value) }
    public init(stringLiteral value: String) { self = .string(value) }
    public init(arrayLiteral elements: JSONValue...) { self = .array(elements) }

    /// Swift makes a `Double` of a literal such as `1.10` before this library sees it. Use `.decimal("1.10")` for an exact number.
    public init(floatLiteral value: Double) {
        guard let number = JSONNumber(value) else { preconditionFailure("\(value) has no JSON form") }
        self = .decimal(number)
    }

    /// The names of a literal must differ.
    public init(dictionaryLiteral elements: (String, JSONValue)...) { self = .object(JSONObject(unique: elements)) }
}

// MARK: Text

extension JSONValue: CustomStringConvertible {
    /// Reads one JSON text (RFC 8259), strictly: no second member of one name, no half of a surrogate pair, at most
    /// 64 levels.
    ///
    /// - Throws: ``EdgeSyncError`` of the kind `invalidArgument`, with the byte at which the text stops being JSON.
    public init(json text: String) throws(EdgeSyncError) {
        do {
            self = try JSONParser.parse(Array(text.utf8))
        } catch {
            throw .invalidArgument("the text is not JSON: \(error)")
        }
    }

    /// The value as JSON without white space, with the members of objects in their order.
    public var description: String {
        var writer = JSONWriter()
        writer.append(self)
        return String(decoding: writer.bytes, as: UTF8.self)
    }
}
