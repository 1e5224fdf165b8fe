/// The condition of a write: the record must still be as its author read it (RFC 9110, section 13.1.1).
///
/// A record's tag has two parts, `"17.4.9f3ac1d2-12.41"` (`MirrorRow.etag` of the store). The part before the hyphen changes when the
/// document that apps see changes, and with each accepted local write. The part after it also changes when the hub confirms a change that
/// apps see already. A reader that polls compares the whole tag (`If-None-Match`). A write compares the first part alone, because a
/// confirmation by the hub between read and write is no other writer. That, and ignoring `W/` in front of a tag, is less strict than the
/// RFC.
package struct EntityTags: Hashable, Sendable {
    /// The tags without quotation marks; empty for `*`, any record that exists.
    package var tags: [String]

    package static let tagBytesMax = 120
    package static let tagsMax = 16
    package static let rule = "must be the etag of a read, such as \"17.4.9f3ac1d2-12.41\", a list of at most 16 of them, or *"

    /// - Parameter text: The header field `If-Match`, or the member `if_match` of a mutation. Quotation marks may be missing, because a
    ///   bare tag is easier to pass to a command.
    /// - Returns: `nil` for a text that holds no tag, or one that cannot be a tag.
    package init?(_ text: String) {
        let trimmed = Self.trimmed(text[...])
        if trimmed == "*" {
            tags = []
            return
        }
        var tags: [String] = []
        for part in trimmed.split(separator: ",", omittingEmptySubsequences: true) {
            var tag = Self.trimmed(part)
            if tag.hasPrefix("W/") { tag = tag.dropFirst(2) }
            if tag.utf8.count >= 2, tag.hasPrefix("\""), tag.hasSuffix("\"") { tag = tag.dropFirst().dropLast() }
            guard (1...Self.tagBytesMax).contains(tag.utf8.count),
                tag.utf8.allSatisfy({ $0 > 0x20 && $0 != 0x22 && $0 < 0x7F })
            else { return nil }
            tags.append(String(tag))
        }
        guard (1...Self.tagsMax).contains(tags.count) else { return nil }
        self.tags = tags
    }

    private static func trimmed(_ text: Substring) -> Substring {
        var text = text.drop { $0 == " " || $0 == "\t" }
        while text.last == " " || text.last == "\t" { text.removeLast() }
        return text
    }

    /// - Parameter etag: The record's present tag; `nil` when there is no record.
    package func accepts(_ etag: String?) -> Bool {
        guard let etag, let present = EntityTags(etag)?.tags.first else { return false }
        return tags.isEmpty || tags.contains { Self.content($0) == Self.content(present) }
    }

    private static func content(_ tag: String) -> Substring { tag.split(separator: "-", maxSplits: 1).first ?? "" }

    /// The tags in the form of a header field.
    package var text: String { tags.isEmpty ? "*" : tags.map { "\"\($0)\"" }.joined(separator: ", ") }
}
