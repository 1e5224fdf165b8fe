package import SyncCore

extension Format where Value == DocumentSchema {
    /// A JSON Schema, as far as ``DocumentSchema`` knows it. Written as YAML or as JSON, which is YAML as well.
    package static var schema: Format {
        let expected = "a JSON schema of an object"
        return Format(
            expected: expected,
            read: { node, reading in
                do throws(Problem) {
                    return try DocumentSchema(node.json)
                } catch {
                    // Points at the place inside, as far as there is one.
                    let path = (error.errors.first?.pointer ?? "").split(separator: "/").map(String.init)
                    reading.report(
                        node.deepest(path).position, below: path.isEmpty ? nil : path.map(keyText).joined(separator: "."),
                        problem: "is not accepted", expected: error.errors.first?.detail ?? error.detail)
                    return nil
                }
            }, write: { $0.json })
    }
}

extension YAMLNode {
    /// As JSON would say it: a plain scalar is what it looks like in JSON, and text otherwise.
    package var json: JSON {
        switch content {
        case .scalar(let text, isPlain: true):
            if isNull { return .null }
            // What is no JSON is text, which is no failure. What reads as a number or a switch is one; `yes`, `0x10` and dates are text here.
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
