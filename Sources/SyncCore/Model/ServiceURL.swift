/// The address of a server, with stricter rules than RFC 3986: `http` or `https`, a host, and optionally a port and a path.
///
/// Each address has one spelling: no user information (it would appear in logs), no query, no fragment, no dot segments, hosts in ASCII,
/// numeric hosts only as four decimal numbers. A text that two programs could read differently is refused instead of repaired.
package struct ServiceURL: Hashable, Sendable, CustomStringConvertible {
    /// The text without a slash at the end, so that `text + "/v1/probe"` is right.
    package let text: String
    package let isSecure: Bool
    /// The host in lower case, an IPv6 address without its brackets.
    package let host: String
    /// The given port, or the default of the scheme: 443 or 80.
    package let port: Int
    /// The path; empty, or starting with a slash.
    package let path: String

    package var description: String { text }

    /// `true` when requests to it stay on this machine: `localhost`, 127.0.0.0/8, `::1`.
    package var isLoopback: Bool { Self.isLoopback(host) }

    /// - Parameter host: A name or an address, without brackets.
    package static func isLoopback(_ host: String) -> Bool {
        if host == "localhost" || IPv6Address(host)?.isLoopback == true { return true }
        return IPv4Address(host)?.isLoopback ?? false
    }

    /// `HOST:PORT`, with brackets around an IPv6 address.
    package var authority: String { (host.contains(":") ? "[\(host)]" : host) + ":\(port)" }

    /// `true` when the host is an address, so that no name must be resolved.
    package var isNumeric: Bool { IPv4Address(host) != nil || IPv6Address(host) != nil }

    /// The reason why a text is refused, as a description of the expected form.
    package struct Refusal: Error, Hashable, Sendable {
        package var expected: String
        /// The text contains a password, or seems to: it must not be shown.
        package var hidesValue = false
    }

    package init(_ text: String) throws(Refusal) {
        let bytes = Array(text.utf8)
        guard bytes.count <= 2_048 else { throw Refusal(expected: "at most 2048 bytes") }
        // Checked before any error shows the text: the part before an @ may be a password.
        if bytes.contains(UInt8(ascii: "@")) {
            throw Refusal(expected: "no user name or password in the URL: credentials go into a file", hidesValue: true)
        }
        guard bytes.allSatisfy({ $0 < 128 }) else {
            throw Refusal(expected: "ASCII only: an international host name in its xn-- form, other characters as %XX")
        }
        guard bytes.allSatisfy({ $0 > 32 && $0 != 127 }) else {
            throw Refusal(expected: "no spaces or control characters")
        }
        let afterScheme: Substring
        if text.hasPrefix("https://") {
            isSecure = true
            afterScheme = text.dropFirst(8)
        } else if text.hasPrefix("http://") {
            isSecure = false
            afterScheme = text.dropFirst(7)
        } else {
            throw Refusal(expected: "https://HOST or https://HOST:PORT")
        }
        if afterScheme.utf8.contains(where: { $0 == UInt8(ascii: "?") || $0 == UInt8(ascii: "#") }) {
            throw Refusal(expected: "a URL without ? and #", hidesValue: true)
        }
        let authority = afterScheme.prefix { $0 != "/" }
        let (host, port) = try ServiceURL.hostAndPort(authority)
        self.host = host.text
        self.port = port ?? (isSecure ? 443 : 80)
        path = try ServiceURL.path(afterScheme.dropFirst(authority.count))
        let shown = host.isIPv6 ? "[" + host.text + "]" : host.text
        self.text = (isSecure ? "https://" : "http://") + shown + (port.map { ":" + String($0) } ?? "") + path
    }

    private static func hostAndPort(_ authority: Substring) throws(Refusal) -> (
        host: (text: String, isIPv6: Bool), port: Int?
    ) {
        let host: String
        let rest: Substring
        let isIPv6 = authority.hasPrefix("[")
        if isIPv6 {
            guard let end = authority.firstIndex(of: "]") else { throw Refusal(expected: "a ] after the IPv6 address") }
            host = authority[authority.index(after: authority.startIndex)..<end].lowercased()
            guard IPv6Address(host) != nil else {
                throw Refusal(expected: "an IPv6 address between [ and ], without a zone")
            }
            rest = authority[authority.index(after: end)...]
        } else {
            let name = authority.prefix { $0 != ":" }
            host = name.lowercased()
            try checkName(host)
            rest = authority.dropFirst(name.count)
        }
        if rest.isEmpty { return ((host, isIPv6), nil) }
        let digits = rest.dropFirst()
        guard rest.hasPrefix(":"), !digits.isEmpty, digits.utf8.count <= 5,
            digits.utf8.allSatisfy({ $0 >= 48 && $0 <= 57 }),
            !digits.hasPrefix("0"), let port = Int(digits), (1...65_535).contains(port)
        else { throw Refusal(expected: "a port from 1 to 65535") }
        return ((host, isIPv6), port)
    }

    /// Checks a name (RFC 1123, section 2.1). A name that ends in a number must be an IPv4 address: resolvers also accept `127.1` and
    /// `0x7f000001` as addresses, and then the host is not what it looks like.
    private static func checkName(_ host: String) throws(Refusal) {
        let labels = host.split(separator: ".", omittingEmptySubsequences: false)
        let isName =
            host.utf8.count <= 253
            && labels.allSatisfy { label in
                !label.isEmpty && label.utf8.count <= 63 && !label.hasPrefix("-") && !label.hasSuffix("-")
                    && label.utf8.allSatisfy { ($0 >= 97 && $0 <= 122) || ($0 >= 48 && $0 <= 57) || $0 == 45 }
            }
        guard isName else { throw Refusal(expected: "a host name of letters, digits, - and dots") }
        if let last = labels.last?.utf8, last.allSatisfy({ $0 >= 48 && $0 <= 57 }) || last.starts(with: "0x".utf8) {
            guard let address = IPv4Address(host) else { throw Refusal(expected: "an IPv4 address of four numbers") }
            if address.isUnspecified {
                throw Refusal(expected: "an address that can be connected to, which 0.0.0.0 is not")
            }
        }
    }

    private static func path(_ text: Substring) throws(Refusal) -> String {
        var segments = text.dropFirst().split(separator: "/", omittingEmptySubsequences: false)
        if segments.last == "" { segments.removeLast() }
        for segment in segments {
            let bytes = Array(segment.utf8)
            if bytes.isEmpty || segment == "." || segment == ".." {
                throw Refusal(expected: "a path without empty parts, . and ..")
            }
            for (index, byte) in bytes.enumerated() {
                switch byte {
                case UInt8(ascii: "%"):
                    let digits = bytes[(index + 1)...].prefix(2)
                    guard digits.count == 2, digits.allSatisfy(isHex) else {
                        throw Refusal(expected: "two hexadecimal digits after each % of the path")
                    }
                case UInt8(ascii: "<"), UInt8(ascii: ">"), UInt8(ascii: "\""), UInt8(ascii: "\\"), UInt8(ascii: "^"),
                    UInt8(ascii: "`"), UInt8(ascii: "{"), UInt8(ascii: "|"), UInt8(ascii: "}"), UInt8(ascii: "["),
                    UInt8(ascii: "]"):
                    throw Refusal(expected: "a path of letters, digits and -._~!$&'()*+,;=:%")
                default: break
                }
            }
        }
        return segments.map { "/" + $0 }.joined()
    }

    private static func isHex(_ byte: UInt8) -> Bool {
        (byte >= 48 && byte <= 57) || (byte >= 65 && byte <= 70) || (byte >= 97 && byte <= 102)
    }
}

/// An IPv4 address: four decimal numbers without leading zeros.
package struct IPv4Address: Hashable, Sendable {
    package private(set) var bytes: [UInt8]

    init?(_ text: some StringProtocol) {
        let parts = text.split(separator: ".", omittingEmptySubsequences: false)
        bytes = parts.compactMap { part in
            let isNumber = !part.isEmpty && part.utf8.allSatisfy { $0 >= 48 && $0 <= 57 }
            return isNumber && (part == "0" || !part.hasPrefix("0")) ? UInt8(part) : nil
        }
        guard parts.count == 4, bytes.count == 4 else { return nil }
    }

    package var isLoopback: Bool { bytes[0] == 127 }
    package var isUnspecified: Bool { bytes.allSatisfy { $0 == 0 } }
    /// The address as the last two groups of an IPv6 address.
    var groups: [UInt16] { [UInt16(bytes[0]) << 8 | UInt16(bytes[1]), UInt16(bytes[2]) << 8 | UInt16(bytes[3])] }
}

/// An IPv6 address (RFC 4291, section 2.2): eight groups of up to four hexadecimal digits, at most one `::`, the last two groups optionally
/// as IPv4.
package struct IPv6Address: Hashable, Sendable {
    private var groups: [UInt16]

    init?(_ text: String) {
        let bytes = Array(text.utf8), colon = UInt8(ascii: ":")
        let gap = bytes.indices.dropLast().first { bytes[$0] == colon && bytes[$0 + 1] == colon }
        guard let head = IPv6Address.groups(bytes[..<(gap ?? bytes.count)], isLast: gap == nil) else { return nil }
        if let gap {
            guard let tail = IPv6Address.groups(bytes[(gap + 2)...], isLast: true), head.count + tail.count <= 7 else {
                return nil
            }
            groups = head + [UInt16](repeating: 0, count: 8 - head.count - tail.count) + tail
        } else {
            guard head.count == 8 else { return nil }
            groups = head
        }
    }

    package var isLoopback: Bool { groups == [0, 0, 0, 0, 0, 0, 0, 1] }
    package var bytes: [UInt8] { groups.flatMap { [UInt8($0 >> 8), UInt8($0 & 0xFF)] } }

    private static func groups(_ bytes: ArraySlice<UInt8>, isLast: Bool) -> [UInt16]? {
        if bytes.isEmpty { return [] }
        var groups: [UInt16] = []
        let parts = bytes.split(separator: UInt8(ascii: ":"), omittingEmptySubsequences: false)
        for (index, part) in parts.enumerated() {
            let text = String(decoding: part, as: UTF8.self)
            if isLast, index == parts.count - 1, part.contains(UInt8(ascii: ".")) {
                guard let address = IPv4Address(text) else { return nil }
                groups += address.groups
            } else {
                // `UInt16(_:radix:)` would accept a sign.
                guard (1...4).contains(part.count), part.first != UInt8(ascii: "+"), part.first != UInt8(ascii: "-"),
                    let group = UInt16(text, radix: 16)
                else { return nil }
                groups.append(group)
            }
        }
        return groups
    }
}
