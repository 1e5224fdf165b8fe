package import SyncCore

extension Format where Value == DocumentSchema {
    /// A JSON Schema, as far as ``DocumentSchema`` supports it. Written as YAML or as JSON, which is YAML as well.
    package static var schema: Format {
        let expected = "a JSON schema of an object"
        return Format(
            expected: expected,
            read: { node, reading in
                do throws(Problem) {
                    return try DocumentSchema(node.json)
                } catch {
                    // Reports the place inside the schema, as far as it exists.
                    let path = JSONPointer.names(of: error.errors.first?.pointer ?? "")
                    reading.report(
                        node.deepest(path).position, below: path.isEmpty ? nil : path.map(keyText).joined(separator: "."),
                        problem: error.errors.first?.detail ?? error.detail)
                    return nil
                }
            }, write: { $0.json })
    }
}

extension YAMLNode {
    /// The node as JSON: a plain scalar has the type that it has in JSON, otherwise it is text.
    package var json: JSON {
        switch content {
        case .scalar(let text, isPlain: true):
            if isNull { return .null }
            // A scalar that is no JSON is text, which is no failure. A JSON number or switch keeps its type; `yes`, `0x10` and dates are
            // text here.
            if let value = try? JSONReader.read(text), value.text == nil { return value }
            return .string(text)
        case .scalar(let text, isPlain: false): return .string(text)
        case .sequence(let nodes): return .array(nodes.map(\.json))
        case .mapping(let members):
            var object = JSONObject()
            for member in members { object[member.key] = member.value.json }
            return .object(object)
        case .refused: return .null
        }
    }
}
