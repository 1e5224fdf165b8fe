/// Removes text that must not leave the device: known secrets, text that looks like one, and the parts of URLs besides the place.
///
/// It is the second line of defence. The first is that documents and secrets are never collected: text that is redacted here came in
/// through messages of other programs.
package struct Redactor: Sendable {
    package static let mark = "[redacted]"

    /// Shortest secret that is removed, bytes; shorter ones would match ordinary words.
    private static let secretMin = 6

    private let secrets: [[UInt8]]

    /// - Parameter secrets: Known secrets; the longest is searched first.
    package init(secrets: [String]) {
        self.secrets = secrets.map { Array($0.utf8) }.filter { $0.count >= Self.secretMin }.sorted { $0.count > $1.count }
    }

    package func text(_ text: String) -> String {
        var bytes = Array(text.utf8)
        for secret in secrets { bytes = Self.replace(secret, in: bytes) }
        bytes = Self.withoutURLSecrets(bytes)
        bytes = Self.withoutTokens(bytes)
        return String(decoding: bytes, as: UTF8.self)
    }

    /// Redacts all texts in a value, names of members too.
    package func json(_ json: JSON) -> JSON {
        switch json {
        case .null, .bool, .number: return json
        case .string(let string): return .string(text(string.text))
        case .array(let elements): return .array(elements.map { self.json($0) })
        case .object(let object):
            var result = JSONObject()
            for member in object.members { result[text(member.name.text)] = self.json(member.value) }
            return .object(result)
        }
    }

    // MARK: Rules

    private static func replace(_ secret: [UInt8], in bytes: [UInt8]) -> [UInt8] {
        guard bytes.count >= secret.count else { return bytes }
        var result: [UInt8] = []
        var index = 0
        while index < bytes.count {
            if bytes[index] == secret[0], bytes[index...].starts(with: secret) {
                result += mark.utf8
                index += secret.count
            } else {
                result.append(bytes[index])
                index += 1
            }
        }
        return result
    }

    /// Turns `https://user:pass@host/p?k=v#f` into `https://[redacted]@host/p?[redacted]`.
    private static func withoutURLSecrets(_ bytes: [UInt8]) -> [UInt8] {
        var result: [UInt8] = []
        var index = 0
        let separator = Array("://".utf8)
        while index < bytes.count {
            guard bytes[index] == separator[0], bytes[index...].starts(with: separator) else {
                result.append(bytes[index])
                index += 1
                continue
            }
            let start = index + separator.count
            let end = bytes[start...].firstIndex(where: isEndOfURL) ?? bytes.count
            let url = bytes[start..<end]
            let authorityEnd = url.firstIndex { $0 == UInt8(ascii: "/") || $0 == UInt8(ascii: "?") || $0 == UInt8(ascii: "#") } ?? end
            result += separator
            var rest = url
            // A password may contain a slash that was not written as %2F, so the last @ counts, wherever it is.
            if let at = url.lastIndex(of: UInt8(ascii: "@")), at < authorityEnd || url[..<at].contains(UInt8(ascii: ":")) {
                result += mark.utf8
                rest = url[at...]
            }
            if let query = rest.firstIndex(where: { $0 == UInt8(ascii: "?") || $0 == UInt8(ascii: "#") }) {
                result += rest[...query]
                result += mark.utf8
            } else {
                result += rest
            }
            index = end
        }
        return result
    }

    private static func isEndOfURL(_ byte: UInt8) -> Bool {
        byte <= 0x20 || byte == UInt8(ascii: "\"") || byte == UInt8(ascii: "'") || byte == UInt8(ascii: "<")
            || byte == UInt8(ascii: ">") || byte == UInt8(ascii: ",") || byte == UInt8(ascii: ")")
    }

    /// Removes words of 24 and more characters of base64 that contain small letters, capital letters and digits: tokens, keys, parts of PEM
    /// files. Ids and digests are in small letters and stay.
    private static func withoutTokens(_ bytes: [UInt8]) -> [UInt8] {
        var result: [UInt8] = []
        var index = 0
        while index < bytes.count {
            guard isTokenByte(bytes[index]) else {
                result.append(bytes[index])
                index += 1
                continue
            }
            let end = bytes[index...].firstIndex { !isTokenByte($0) } ?? bytes.count
            let word = bytes[index..<end]
            let hasSmall = word.contains { (97...122).contains($0) }, hasCapital = word.contains { (65...90).contains($0) }
            let hasDigit = word.contains { (48...57).contains($0) }
            if word.count >= 24, hasSmall, hasCapital, hasDigit { result += mark.utf8 } else { result += word }
            index = end
        }
        return result
    }

    private static func isTokenByte(_ byte: UInt8) -> Bool {
        (48...57).contains(byte) || (65...90).contains(byte) || (97...122).contains(byte) || byte == UInt8(ascii: "+")
            || byte == UInt8(ascii: "_") || byte == UInt8(ascii: "-") || byte == UInt8(ascii: "=")
    }
}
