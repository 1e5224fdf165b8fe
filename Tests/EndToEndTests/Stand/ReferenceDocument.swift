import Foundation
import SyncCore
import SyncYAML

/// The reference of the local API (`deploy/api/agent-v1.openapi.yaml`), read for a comparison with the answers of an agent.
struct ReferenceDocument {
    /// One method of one path.
    struct Operation {
        var method: String
        var path: String
        var json: JSONObject

        var label: String { "\(method) \(path)" }
        var name: String { json["operationId"]?.text ?? "" }
        var requestContent: [JSONObject.Member] { json["requestBody"]?.object?["content"]?.object?.members ?? [] }
        var responses: JSONObject { json["responses"]?.object ?? [:] }
    }

    /// In the order of the document.
    let operations: [Operation]
    private let components: JSONObject
    /// All schemas of the document in the form that ``faults(_:_:)`` needs.
    private let definitions: JSON

    init() throws {
        let root = URL(fileURLWithPath: #filePath).deletingLastPathComponent().appendingPathComponent("../../..").standardizedFileURL
        let file = ConfigurationFile.read(root.appendingPathComponent("deploy/api/agent-v1.openapi.yaml").path)
        let document = YAMLDocument(try file.contents.get(), file: file.name)
        guard document.errors.isEmpty, let node = document.root, let json = Self.json(node).object else {
            throw StandError("\(file.name): \(document.errors.map(\.description))")
        }
        components = json["components"]?.object ?? [:]
        definitions = Self.schema(components["schemas"] ?? [:])
        var operations: [Operation] = []
        for path in json["paths"]?.object?.members ?? [] {
            for method in path.value.object?.members ?? [] {
                guard let operation = method.value.object else { continue }
                operations.append(Operation(method: method.name.text.uppercased(), path: path.name.text, json: operation))
            }
        }
        self.operations = operations
    }

    /// The response, the parameter or the header behind a reference. Members beside the reference replace those behind it.
    func resolved(_ node: JSON) -> JSONObject {
        guard var object = node.object else { return [:] }
        while let reference = object["$ref"]?.text {
            let parts = reference.split(separator: "/").suffix(2).map(String.init)
            var target = components[parts[0]]?.object?[parts[1]]?.object ?? [:]
            for member in object.members where member.name.text != "$ref" { target[member.name.text] = member.value }
            object = target
        }
        return object
    }

    /// The name of the component that a parameter refers to; empty for one that is written out.
    static func component(_ parameter: JSON) -> String {
        parameter.object?["$ref"]?.text?.split(separator: "/").last.map(String.init) ?? ""
    }

    /// The values of a body: one, or one for each line.
    static func values(_ media: String, _ body: String) throws -> [JSON] {
        if media == "application/x-ndjson" { return try body.split(separator: "\n").map { try JSONReader.read(String($0)) } }
        return media.hasSuffix("json") ? [try JSONReader.read(body)] : [.string(JSONString(body))]
    }

    /// The places of a value that break a schema of the document.
    ///
    /// - Throws: The schema has a part that cannot be judged.
    func faults(_ value: JSON, _ schema: JSON) throws -> [String] {
        let whole: JSON = ["allOf": .array([Self.schema(schema)]), "$defs": definitions]
        return try JSONSchema(whole).judge(value).faults.map { "\($0.pointer): \($0.detail)" }
    }

    private static func json(_ node: YAMLNode) -> JSON {
        switch node.content {
        case .scalar(let text, let isPlain):
            if node.isNull { return .null }
            // `try?`: a plain text that is no JSON is a string.
            guard isPlain, let value = try? JSONReader.read(text), value.bool != nil || value.double != nil else {
                return .string(JSONString(text))
            }
            return value
        case .sequence(let nodes): return .array(nodes.map { json($0) })
        case .mapping(let members):
            var object = JSONObject()
            for member in members { object[member.key] = json(member.value) }
            return .object(object)
        case .refused: return .null
        }
    }

    /// A schema as ``JSONSchema`` reads it: references lead to `$defs`, and formats that check nothing are left out. An object that names
    /// its members has no others, so that a member which the document lacks is found.
    private static func schema(_ json: JSON) -> JSON {
        switch json {
        case .null, .bool, .number, .string: return json
        case .array(let elements): return .array(elements.map { schema($0) })
        case .object(let object):
            var result = JSONObject()
            for member in object.members {
                let name = member.name.text
                switch (name, member.value.text) {
                case ("$ref", let reference?):
                    result[name] = .string(JSONString(reference.replacingOccurrences(of: "#/components/schemas/", with: "#/$defs/")))
                case ("format", "int64"?), ("format", "binary"?): break
                default: result[name] = schema(member.value)
                }
            }
            let kinds = object["type"]?.array ?? [object["type"] ?? .null]
            if object["properties"]?.object != nil, object["additionalProperties"] == nil, kinds.contains("object") {
                result["additionalProperties"] = false
            }
            return .object(result)
        }
    }
}
