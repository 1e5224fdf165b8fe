import SyncCore

/// The few rules of HTTP's text that both directions need (RFC 9110, section 5.6).
enum HTTPSyntax {
    static func isTokenByte(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            UInt8(ascii: "0")...UInt8(ascii: "9"):
            true
        default:
            "!#$%&'*+-.^_`|~".utf8.contains(byte)
        }
    }

    /// `true` for every byte but a control character; the tab is allowed. A byte that ends the line or the text early would add fields to a
    /// head.
    static func isValueByte(_ byte: UInt8) -> Bool {
        byte >= 0x20 && byte != 0x7F || byte == 9
    }

    /// The members of all fields of one name, in order: a comma and a repeated field mean the same.
    static func list(_ headers: HTTPHeaders, _ name: String) -> [String] {
        headers.fields.filter { asciiCaseEqual($0.name, name) }
            .flatMap { $0.value.utf8.split(separator: UInt8(ascii: ",")) }
            .compactMap { part in
                let spaces: [UInt8] = [32, 9]
                let trimmed = part.drop { spaces.contains($0) }
                let text = String(decoding: trimmed, as: UTF8.self)
                let end = text.utf8.lastIndex { !spaces.contains($0) }
                return end.map { String(decoding: text.utf8[...$0], as: UTF8.self) }
            }
    }

    /// A value from the peer for an error message: cut, and without characters that a terminal would act on.
    static func shown(_ values: [String]) -> String {
        let bytes = values.joined(separator: ", ").utf8.prefix(64).map { (0x20..<0x7F).contains($0) ? $0 : 63 }
        return String(decoding: bytes, as: UTF8.self)
    }
}
