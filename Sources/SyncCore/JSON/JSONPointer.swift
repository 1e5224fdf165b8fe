/// JSON pointers as text (RFC 6901).
package enum JSONPointer {
    /// A name with `~` and `/` escaped.
    package static func escaped(_ name: String) -> String {
        guard name.utf8.contains(where: { $0 == UInt8(ascii: "~") || $0 == UInt8(ascii: "/") }) else { return name }
        var text = ""
        for scalar in name.unicodeScalars {
            switch scalar {
            case "~": text += "~0"
            case "/": text += "~1"
            default: text.unicodeScalars.append(scalar)
            }
        }
        return text
    }

    /// The names and numbers on the way of a pointer; none for the whole document.
    package static func names(of pointer: some StringProtocol) -> [String] {
        pointer.split(separator: "/", omittingEmptySubsequences: false).dropFirst().map { unescaped($0) }
    }

    private static func unescaped(_ name: some StringProtocol) -> String {
        guard name.utf8.contains(UInt8(ascii: "~")) else { return String(name) }
        var text = ""
        var isEscape = false
        for scalar in name.unicodeScalars {
            if isEscape {
                text.unicodeScalars.append(scalar == "1" ? "/" : "~")
                isEscape = false
            } else if scalar == "~" {
                isEscape = true
            } else {
                text.unicodeScalars.append(scalar)
            }
        }
        return text
    }

    /// The pointer in a fragment of a URI, whose bytes may be percent-encoded; `nil` when it is none.
    static func decoded(fragment: Substring) -> [UInt8]? {
        var bytes: [UInt8] = []
        var rest = fragment.utf8
        while let byte = rest.popFirst() {
            guard byte == UInt8(ascii: "%") else {
                bytes.append(byte)
                continue
            }
            guard let high = rest.popFirst().flatMap(hexDigit), let low = rest.popFirst().flatMap(hexDigit) else { return nil }
            bytes.append(high << 4 | low)
        }
        return bytes
    }
}
