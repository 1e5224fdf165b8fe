/// The value that represents a file in a document (PROTOCOL H2): the record does not wait for the bytes.
///
///     {"$blob": "sha256:9b1c…", "size": 3145728, "type": "image/jpeg", "state": "pending"}
///
/// The side that sees the bytes arrive writes `uploaded`, as an ordinary change. A field holds one placeholder, or a list with some.
package struct Placeholder: Hashable, Sendable {
    package var digest: BlobDigest
    package var size: Int64
    package var type: String
    package var isUploaded: Bool
    /// Address of the file at a server that is not the hub.
    package var remoteURL: String?

    package init(digest: BlobDigest, size: Int64, type: String, isUploaded: Bool, remoteURL: String? = nil) {
        self.digest = digest
        self.size = size
        self.type = type
        self.isUploaded = isUploaded
        self.remoteURL = remoteURL
    }

    package var json: JSON {
        var object: JSONObject = [
            Placeholder.mark: .string(digest.description), "size": .int(Int(size)), "type": .string(type),
            "state": .string(isUploaded ? "uploaded" : "pending"),
        ]
        if let remoteURL { object["remote_url"] = .string(remoteURL) }
        return .object(object)
    }

    package static let mark = "$blob"

    /// Returns whether the text of a JSON document may hold a placeholder: a cheap look that can err on one side only.
    ///
    /// A `true` costs a walk through the document. A `false` is certain: each character of the mark is written as itself or as `\uXXXX`,
    /// and no other escape stands for one of them (RFC 8259, section 7).
    package static func mayBe(in text: String) -> Bool {
        var found = 0
        var isEscape = false
        for byte in text.utf8 {
            if isEscape, byte == UInt8(ascii: "u") { return true }
            isEscape = byte == UInt8(ascii: "\\")
            if byte == markBytes[found] {
                found += 1
                if found == markBytes.count { return true }
            } else {
                // The first byte of the mark stands nowhere else in it.
                found = byte == markBytes[0] ? 1 : 0
            }
        }
        return false
    }

    private static let markBytes = Array(mark.utf8)

    /// The digest of a placeholder that waits for its file; `nil` for any other value.
    private static func waiting(_ value: JSON) -> BlobDigest? {
        guard let object = value.object, let name = object[mark]?.text, object["state"]?.text == "pending" else { return nil }
        return BlobDigest(name)
    }

    /// The files that a document waits for, each with the top-level field that shows it.
    package static func waiting(in document: JSONObject) -> [(field: String, digest: BlobDigest)] {
        var found: [(String, BlobDigest)] = []
        for member in document.members {
            switch member.value {
            case .object: if let digest = waiting(member.value) { found.append((member.name.text, digest)) }
            case .array(let list): for value in list { if let digest = waiting(value) { found.append((member.name.text, digest)) } }
            case .null, .bool, .number, .string: break
            }
        }
        return found
    }

    /// All files that a document shows, each with the top-level field that shows it. What a placeholder does not say is 0 bytes, of no
    /// special type.
    package static func shown(in document: JSONObject) -> [(field: String, file: Placeholder)] {
        var found: [(String, Placeholder)] = []
        for member in document.members {
            for value in member.value.array ?? [member.value] {
                guard let object = value.object, let digest = object[mark]?.text.flatMap({ BlobDigest($0) }) else { continue }
                let file = Placeholder(
                    digest: digest, size: max(0, object["size"]?.int ?? 0), type: object["type"]?.text ?? "application/octet-stream",
                    isUploaded: object["state"]?.text == "uploaded", remoteURL: object["remote_url"]?.text)
                found.append((member.name.text, file))
            }
        }
        return found
    }

    /// Returns whether a field of the document shows this file as arrived.
    package static func shows(_ digest: BlobDigest, in document: JSONObject) -> Bool {
        document.members.contains { member in
            (member.value.array ?? [member.value]).contains { part in
                guard let object = part.object, object["state"]?.text == "uploaded" else { return false }
                return object[mark]?.text.flatMap { BlobDigest($0) } == digest
            }
        }
    }

    /// The field's value as if all of its files had arrived. Two values that become equal this way differ only by that.
    static func arrived(_ value: JSON) -> JSON {
        let parts = value.array ?? [value]
        return Set(parts.compactMap { waiting($0) }).reduce(value) { flipped($0, $1) ?? $0 }
    }

    /// Returns whether the value, or an element of it, is a placeholder whose file has arrived.
    static func isArrived(in value: JSON) -> Bool {
        (value.array ?? [value]).contains { part in
            guard let object = part.object else { return false }
            return object[mark]?.text != nil && object["state"]?.text == "uploaded"
        }
    }

    /// The field's value after that file has arrived; `nil` when no part of it waits for the file. Further members of a placeholder stay.
    package static func flipped(_ value: JSON, _ digest: BlobDigest, remoteURL: String? = nil) -> JSON? {
        func flip(_ value: JSON) -> JSON? {
            guard waiting(value) == digest, var object = value.object else { return nil }
            object["state"] = .string("uploaded")
            if let remoteURL { object["remote_url"] = .string(remoteURL) }
            return .object(object)
        }
        guard case .array(let list) = value else { return flip(value) }
        guard list.contains(where: { waiting($0) == digest }) else { return nil }
        return .array(list.map { flip($0) ?? $0 })
    }
}
