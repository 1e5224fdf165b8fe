package import SyncCore

/// The notation of one kind of value in the configuration, in both directions.
///
/// Reading, the listing of the values in force, and writing a configuration use the same formats, so they cannot disagree. `read` returns
/// the same value from the output of `write`.
package struct Format<Value: Sendable>: Sendable {
    /// The expected value in words, after "expected": `a duration from 1s to 7d, such as 30s`.
    package let expected: String
    /// The keys below such a value; empty for a value without keys.
    package let keys: [KnownKey]
    /// The meaning of an empty value (`links:`).
    package let whenEmpty: WhenEmpty
    /// - Returns: `nil` after it has reported at least one error.
    package let read: @Sendable (YAMLNode, inout Reading) -> Value?
    package let write: @Sendable (Value) -> JSON

    package init(
        expected: String, keys: [KnownKey] = [], whenEmpty: WhenEmpty = .refused,
        read: @escaping @Sendable (YAMLNode, inout Reading) -> Value?, write: @escaping @Sendable (Value) -> JSON
    ) {
        self.expected = expected
        self.keys = keys
        self.whenEmpty = whenEmpty
        self.read = read
        self.write = write
    }

    /// A value that is one text. `parse` gets the text as written, quoted or not, and returns `nil` to refuse it.
    package static func text(
        expected: String, hidesValue: Bool = false, parse: @escaping @Sendable (String) -> Value?,
        write: @escaping @Sendable (Value) -> JSON
    ) -> Format {
        Format(
            expected: expected,
            read: { node, reading in
                if !node.isNull, case .scalar(let text, _) = node.content, let value = parse(text) { return value }
                reading.refuse(node, expected: expected, hidesValue: hidesValue)
                return nil
            }, write: write)
    }
}

/// A key that a format knows.
package struct KnownKey: Hashable, Sendable {
    /// Dotted; `[]` stands for an element of a list, `*` for a name that the author chooses.
    package var name: String
    /// The required value in words.
    package var expected: String

    func below(_ parent: String) -> KnownKey {
        KnownKey(name: parent + (name.hasPrefix("[]") ? "" : ".") + name, expected: expected)
    }
}

package enum WhenEmpty: Sendable {
    /// It is an error: to use a default, the line is left out.
    case refused
    /// Nothing is set (lists, and mappings whose keys the author chooses).
    case unchanged
    /// It is read as a mapping without keys: some may be required.
    case read
}

extension Format {
    /// The same format for another type.
    ///
    /// - Parameter into: Returns `nil` when the value is invalid, which it has reported, or incomplete while one file of several is read
    ///   for itself.
    package func mapped<New>(
        _ into: @escaping @Sendable (Value, YAMLNode, inout Reading) -> New?, back: @escaping @Sendable (New) -> Value
    ) -> Format<New> {
        Format<New>(
            expected: expected, keys: keys, whenEmpty: whenEmpty,
            read: { node, reading in read(node, &reading).flatMap { into($0, node, &reading) } },
            write: { write(back($0)) })
    }
}

// MARK: - Numbers, switches, words

extension Format where Value == Int {
    /// A whole number in decimal digits, without quotes. Signs other than minus, leading zeros, `_`, `1e3`, `0x10` and `1.0` are refused:
    /// other readers of YAML disagree about each of them.
    package static func integer(_ range: ClosedRange<Int>) -> Format {
        let expected = "a whole number from \(range.lowerBound) to \(range.upperBound)"
        return Format(
            expected: expected,
            read: { node, reading in
                if case .scalar(let text, isPlain: true) = node.content, let value = wholeNumber(text),
                    range.contains(value)
                {
                    return value
                }
                if case .scalar(let text, isPlain: false) = node.content, wholeNumber(text) != nil {
                    reading.refuse(node, expected: expected + " without quotes")
                } else {
                    reading.refuse(node, expected: expected)
                }
                return nil
            }, write: { .int($0) })
    }
}

extension Format where Value == Bool {
    /// `true` or `false`. `yes`, `on`, `True` and the like are refused instead of guessed.
    package static var boolean: Format {
        Format(
            expected: "true or false",
            read: { node, reading in
                if case .scalar(let text, isPlain: true) = node.content {
                    if text == "true" { return true }
                    if text == "false" { return false }
                }
                reading.refuse(node, expected: "true or false without quotes")
                return nil
            }, write: { .bool($0) })
    }
}

extension Format {
    /// One of a few words.
    package static func word(_ words: [(word: String, value: Value)]) -> Format where Value: Equatable {
        let names = words.map(\.word)
        let expected =
            names.count < 2 ? names.joined() : names.dropLast().joined(separator: ", ") + " or " + (names.last ?? "")
        return Format(
            expected: expected,
            read: { node, reading in
                guard case .scalar(let text, _) = node.content else {
                    reading.refuse(node, expected: expected)
                    return nil
                }
                if let found = words.first(where: { $0.word == text }) { return found.value }
                reading.refuse(node, expected: expected, nearest: nearestName(to: text, among: names))
                return nil
            },
            write: { value in .string(words.first { $0.value == value }?.word ?? "") })
    }
}

extension Format where Value: CaseIterable & RawRepresentable & Equatable, Value.RawValue == String {
    /// One of the cases, by its raw value.
    package static var word: Format { .word(Value.allCases.map { ($0.rawValue, $0) }) }
}

// MARK: - Lists

extension Format {
    /// A list; a later file replaces it as a whole.
    package static func list<Element>(_ element: Format<Element>, upTo limit: Int = 1_000) -> Format
    where Value == [Element] {
        let expected = "a list"
        return Format(
            expected: expected, keys: element.keys.map { $0.below("[]") }, whenEmpty: .unchanged,
            read: { node, reading in
                if node.isNull { return [] }
                guard case .sequence(let nodes) = node.content else {
                    reading.refuse(node, expected: expected)
                    return nil
                }
                guard nodes.count <= limit else {
                    reading.report(node.position, problem: "\(nodes.count) elements", expected: "at most \(limit)")
                    return nil
                }
                var isComplete = true
                var elements: [Element] = []
                for (index, node) in nodes.enumerated() {
                    let value = reading.inside(element: index) { element.read(node, &$0) }
                    if let value { elements.append(value) } else { isComplete = false }
                }
                return isComplete ? elements : nil
            },
            write: { .array($0.map(element.write)) })
    }
}

/// Reads decimal digits, optionally after a minus, without a leading zero.
func wholeNumber(_ text: some StringProtocol) -> Int? {
    let digits = text.utf8.first == UInt8(ascii: "-") ? text.dropFirst() : text[...]
    guard !digits.isEmpty, digits.utf8.allSatisfy({ $0 >= 48 && $0 <= 57 }), digits == "0" || digits.utf8.first != 48
    else { return nil }
    return Int(text)
}
