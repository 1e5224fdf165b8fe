/// The header fields of tus 1.0.0 (https://tus.io/protocols/resumable-upload), written and read by both sides.
package enum Tus {
    package static let version = "1.0.0"
    package static let extensions = ["creation", "creation-with-upload", "expiration", "termination", "checksum"]
    /// The only content type that a piece of a file may have.
    package static let contentType = "application/offset+octet-stream"

    package static let resumable = "Tus-Resumable"
    package static let offset = "Upload-Offset"
    package static let length = "Upload-Length"
    package static let metadata = "Upload-Metadata"
    package static let expires = "Upload-Expires"
    package static let checksum = "Upload-Checksum"
    package static let reprDigest = "Repr-Digest"

    /// Reads a number of digits; `nil` for signs, blanks, overflow and any other text.
    package static func count(_ text: String?) -> Int64? {
        guard let text, !text.isEmpty, text.utf8.count <= 19, text.utf8.allSatisfy({ (48...57).contains($0) }) else { return nil }
        return Int64(text)
    }

    // MARK: Upload-Metadata

    /// Pairs in the form `key base64value,key base64value`; an empty value has no blank before it.
    package static func metadata(_ pairs: [(String, String)]) -> String {
        pairs.map { $0.1.isEmpty ? $0.0 : "\($0.0) \(Base64.encode(Array($0.1.utf8)))" }.joined(separator: ",")
    }

    /// - Returns: `nil` when a pair cannot be read, a key comes twice, or there are more than 32.
    package static func metadata(_ text: String) -> [String: String]? {
        var pairs: [String: String] = [:]
        guard text.utf8.count <= 8_192 else { return nil }
        for part in text.split(separator: ",", omittingEmptySubsequences: true) {
            let sides = part.trimmingSpaces.split(separator: " ", maxSplits: 1)
            guard let key = sides.first.map({ String($0) }), pairs[key] == nil, pairs.count < 32 else { return nil }
            guard sides.count == 2 else {
                pairs[key] = ""
                continue
            }
            guard let bytes = Base64.decode(sides[1].trimmingSpaces), let value = String(validating: bytes, as: UTF8.self)
            else { return nil }
            pairs[key] = value
        }
        return pairs
    }

    // MARK: Upload-Checksum

    /// Reads a checksum such as `sha1 base64`: the algorithm and the expected hash of the piece.
    package static func checksum(_ text: String) -> (algorithm: String, bytes: [UInt8])? {
        let sides = text.trimmingSpaces.split(separator: " ", maxSplits: 1)
        guard sides.count == 2, text.utf8.count <= 256, let bytes = Base64.decode(sides[1].trimmingSpaces) else { return nil }
        return (String(sides[0]), bytes)
    }

    // MARK: Location

    /// The address of an upload, from the `Location` of its creation (RFC 9110, section 10.2.2).
    ///
    /// A proxy may or may not have rewritten scheme and host. Bytes and credentials go only to the configured origin, so any other address
    /// is refused.
    ///
    ///     base https://h/v1/files    /v1/files/7 | ../v1/files/7 | 7?x=1       https://h/…
    ///                                https://h/v1/files/7 | //h/v1/files/7     the same
    ///                                https://other/… | ftp://h/… | "" | 2 KB   nil
    package static func location(_ text: String, base: String) -> String? {
        let text = text.trimmingSpaces
        guard !text.isEmpty, text.utf8.count <= 2_048, text.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7F }),
            let origin = origin(of: base)
        else { return nil }
        let path: Substring
        if text.hasPrefix("//") {
            guard let scheme = origin.split(separator: ":").first else { return nil }
            return location("\(scheme):\(text)", base: base)
        } else if text.hasPrefix("/") {
            path = text[...]
        } else if let colon = text.firstIndex(of: ":"), !text[..<colon].contains(where: { "/?#".contains($0) }) {
            // An absolute address.
            guard let own = self.origin(of: text), asciiCaseEqual(own, origin) else { return nil }
            path = text.dropFirst(Tus.rawOrigin(of: text).count)
        } else {
            let folder = base.dropFirst(Tus.rawOrigin(of: base).count).prefix { $0 != "?" && $0 != "#" }
            let parent = folder.lastIndex(of: "/").map { folder[...$0] } ?? "/"
            path = "\(parent)\(text)"[...]
        }
        let plain = path.prefix { $0 != "#" }
        return origin + normalised(plain)
    }

    /// Scheme, host and port, without the scheme's default port; `nil` when the text is no address of a server.
    private static func origin(of url: String) -> String? {
        let raw = rawOrigin(of: url)
        guard let end = raw.range(of: "://") else { return nil }
        let scheme = raw[..<end.lowerBound].lowercased()
        var host = raw[end.upperBound...].lowercased()
        guard scheme == "http" || scheme == "https", !host.isEmpty, !host.contains("@") else { return nil }
        let own = scheme == "http" ? ":80" : ":443"
        if host.hasSuffix(own) { host.removeLast(own.utf8.count) }
        return "\(scheme)://\(host)"
    }

    private static func rawOrigin(of url: String) -> Substring {
        guard let end = url.range(of: "://") else { return url.prefix(0) }
        return url[..<(url[end.upperBound...].firstIndex { "/?#".contains($0) } ?? url.endIndex)]
    }

    /// The path without `.` and `..`: requests must stay under the checked address, exactly as it was checked.
    private static func normalised(_ path: Substring) -> String {
        let query = path.firstIndex(of: "?").map { path[$0...] } ?? ""
        var parts: [Substring] = []
        for part in path.prefix(while: { $0 != "?" }).split(separator: "/", omittingEmptySubsequences: false).dropFirst() {
            switch part {
            case ".": continue
            case "..": if !parts.isEmpty { parts.removeLast() }
            default: parts.append(part)
            }
        }
        return "/" + parts.joined(separator: "/") + query
    }
}

extension Substring {
    /// The first occurrence of an ASCII text; the standard library alone has no such function.
    fileprivate func range(of text: String) -> Range<Index>? {
        let wanted = Array(text.utf8)
        var index = startIndex
        while index < endIndex {
            if self[index...].utf8.starts(with: wanted) {
                return index..<utf8.index(index, offsetBy: wanted.count)
            }
            index = self.index(after: index)
        }
        return nil
    }
}

extension String {
    fileprivate func range(of text: String) -> Range<Index>? { self[...].range(of: text) }
}
