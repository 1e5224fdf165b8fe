/// Limits of a document, measured on what a change makes of it, and alike where an app asks for the change and where the hub
/// takes it in. A change that passes its own limits may still nest a field deeper, or name it longer, than its document may: an
/// operation puts its value inside a list, and names a field in a string.
///
/// Only what the change does counts. A document of an earlier version may be past a limit: it stays readable, and what brings it
/// no further is accepted.
package enum DocumentLimits {
    /// - Parameters:
    ///   - content: The change.
    ///   - result: The document that it makes.
    ///   - before: The document that it changes; `nil`: none.
    ///   - place: Pointer to the mutation in the body that its author sent.
    /// - Returns: `validation` with a pointer to what is at fault, or `nil`.
    package static func fault(
        of content: MutationContent, in result: JSONObject, over before: JSONObject?, at place: String = ""
    ) -> Problem? {
        let fieldsMax = max(Limits.documentFields, before?.count ?? 0)
        guard result.count <= fieldsMax else {
            return problem(place + "/data", "the record would have \(result.count) fields, the limit is \(fieldsMax)")
        }
        for member in content.data.members {
            if let detail = fault(in: member.name, result, before) {
                return problem("\(place)/data/\(pointer(member.name.text))", detail)
            }
        }
        for (index, field) in content.unset.enumerated() where before?[field] == nil {
            // Its stamp would be told to devices under its name.
            if let detail = fault(inLengthOf: field) { return problem("\(place)/unset/\(index)", detail) }
        }
        var checked: Set<JSONString> = []
        for (index, operation) in content.operations.enumerated() {
            let name = JSONString(operation.top)
            guard checked.insert(name).inserted else { continue }
            if let detail = fault(in: name, result, before) { return problem("\(place)/ops/\(index)", detail) }
        }
        return nil
    }

    /// Whether a change names more fields than any document may have, which needs no merge to be found out.
    ///
    /// - Parameter before: Fields of the document that it changes.
    package static func fault(ofFieldsIn content: MutationContent, before: Int, at place: String = "") -> Problem? {
        let fieldsMax = max(Limits.documentFields, before)
        guard content.data.count > fieldsMax else { return nil }
        return problem(place + "/data", "expected at most \(fieldsMax) fields, not \(content.data.count)")
    }

    /// The largest document that a change may make, bytes.
    package static func bytesMax(over before: Int) -> Int { max(Limits.documentBytes, before) }

    private static func fault(in name: JSONString, _ result: JSONObject, _ before: JSONObject?) -> String? {
        guard let value = result[name.text] else { return nil }
        let old = before?[name.text]
        if old == nil, let detail = fault(inLengthOf: name.text) { return detail }
        let depthMax = max(Limits.jsonDepth, 1 + (old?.depth ?? 0))
        let depth = 1 + value.depth
        return depth <= depthMax ? nil : "the record would be nested \(depth) levels deep, the limit is \(depthMax)"
    }

    private static func fault(inLengthOf name: String) -> String? {
        let bytes = JSONString(name).source.utf8.count
        return bytes > Limits.nameBytes ? "the name has \(bytes) bytes with its escapes, the limit is \(Limits.nameBytes)" : nil
    }

    private static func problem(_ pointer: String, _ detail: String) -> Problem {
        Problem("validation", status: 422, detail: "\(pointer): \(detail)", errors: [.init(pointer, detail)])
    }

    /// A name inside a JSON pointer (RFC 6901, 3), cut to what a log line bears.
    private static func pointer(_ name: String) -> String {
        var text = ""
        for scalar in name.unicodeScalars.prefix(64) {
            switch scalar {
            case "~": text += "~0"
            case "/": text += "~1"
            default: text.unicodeScalars.append(scalar)
            }
        }
        return text
    }
}

extension JSON {
    /// Whether a name of a member, at any level, is longer than ``Limits/nameBytes`` as it is written.
    var hasLongName: Bool {
        switch self {
        case .array(let elements): elements.contains(where: \.hasLongName)
        case .object(let object):
            object.members.contains { $0.name.source.utf8.count > Limits.nameBytes || $0.value.hasLongName }
        default: false
        }
    }
}
