import SyncCore

/// The dotted name of a key that was written at too high a level: `sync.pull_interval` for `pull_interval`.
///
/// - Returns: `nil` if no key below the mapping has this name, or more than one.
private func place(of name: String, in known: [KnownKey]) -> String? {
    let places = known.filter { key in
        let parts = key.name.split(separator: ".")
        return parts.count > 1 && parts.last.map { $0 == name } == true && !parts.contains { $0 == "*" || $0.hasSuffix("[]") }
    }
    return places.count == 1 ? places[0].name : nil
}

/// One key of a mapping: its property of the value, and its format.
package struct MappingKey<Root: Sendable>: Sendable {
    package let name: String
    package let isRequired: Bool
    let expected: String
    /// The keys below this key, without itself.
    let keys: [KnownKey]
    let read: @Sendable (YAMLNode, inout Root, inout Reading) -> Void
    let write: @Sendable (Root) -> JSON

    /// A key that has a default or is required.
    package static func key<Value>(
        _ name: String, _ path: any WritableKeyPath<Root, Value> & Sendable, _ format: Format<Value>,
        isRequired: Bool = false
    ) -> MappingKey {
        MappingKey(
            name: name, isRequired: isRequired, expected: format.expected, keys: format.keys,
            read: { node, root, reading in
                if node.isNull, format.whenEmpty == .unchanged { return }
                if let value = format.read(node, &reading) { root[keyPath: path] = value }
            },
            write: { format.write($0[keyPath: path]) })
    }

    /// A key whose absence sets nothing. It is then listed as null.
    package static func optional<Value>(
        _ name: String, _ path: any WritableKeyPath<Root, Value?> & Sendable, _ format: Format<Value>
    ) -> MappingKey {
        MappingKey(
            name: name, isRequired: false, expected: format.expected, keys: format.keys,
            read: { node, root, reading in
                if node.isNull, format.whenEmpty != .refused { return }
                if let value = format.read(node, &reading) { root[keyPath: path] = value }
            },
            write: { $0[keyPath: path].map(format.write) ?? .null })
    }
}

extension Format {
    /// A mapping with known keys. Any other key is an error.
    ///
    /// - Parameters:
    ///   - initial: The values of keys that are not given.
    ///   - check: Reports contradictions to the reading. It runs when all keys of the mapping were read without an error, and not while one
    ///     file of several is read for itself.
    package static func mapping(
        _ initial: Value, _ keys: [MappingKey<Value>],
        check: @escaping @Sendable (Value, YAMLNode, inout Reading) -> Void = { _, _, _ in }
    ) -> Format {
        let names = keys.map(\.name)
        let expected = "a mapping with the keys " + names.joined(separator: ", ")
        let known = keys.flatMap { key in
            key.keys.isEmpty ? [KnownKey(name: key.name, expected: key.expected)] : key.keys.map { $0.below(key.name) }
        }
        return Format(
            expected: expected,
            keys: known,
            whenEmpty: .read,
            read: { node, reading in
                guard let members = node.isNull ? [] : node.members else {
                    reading.refuse(node, expected: expected)
                    return nil
                }
                let errorsBefore = reading.errors.count
                var value = initial
                var areNamesListed = false
                for member in members {
                    guard let key = keys.first(where: { $0.name.utf8.elementsEqual(member.key.utf8) }) else {
                        // A file with only unknown keys is another program's; suggestions for all of them would take seconds.
                        let nearest =
                            reading.errors.count < 100 ? nearestName(to: member.key, among: names) ?? place(of: member.key, in: known) : nil
                        // The list is long, so it is shown once for a mapping.
                        let isListing = nearest == nil && !areNamesListed
                        if isListing { areNamesListed = true }
                        reading.report(
                            member.position, below: keyText(member.key), problem: "unknown key",
                            expected: isListing ? "one of " + names.joined(separator: ", ") : nil, nearest: nearest)
                        continue
                    }
                    reading.inside(key: key.name) { key.read(member.value, &value, &$0) }
                }
                if reading.isWhole {
                    for key in keys where key.isRequired && node[key.name] == nil {
                        reading.report(node.position, below: key.name, problem: "is missing", expected: key.expected)
                    }
                    if reading.errors.count == errorsBefore { check(value, node, &reading) }
                }
                return reading.errors.count == errorsBefore ? value : nil
            },
            write: { value in
                .object(keys.reduce(into: JSONObject()) { $0[$1.name] = $1.write(value) })
            })
    }

    /// A mapping whose keys the author chooses.
    ///
    /// - Parameter name: Makes the name of a key, `nil` when it is not one.
    package static func dictionary<Name: Hashable & Sendable, Element>(
        of element: Format<Element>, names: Format<Name>, text: @escaping @Sendable (Name) -> String,
        upTo limit: Int = 1_000
    ) -> Format where Value == [Name: Element] {
        let expected = "a mapping"
        return Format(
            expected: expected, keys: element.keys.map { $0.below("*") }, whenEmpty: .unchanged,
            read: { node, reading in
                guard let members = node.isNull ? [] : node.members else {
                    reading.refuse(node, expected: expected)
                    return nil
                }
                guard members.count <= limit else {
                    reading.report(node.position, problem: "\(members.count) keys", expected: "at most \(limit)")
                    return nil
                }
                var isComplete = true
                var result: [Name: Element] = [:]
                for member in members {
                    let (name, value) = reading.inside(key: member.key) { reading in
                        let key = YAMLNode(position: member.position, content: .scalar(member.key, isPlain: false))
                        return (names.read(key, &reading), element.read(member.value, &reading))
                    }
                    if let name, let value { result[name] = value } else { isComplete = false }
                }
                return isComplete ? result : nil
            },
            write: { values in
                let members = values.map { (name: text($0.key), value: element.write($0.value)) }
                    .sorted { precedesInBytes($0.name, $1.name) }
                return .object(members.reduce(into: JSONObject()) { $0[$1.name] = $1.value })
            })
    }
}
