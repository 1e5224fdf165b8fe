/// A request target with placeholders: `/audits/{server_id}`, `/audits?updated_since={cursor}&limit={limit}`.
///
/// Values are escaped, except for the unreserved characters of RFC 3986, so that no value can change the structure of the target. A query
/// parameter without a known value is left out as a whole; a placeholder in the path must have one.
package struct PathTemplate: Hashable, Sendable {
    package enum Piece: Hashable, Sendable {
        case text(String)
        case place(String)
    }

    package let text: String
    private let path: [Piece]
    /// Query parameters, each with its separator from the one before.
    private let parameters: [[Piece]]

    /// - Returns: `nil` when the text is no such template: it must begin with a slash, have no fragment, and have balanced braces.
    package init?(_ text: String) {
        guard text.utf8.first == UInt8(ascii: "/"), !text.hasPrefix("//"), text.utf8.count <= 1_024,
            text.utf8.allSatisfy({ $0 > 32 && $0 < 127 && $0 != UInt8(ascii: "#") && $0 != UInt8(ascii: "\\") })
        else { return nil }
        let parts = text.split(separator: "?", maxSplits: 1, omittingEmptySubsequences: false)
        guard let path = Self.pieces(parts[0]) else { return nil }
        var parameters: [[Piece]] = []
        if parts.count == 2 {
            for parameter in parts[1].split(separator: "&") {
                guard let pieces = Self.pieces(parameter) else { return nil }
                parameters.append(pieces)
            }
        }
        self.text = text
        self.path = path
        self.parameters = parameters
    }

    private static func pieces(_ text: Substring) -> [Piece]? {
        var pieces: [Piece] = []
        var rest = text
        while !rest.isEmpty {
            let plain = rest.prefix { $0 != "{" && $0 != "}" }
            if !plain.isEmpty { pieces.append(.text(String(plain))) }
            rest = rest.dropFirst(plain.count)
            guard let brace = rest.first else { break }
            let name = rest.dropFirst().prefix { $0 != "{" && $0 != "}" }
            guard brace == "{", !name.isEmpty, rest.dropFirst(1 + name.count).first == "}" else { return nil }
            pieces.append(.place(String(name)))
            rest = rest.dropFirst(name.count + 2)
        }
        return pieces
    }

    /// The names of its placeholders.
    package var places: [String] {
        (path + parameters.flatMap { $0 }).compactMap { if case .place(let name) = $0 { name } else { nil } }
    }

    /// - Returns: `nil` when a placeholder in the path has no value, or an empty one: the target would be another one.
    package func filled(_ value: (String) -> String?) -> String? {
        guard var target = Self.fill(path, value, mayBeEmpty: false) else { return nil }
        let filled = parameters.compactMap { Self.fill($0, value, mayBeEmpty: true) }
        if !filled.isEmpty { target += "?" + filled.joined(separator: "&") }
        return target
    }

    /// The first placeholder in the path without a value.
    package func missing(_ value: (String) -> String?) -> String? {
        for case .place(let name) in path where value(name)?.isEmpty ?? true { return name }
        return nil
    }

    private static func fill(_ pieces: [Piece], _ value: (String) -> String?, mayBeEmpty: Bool) -> String? {
        var result = ""
        for piece in pieces {
            switch piece {
            case .text(let text): result += text
            case .place(let name):
                guard let found = value(name), mayBeEmpty || !found.isEmpty else { return nil }
                // A segment that consists of dots would be taken for a way up, escaped or not (RFC 3986, section 5.2.4).
                if !mayBeEmpty, found == "." || found == ".." { return nil }
                result += escaped(found)
            }
        }
        return result
    }

    package static func escaped(_ text: String) -> String {
        var result: [UInt8] = []
        for byte in text.utf8 {
            switch byte {
            case 48...57, 65...90, 97...122, UInt8(ascii: "-"), UInt8(ascii: "."), UInt8(ascii: "_"), UInt8(ascii: "~"):
                result.append(byte)
            default:
                result.append(UInt8(ascii: "%"))
                for digit in [byte >> 4, byte & 15] { result.append(digit < 10 ? 48 + digit : 55 + digit) }
            }
        }
        return String(decoding: result, as: UTF8.self)
    }
}
