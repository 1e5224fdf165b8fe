/// Limits of a document, measured on the result of a change. They are the same where an app asks for the change and where the hub accepts
/// it. A change within its own limits may still exceed those of its document: an operation puts its value inside a list, which nests the
/// field deeper, and gives a field's name as a string.
///
/// Only the effect of the change counts. A document of an earlier version may exceed a limit: it stays readable, and a change that does not
/// increase the excess is accepted.
package enum DocumentLimits {
    /// - Parameters:
    ///   - content: The change.
    ///   - result: The document after the change.
    ///   - before: The document before the change; `nil`: none.
    ///   - place: JSON pointer to the mutation in the body that its author sent.
    /// - Returns: `validation` with a pointer to the fault, or `nil`.
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
            // Its stamp would be sent to devices under its name.
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

    /// Checks whether a change names more fields than any document may have. That needs no merge.
    ///
    /// - Parameter before: Number of fields of the document before the change.
    package static func fault(ofFieldsIn content: MutationContent, before: Int, at place: String = "") -> Problem? {
        let fieldsMax = max(Limits.documentFields, before)
        guard content.data.count > fieldsMax else { return nil }
        return problem(place + "/data", "expected at most \(fieldsMax) fields, not \(content.data.count)")
    }

    /// Largest document that a change may produce, bytes.
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

    /// A name inside a JSON pointer (RFC 6901, section 3), cut to a length that fits a log line.
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
    /// `true` when a member name at any level, as it is written, is longer than ``Limits/nameBytes``.
    var hasLongName: Bool {
        switch self {
        case .array(let elements): elements.contains(where: \.hasLongName)
        case .object(let object):
            object.members.contains { $0.name.source.utf8.count > Limits.nameBytes || $0.value.hasLongName }
        case .null, .bool, .number, .string: false
        }
    }
}
