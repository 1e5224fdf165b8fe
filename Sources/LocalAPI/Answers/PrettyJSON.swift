package import SyncCore

extension JSON {
    /// The JSON indented by two spaces, with numbers and strings as they were sent; for people.
    package var pretty: String {
        var text = ""
        append(to: &text, indent: "\n")
        return text
    }

    private func append(to text: inout String, indent: String) {
        switch self {
        case .array(let elements) where !elements.isEmpty:
            text += "["
            for (index, element) in elements.enumerated() {
                text += index == 0 ? indent + "  " : "," + indent + "  "
                element.append(to: &text, indent: indent + "  ")
            }
            text += indent + "]"
        case .object(let object) where !object.isEmpty:
            text += "{"
            for (index, member) in object.members.enumerated() {
                text += (index == 0 ? "" : ",") + indent + "  \"" + member.name.source + "\": "
                member.value.append(to: &text, indent: indent + "  ")
            }
            text += indent + "}"
        case .null, .bool, .number, .string, .array, .object: text += json
        }
    }
}
