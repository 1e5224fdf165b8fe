// JSON as values of the app's own types, without Foundation.

extension JSONValue {
    /// The value as a type of the app, by its `Decodable` conformance.
    ///
    /// A number of the type must hold the JSON number exactly where it is whole. A `Double` gets the nearest value; use
    /// ``JSONNumber`` in the type to keep the text.
    ///
    /// - Throws: `DecodingError`, with the path of the member that does not fit.
    public func decode<Value: Decodable>(_ type: Value.Type = Value.self) throws -> Value {
        try ValueDecoder(self, at: []).decode(type)
    }
}

extension JSONObject {
    /// The object as a type of the app; see ``JSONValue/decode(_:)``.
    public func decode<Value: Decodable>(_ type: Value.Type = Value.self) throws -> Value {
        try JSONValue.object(self).decode(type)
    }
}

extension JSONValue: Decodable {
    /// Decoders of other libraries give numbers as `Int64`, or else as `Double`.
    public init(from decoder: any Decoder) throws {
        if let decoder = decoder as? ValueDecoder {
            self = decoder.value
            return
        }
        // A decoder says only by an error that a value is of another kind.
        if let container = try? decoder.container(keyedBy: NameKey.self) {
            var object = JSONObject()
            for key in container.allKeys { object[key.stringValue] = try container.decode(JSONValue.self, forKey: key) }
            self = .object(object)
            return
        }
        // The same holds for a list.
        if var container = try? decoder.unkeyedContainer() {
            var elements: [JSONValue] = []
            while !container.isAtEnd { elements.append(try container.decode(JSONValue.self)) }
            self = .array(elements)
            return
        }
        let container = try decoder.singleValueContainer()
        if container.decodeNil() {
            self = .null
            return
        }
        // The same holds for each of the three.
        let bool = try? container.decode(Bool.self)
        let whole = bool == nil ? try? container.decode(Int64.self) : nil
        let real = bool == nil && whole == nil ? try? container.decode(Double.self) : nil
        if let bool {
            self = .bool(bool)
        } else if let whole {
            self = .integer(whole)
        } else if let real, let number = JSONNumber(real) {
            self = .decimal(number)
        } else {
            self = .string(try container.decode(String.self))
        }
    }
}

extension JSONObject: Decodable {
    public init(from decoder: any Decoder) throws {
        guard case .object(let object) = try JSONValue(from: decoder) else {
            throw DecodingError.typeMismatch(
                JSONObject.self, DecodingError.Context(codingPath: decoder.codingPath, debugDescription: "this is not an object"))
        }
        self = object
    }
}

extension JSONNumber: Decodable {
    public init(from decoder: any Decoder) throws {
        guard let number = try JSONValue(from: decoder).number else {
            throw DecodingError.typeMismatch(
                JSONNumber.self, DecodingError.Context(codingPath: decoder.codingPath, debugDescription: "this is not a number"))
        }
        self = number
    }
}

struct ValueDecoder: Decoder, SingleValueDecodingContainer {
    let value: JSONValue
    let codingPath: [any CodingKey]
    var userInfo: [CodingUserInfoKey: Any] { [:] }

    init(_ value: JSONValue, at path: [any CodingKey]) {
        self.value = value
        codingPath = path
    }

    func container<Key: CodingKey>(keyedBy type: Key.Type) throws -> KeyedDecodingContainer<Key> {
        guard let object = value.object else { throw mismatch(JSONObject.self, "this is not an object") }
        return KeyedDecodingContainer(DecodedMembers<Key>(object: object, codingPath: codingPath))
    }

    func unkeyedContainer() throws -> any UnkeyedDecodingContainer {
        guard let array = value.array else { throw mismatch([JSONValue].self, "this is not a list") }
        return DecodedElements(array: array, codingPath: codingPath)
    }

    func singleValueContainer() -> any SingleValueDecodingContainer { self }

    // MARK: One value

    func decodeNil() -> Bool { value.isNull }

    func decode(_ type: Bool.Type) throws -> Bool {
        guard let bool = value.bool else { throw mismatch(type, "this is neither true nor false") }
        return bool
    }

    func decode(_ type: String.Type) throws -> String {
        guard let string = value.string else { throw mismatch(type, "this is not a string") }
        return string
    }

    func decode(_ type: Double.Type) throws -> Double { try real(type) }
    func decode(_ type: Float.Type) throws -> Float { try real(type) }
    func decode(_ type: Int.Type) throws -> Int { try whole(type) }
    func decode(_ type: Int8.Type) throws -> Int8 { try whole(type) }
    func decode(_ type: Int16.Type) throws -> Int16 { try whole(type) }
    func decode(_ type: Int32.Type) throws -> Int32 { try whole(type) }
    func decode(_ type: Int64.Type) throws -> Int64 { try whole(type) }
    func decode(_ type: UInt.Type) throws -> UInt { try whole(type) }
    func decode(_ type: UInt8.Type) throws -> UInt8 { try whole(type) }
    func decode(_ type: UInt16.Type) throws -> UInt16 { try whole(type) }
    func decode(_ type: UInt32.Type) throws -> UInt32 { try whole(type) }
    func decode(_ type: UInt64.Type) throws -> UInt64 { try whole(type) }
    func decode<Value: Decodable>(_ type: Value.Type) throws -> Value { try Value(from: self) }

    private func whole<Whole: FixedWidthInteger>(_ type: Whole.Type) throws -> Whole {
        guard let number = value.number else { throw mismatch(type, "this is not a number") }
        guard let whole = number.integer(as: type) else { throw mismatch(type, "\(number) does not fit \(type)") }
        return whole
    }

    private func real<Real: BinaryFloatingPoint & LosslessStringConvertible>(_ type: Real.Type) throws -> Real {
        guard let number = value.number else { throw mismatch(type, "this is not a number") }
        guard let real = Real(number.text), real.isFinite else { throw mismatch(type, "\(number) does not fit \(type)") }
        return real
    }

    private func mismatch(_ type: Any.Type, _ reason: String) -> DecodingError {
        .typeMismatch(type, DecodingError.Context(codingPath: codingPath, debugDescription: reason))
    }
}

private struct DecodedMembers<Key: CodingKey>: KeyedDecodingContainerProtocol {
    let object: JSONObject
    let codingPath: [any CodingKey]

    var allKeys: [Key] { object.names.compactMap { Key(stringValue: $0) } }
    func contains(_ key: Key) -> Bool { object[key.stringValue] != nil }
    func decodeNil(forKey key: Key) throws -> Bool { try member(key).value.isNull }
    func decode<Value: Decodable>(_ type: Value.Type, forKey key: Key) throws -> Value { try member(key).decode(type) }

    func nestedContainer<Nested: CodingKey>(keyedBy type: Nested.Type, forKey key: Key) throws -> KeyedDecodingContainer<Nested> {
        try member(key).container(keyedBy: type)
    }

    func nestedUnkeyedContainer(forKey key: Key) throws -> any UnkeyedDecodingContainer { try member(key).unkeyedContainer() }
    func superDecoder() throws -> any Decoder { try member(NameKey(stringValue: "super")) }
    func superDecoder(forKey key: Key) throws -> any Decoder { try member(key) }

    private func member(_ key: some CodingKey) throws -> ValueDecoder {
        guard let value = object[key.stringValue] else {
            throw DecodingError.keyNotFound(
                key, DecodingError.Context(codingPath: codingPath, debugDescription: "the member \(key.stringValue) is missing"))
        }
        return ValueDecoder(value, at: codingPath + [key])
    }
}

private struct DecodedElements: UnkeyedDecodingContainer {
    let array: [JSONValue]
    let codingPath: [any CodingKey]
    private(set) var currentIndex = 0

    init(array: [JSONValue], codingPath: [any CodingKey]) {
        self.array = array
        self.codingPath = codingPath
    }

    var count: Int? { array.count }
    var isAtEnd: Bool { currentIndex == array.count }

    mutating func decodeNil() throws -> Bool {
        guard try element().value.isNull else { return false }
        currentIndex += 1
        return true
    }

    mutating func decode<Value: Decodable>(_ type: Value.Type) throws -> Value {
        let value = try element().decode(type)
        currentIndex += 1
        return value
    }

    mutating func nestedContainer<Nested: CodingKey>(keyedBy type: Nested.Type) throws -> KeyedDecodingContainer<Nested> {
        let container = try element().container(keyedBy: type)
        currentIndex += 1
        return container
    }

    mutating func nestedUnkeyedContainer() throws -> any UnkeyedDecodingContainer {
        let container = try element().unkeyedContainer()
        currentIndex += 1
        return container
    }

    mutating func superDecoder() throws -> any Decoder {
        let decoder = try element()
        currentIndex += 1
        return decoder
    }

    private func element() throws -> ValueDecoder {
        let path = codingPath + [NameKey(intValue: currentIndex)]
        guard !isAtEnd else {
            throw DecodingError.valueNotFound(
                JSONValue.self, DecodingError.Context(codingPath: path, debugDescription: "the list has no more elements"))
        }
        return ValueDecoder(array[currentIndex], at: path)
    }
}
