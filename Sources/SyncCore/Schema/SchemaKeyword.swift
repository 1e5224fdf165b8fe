/// The keywords of JSON Schema 2020-12 that are supported. All others are refused when a schema is read.
enum SchemaKeyword: String, CaseIterable {
    case type, const, `enum`
    case multipleOf, minimum, maximum, exclusiveMinimum, exclusiveMaximum
    case minLength, maxLength, pattern, format
    case prefixItems, items, contains, minContains, maxContains, minItems, maxItems, uniqueItems
    case properties, patternProperties, additionalProperties, propertyNames, required, minProperties, maxProperties
    case dependentRequired, dependentSchemas
    case allOf, anyOf, oneOf, not, `if`, then, `else`
    case ref = "$ref", defs = "$defs"
    // For people and tools. They decide nothing.
    case title, description, `default`, examples, deprecated, readOnly, writeOnly
    case comment = "$comment", schema = "$schema", id = "$id"

    static let names = allCases.map(\.rawValue)

    /// Keywords of JSON Schema that are not supported, and keywords of its earlier drafts, each with what to do in their place.
    static let others: [String: String] = [
        "unevaluatedProperties": "name all members in one schema with additionalProperties",
        "unevaluatedItems": "use items after prefixItems",
        "$anchor": "refer to $defs by a path: #/$defs/NAME",
        "$dynamicRef": "use $ref",
        "$dynamicAnchor": "use $defs and $ref",
        "$vocabulary": "leave it out",
        "contentEncoding": "use pattern",
        "contentMediaType": "leave it out",
        "contentSchema": "leave it out",
        "definitions": "use $defs",
        "dependencies": "use dependentRequired or dependentSchemas",
        "additionalItems": "use items after prefixItems",
        "id": "use $id",
        "$recursiveRef": "use $ref",
        "$recursiveAnchor": "use $defs and $ref",
    ]

    /// The text about a keyword that is refused.
    static func refusal(of name: String) -> String {
        if let advice = others[name] { return "\(name) is not supported; \(advice)" }
        return "unknown keyword" + (nearestName(to: name, among: names).map { "; did you mean \($0)?" } ?? "")
    }
}
