// Values of the app's own types as JSON, without Foundation. A `Double` becomes the shortest text that reads back as the same
// number, and a `JSONValue` inside of such a type stays what it is.

extension JSONValue {
    /// The value as JSON, by its `Encodable` conformance.
    ///
    /// - Throws: The error of the conformance, or `EncodingError.invalidValue` for a number that is not finite and for more than
    ///   64 levels.
    public init(encoding value: some Encodable) throws {
        self = try Self.encode(value, at: [])
    }

    fileprivate static func encode(_ value: some Encodable, at path: [any CodingKey]) throws -> JSONValue {
        if let value = value as? JSONValue { return value }
        if let value = value as? JSONObject { return .object(value) }
        if let value = value as? JSONNumber { return .decimal(value) }
        guard path.count < JSONParser.levelsMax else {
            let reason = "the value has more than \(JSONParser.levelsMax) levels"
            throw EncodingError.invalidValue(value, EncodingError.Context(codingPath: path, debugDescription: reason))
        }
        let encoder = ValueEncoder(codingPath: path)
        try value.encode(to: encoder)
        return encoder.node.value
    }
}

extension JSONObject {
    /// The members of a value that encodes as an object, such as a structure.
    ///
    /// - Throws: The error of the conformance, or `EncodingError.invalidValue` for a value that does not encode as an object.
    public init(encoding value: some Encodable) throws {
        guard case .object(let object) = try JSONValue(encoding: value) else {
            let reason = "the value does not encode as an object"
            throw EncodingError.invalidValue(value, EncodingError.Context(codingPath: [], debugDescription: reason))
        }
        self = object
    }
}

extension JSONValue: Encodable {
    public func encode(to encoder: any Encoder) throws {
        switch self {
        case .null:
            var container = encoder.singleValueContainer()
            try container.encodeNil()
        case .bool(let value): try value.encode(to: encoder)
        case .integer(let value): try value.encode(to: encoder)
        case .decimal(let number): try number.encode(to: encoder)
        case .string(let value): try value.encode(to: encoder)
        case .array(let value): try value.encode(to: encoder)
        case .object(let value): try value.encode(to: encoder)
        }
    }
}

extension JSONObject: Encodable {
    public func encode(to encoder: any Encoder) throws {
        var container = encoder.container(keyedBy: NameKey.self)
        for (name, value) in self { try container.encode(value, forKey: NameKey(stringValue: name)) }
    }
}

extension JSONNumber: Encodable {
    /// Encoders of other libraries have no place for the text of a number. They get a whole number where it fits, and otherwise
    /// a `Double`.
    ///
    /// - Throws: `EncodingError.invalidValue` if the `Double` would be another number.
    public func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        if let whole = integer(as: Int64.self) { return try container.encode(whole) }
        if let whole = integer(as: UInt64.self) { return try container.encode(whole) }
        guard double.isFinite, JSONNumber(double)?.hasSameValue(as: self) == true else {
            let reason = "\(text) does not fit a Double"
            throw EncodingError.invalidValue(
                self, EncodingError.Context(codingPath: encoder.codingPath, debugDescription: reason))
        }
        try container.encode(double)
    }
}

/// Any text as a key.
struct NameKey: CodingKey {
    var stringValue: String
    var intValue: Int?

    init(stringValue: String) {
        self.stringValue = stringValue
    }

    init(intValue: Int) {
        stringValue = String(intValue)
        self.intValue = intValue
    }
}

/// A value that is being put together: containers of one value share it.
private final class Node {
    enum Kind {
        case value(JSONValue)
        case array
        case object
    }

    /// A value that encodes nothing is an object without members.
    var kind = Kind.object
    private var elements: [Node] = []
    private var members: [(name: String, node: Node)] = []

    init(_ kind: Kind = .object) {
        self.kind = kind
    }

    var value: JSONValue {
        switch kind {
        case .value(let value): return value
        case .array: return .array(elements.map(\.value))
        case .object:
            var object = JSONObject()
            for (name, node) in members { object[name] = node.value }
            return .object(object)
        }
    }

    func append(_ node: Node) { elements.append(node) }
    func set(_ name: String, _ node: Node) { members.append((name, node)) }
}

private final class ValueEncoder: Encoder {
    let codingPath: [any CodingKey]
    let userInfo: [CodingUserInfoKey: Any] = [:]
    let node: Node

    init(codingPath: [any CodingKey], node: Node = Node()) {
        self.codingPath = codingPath
        self.node = node
    }

    func container<Key: CodingKey>(keyedBy type: Key.Type) -> KeyedEncodingContainer<Key> {
        node.kind = .object
        return KeyedEncodingContainer(EncodedMembers<Key>(node: node, codingPath: codingPath))
    }

    func unkeyedContainer() -> any UnkeyedEncodingContainer {
        node.kind = .array
        return EncodedElements(node: node, codingPath: codingPath)
    }

    func singleValueContainer() -> any SingleValueEncodingContainer { Single(node: node, codingPath: codingPath) }
}

private struct Single: SingleValueEncodingContainer {
    let node: Node
    let codingPath: [any CodingKey]

    func encodeNil() { node.kind = .value(.null) }
    func encode(_ value: Bool) { node.kind = .value(.bool(value)) }
    func encode(_ value: String) { node.kind = .value(.string(value)) }
    func encode(_ value: Int) { whole(value) }
    func encode(_ value: Int8) { whole(value) }
    func encode(_ value: Int16) { whole(value) }
    func encode(_ value: Int32) { whole(value) }
    func encode(_ value: Int64) { whole(value) }
    func encode(_ value: UInt) { whole(value) }
    func encode(_ value: UInt8) { whole(value) }
    func encode(_ value: UInt16) { whole(value) }
    func encode(_ value: UInt32) { whole(value) }
    func encode(_ value: UInt64) { whole(value) }
    func encode(_ value: Float) throws { try real(value, value.description) }
    func encode(_ value: Double) throws { try real(value, value.description) }
    func encode(_ value: some Encodable) throws { node.kind = .value(try JSONValue.encode(value, at: codingPath)) }

    private func whole(_ value: some FixedWidthInteger) {
        node.kind = .value(Int64(exactly: value).map { .integer($0) } ?? .decimal(JSONNumber(value)))
    }

    private func real(_ value: some BinaryFloatingPoint, _ text: String) throws {
        guard value.isFinite else {
            throw EncodingError.invalidValue(
                value, EncodingError.Context(codingPath: codingPath, debugDescription: "\(text) has no JSON form"))
        }
        node.kind = .value(.decimal(JSONNumber(checked: text)))
    }
}

private struct EncodedMembers<Key: CodingKey>: KeyedEncodingContainerProtocol {
    let node: Node
    let codingPath: [any CodingKey]

    private func add(_ key: some CodingKey, _ kind: Node.Kind = .object) -> Node {
        let fresh = Node(kind)
        node.set(key.stringValue, fresh)
        return fresh
    }

    func encodeNil(forKey key: Key) { _ = add(key, .value(.null)) }

    func encode(_ value: some Encodable, forKey key: Key) throws {
        _ = add(key, .value(try JSONValue.encode(value, at: codingPath + [key])))
    }

    func nestedContainer<Nested: CodingKey>(keyedBy type: Nested.Type, forKey key: Key) -> KeyedEncodingContainer<Nested> {
        KeyedEncodingContainer(EncodedMembers<Nested>(node: add(key, .object), codingPath: codingPath + [key]))
    }

    func nestedUnkeyedContainer(forKey key: Key) -> any UnkeyedEncodingContainer {
        EncodedElements(node: add(key, .array), codingPath: codingPath + [key])
    }

    func superEncoder() -> any Encoder { superEncoder(for: NameKey(stringValue: "super")) }
    func superEncoder(forKey key: Key) -> any Encoder { superEncoder(for: key) }

    private func superEncoder(for key: some CodingKey) -> any Encoder {
        ValueEncoder(codingPath: codingPath + [key], node: add(key))
    }
}

private struct EncodedElements: UnkeyedEncodingContainer {
    let node: Node
    let codingPath: [any CodingKey]
    private(set) var count = 0

    init(node: Node, codingPath: [any CodingKey]) {
        self.node = node
        self.codingPath = codingPath
    }

    private var path: [any CodingKey] { codingPath + [NameKey(intValue: count)] }

    private mutating func add(_ kind: Node.Kind = .object) -> Node {
        let fresh = Node(kind)
        node.append(fresh)
        count += 1
        return fresh
    }

    mutating func encodeNil() { _ = add(.value(.null)) }
    mutating func encode(_ value: some Encodable) throws { _ = add(.value(try JSONValue.encode(value, at: path))) }

    mutating func nestedContainer<Nested: CodingKey>(keyedBy type: Nested.Type) -> KeyedEncodingContainer<Nested> {
        let path = path
        return KeyedEncodingContainer(EncodedMembers<Nested>(node: add(.object), codingPath: path))
    }

    mutating func nestedUnkeyedContainer() -> any UnkeyedEncodingContainer {
        let path = path
        return EncodedElements(node: add(.array), codingPath: path)
    }

    mutating func superEncoder() -> any Encoder {
        let path = path
        return ValueEncoder(codingPath: path, node: add())
    }
}
