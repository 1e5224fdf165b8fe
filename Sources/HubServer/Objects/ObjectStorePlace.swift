import SyncCore

/// A bucket of an S3-compatible object store, and the hub's prefix in it: `s3://bucket/prefix` at an endpoint, addressed by path
/// (`https://endpoint/bucket/prefix/…`), which every such store understands.
package struct ObjectStorePlace: Sendable, CustomStringConvertible {
    /// Without a slash at its end: `https://s3.example:9000`.
    package var endpoint: String
    package var region: String
    package var bucket: String
    /// Empty, or with a slash at its end.
    package var prefix: String

    /// - Parameters:
    ///   - text: `s3://bucket` or `s3://bucket/some/prefix`.
    ///   - endpoint: `nil`: Amazon's in that region.
    /// - Throws: A sentence with the expected form.
    package init(_ text: String, endpoint: String?, region: String) throws(HubError) {
        let doing = "read the place of the blobs"
        func wrong(_ detail: String) -> HubError { HubError(.badStorage, doing: doing, detail: detail) }
        guard text.hasPrefix("s3://") else { throw wrong("expected s3://BUCKET or s3://BUCKET/PREFIX, found \(Printable.text(text))") }
        let rest = text.dropFirst("s3://".count)
        let parts = rest.split(separator: "/", maxSplits: 1, omittingEmptySubsequences: false)
        let bucket = String(parts[0])
        guard (3...63).contains(bucket.utf8.count), bucket.utf8.allSatisfy(Self.isBucketByte) else {
            throw wrong("expected a bucket of 3 to 63 characters a-z 0-9 . -, found \(Printable.text(bucket))")
        }
        var prefix = parts.count > 1 ? String(parts[1]) : ""
        while prefix.hasSuffix("/") { prefix.removeLast() }
        // No character needs escaping, so that both sides sign the same text.
        let steps = prefix.split(separator: "/", omittingEmptySubsequences: false)
        guard prefix.utf8.count <= 512, prefix.utf8.allSatisfy({ Self.isKeyByte($0) || $0 == UInt8(ascii: "/") }),
            prefix.isEmpty || steps.allSatisfy({ !$0.isEmpty && $0 != "." && $0 != ".." })
        else { throw wrong("expected a prefix of A-Z a-z 0-9 . _ - and single slashes, found \(Printable.text(prefix))") }
        guard !region.isEmpty, region.utf8.count <= 64, region.utf8.allSatisfy(Self.isBucketByte) else {
            throw wrong("expected a region such as eu-central-1, found \(Printable.text(region))")
        }
        var address = endpoint ?? "https://s3.\(region).amazonaws.com"
        while address.hasSuffix("/") { address.removeLast() }
        let host = ["https://", "http://"].lazy.compactMap { address.hasPrefix($0) ? address.dropFirst($0.count) : nil }.first
        guard let host, !host.isEmpty, host.utf8.allSatisfy({ Self.isKeyByte($0) || [58, 91, 93].contains($0) }) else {
            throw wrong("expected an endpoint such as https://s3.example:9000, found \(Printable.text(address))")
        }
        self.endpoint = address
        self.region = region
        self.bucket = bucket
        self.prefix = prefix.isEmpty ? "" : prefix + "/"
    }

    package var description: String { "s3://\(bucket)/\(prefix) at \(endpoint)" }

    /// `true` when the connection is not encrypted and leaves this machine.
    package var travelsOpenly: Bool {
        guard endpoint.hasPrefix("http://") else { return false }
        let host = endpoint.dropFirst("http://".count)
        return !(host.hasPrefix("127.") || host.hasPrefix("localhost") || host.hasPrefix("[::1]"))
    }

    private static func isBucketByte(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "."): true
        default: false
        }
    }

    private static func isKeyByte(_ byte: UInt8) -> Bool {
        isBucketByte(byte) || (UInt8(ascii: "A")...UInt8(ascii: "Z")).contains(byte) || byte == UInt8(ascii: "_")
    }
}

/// The hub's credentials at the object store. Never printed.
package struct ObjectStoreCredentials: Sendable, CustomStringConvertible {
    package var keyID: String
    package var secret: String
    /// The token of temporary credentials (`AWS_SESSION_TOKEN`).
    package var sessionToken: String?

    /// - Returns: `nil` for a text that cannot be a header field or a credential: empty, or with other than visible ASCII.
    package init?(keyID: String, secret: String, sessionToken: String? = nil) {
        for text in [keyID, secret, sessionToken ?? "-"] {
            guard !text.isEmpty, text.utf8.count <= 4_096, text.utf8.allSatisfy({ (0x21...0x7E).contains($0) }) else { return nil }
        }
        self.keyID = keyID
        self.secret = secret
        self.sessionToken = sessionToken
    }

    /// Reads the credentials file of Amazon's own tools: `name = value` lines, with `[default]` or nothing above them.
    package init(reading text: String) throws(HubError) {
        let doing = "read the credentials of the object store"
        let names = ["aws_access_key_id", "aws_secret_access_key", "aws_session_token"]
        var values: [String: String] = [:]
        for (index, line) in text.split(omittingEmptySubsequences: false, whereSeparator: \.isNewline).enumerated() {
            let line = line.trimmingSpaces
            if line.isEmpty || line.hasPrefix("#") || line.hasPrefix(";") || line == "[default]" { continue }
            let sides = line.split(separator: "=", maxSplits: 1).map { String($0.trimmingSpaces) }
            guard sides.count == 2, names.contains(sides[0]), values.updateValue(sides[1], forKey: sides[0]) == nil else {
                throw HubError(
                    .badStorage, doing: doing,
                    detail:
                        "line \(index + 1): expected \(names.joined(separator: ", ")), each once, as NAME = VALUE, under [default] or "
                        + "nothing")
            }
        }
        guard
            let made = ObjectStoreCredentials(
                keyID: values[names[0]] ?? "", secret: values[names[1]] ?? "", sessionToken: values[names[2]])
        else { throw HubError(.badStorage, doing: doing, detail: "expected \(names[0]) and \(names[1]), in visible ASCII") }
        self = made
    }

    package var description: String { keyID }
}
