/// A place in a file. Lines and columns count from 1, columns in Unicode characters (code points).
package struct YAMLPosition: Hashable, Sendable {
    /// Name of the file as the caller gave it.
    package var file: String
    package var line: Int
    package var column: Int

    package init(file: String, line: Int, column: Int) {
        self.file = file
        self.line = line
        self.column = column
    }
}

/// One value of a YAML file, with its place.
///
/// A scalar stays text: its key decides its type (number, switch, duration), never its appearance. The traps of YAML therefore do not exist
/// here: `no` under a key that expects text is the text "no", `0660` is not an octal number, `22:00` is not a number of base 60. Only the
/// quoting is kept, because a quoted `"5"` is text by the author's intention and refused where a number is expected.
package struct YAMLNode: Hashable, Sendable {
    package enum Content: Hashable, Sendable {
        case scalar(String, isPlain: Bool)
        case sequence([YAMLNode])
        case mapping([YAMLMember])
        /// Already reported; readers skip it.
        case refused
    }

    package var position: YAMLPosition
    package var content: Content

    package init(position: YAMLPosition, content: Content) {
        self.position = position
        self.content = content
    }

    /// `true` for an empty value: `key:`, `key: ~`, `key: null`. Quoted, these are text.
    package var isNull: Bool {
        guard case .scalar(let text, isPlain: true) = content else { return false }
        return ["", "~", "null", "Null", "NULL"].contains { $0.utf8.elementsEqual(text.utf8) }
    }

    package var isRefused: Bool {
        if case .refused = content { true } else { false }
    }

    package var members: [YAMLMember]? {
        if case .mapping(let members) = content { members } else { nil }
    }

    package subscript(key: String) -> YAMLNode? {
        members?.first { $0.key.utf8.elementsEqual(key.utf8) }?.value
    }

    /// The value for a message: the text as written, cut at 200 bytes, or the kind of collection.
    package var shown: String {
        switch content {
        case .scalar(let text, isPlain: true): isNull ? "an empty value" : printable(text)
        case .scalar(let text, isPlain: false): "\"" + printable(text) + "\""
        case .sequence: "a list"
        case .mapping: "a mapping"
        case .refused: "an unreadable value"
        }
    }

    /// The node at the end of a path of keys, or its nearest existing ancestor: the place for an error.
    package func deepest(_ path: [String]) -> YAMLNode {
        var node = self
        for key in path {
            if case .sequence(let nodes) = node.content, let index = Int(key), nodes.indices.contains(index) {
                node = nodes[index]
                continue
            }
            guard let next = node[key] else { break }
            node = next
        }
        return node
    }

    /// This node with another file laid over it: mappings are joined key by key, anything else is replaced as a whole. A key that the other
    /// file leaves empty (`links:`) changes nothing.
    package func overlaid(by other: YAMLNode) -> YAMLNode {
        if other.isNull { return self }
        guard case .mapping(var members) = content, !members.isEmpty, case .mapping(let others) = other.content else {
            return other
        }
        var places: [[UInt8]: Int] = [:]
        for (index, member) in members.enumerated() { places[Array(member.key.utf8)] = index }
        for member in others {
            if let index = places[Array(member.key.utf8)] {
                members[index].value = members[index].value.overlaid(by: member.value)
                if !member.value.isNull { members[index].position = member.position }
            } else {
                members.append(member)
            }
        }
        return YAMLNode(position: position, content: .mapping(members))
    }
}

/// One `key: value` of a mapping. A key is text exactly as written, quoted or not, and compared by its bytes.
package struct YAMLMember: Hashable, Sendable {
    package var key: String
    package var position: YAMLPosition
    package var value: YAMLNode

    package init(key: String, position: YAMLPosition, value: YAMLNode) {
        self.key = key
        self.position = position
        self.value = value
    }
}
