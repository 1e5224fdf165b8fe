/// SHA-256 of a file's bytes, which is its name on the wire and on disk.
package struct BlobDigest: Hashable, Comparable, Sendable, CustomStringConvertible {
    /// 64 lower-case hexadecimal digits.
    package let hex: String

    /// - Parameter bytes: The 32 bytes; any other number gives `nil`.
    package init?(bytes: [UInt8]) {
        guard bytes.count == 32 else { return nil }
        let digits = Array("0123456789abcdef".utf8)
        hex = String(decoding: bytes.flatMap { [digits[Int($0 >> 4)], digits[Int($0 & 15)]] }, as: UTF8.self)
    }

    /// Reads 64 hexadecimal digits of either case; `nil` for any other text.
    package init?(hex text: String) {
        guard text.utf8.count == 64, text.utf8.allSatisfy({ hexDigit($0) != nil }) else { return nil }
        hex = text.lowercased()
    }

    /// Reads the form of documents and the local API, `sha256:9b1c…`.
    package init?(_ text: String) {
        guard text.hasPrefix(BlobDigest.prefix) else { return nil }
        self.init(hex: String(text.dropFirst(BlobDigest.prefix.utf8.count)))
    }

    /// `sha256:9b1c…`
    package var description: String { BlobDigest.prefix + hex }

    package var bytes: [UInt8] {
        var bytes: [UInt8] = []
        var high: UInt8?
        for byte in hex.utf8 {
            let digit = hexDigit(byte) ?? 0
            if let first = high {
                bytes.append(first << 4 | digit)
                high = nil
            } else {
                high = digit
            }
        }
        return bytes
    }

    package static func < (left: BlobDigest, right: BlobDigest) -> Bool { left.hex < right.hex }

    private static let prefix = "sha256:"
}

// MARK: - In header fields

extension BlobDigest {
    /// The value of a `Repr-Digest` field, `sha-256=:base64:` (RFC 9530, section 3).
    package var field: String { "sha-256=:\(Base64.encode(bytes)):" }

    /// Reads a `Repr-Digest` field: a dictionary of algorithms (RFC 8941). Members other than SHA-256 are skipped.
    ///
    /// - Returns: `nil` when none of them is a complete SHA-256.
    package init?(field: String) {
        guard field.utf8.count <= 1_024 else { return nil }
        for member in field.split(separator: ",") {
            let sides = member.split(separator: "=", maxSplits: 1).map { $0.trimmingSpaces }
            guard sides.count == 2, asciiCaseEqual(String(sides[0]), "sha-256") else { continue }
            let value = sides[1].split(separator: ";", maxSplits: 1).first.map { $0.trimmingSpaces } ?? ""
            guard value.utf8.count > 2, value.first == ":", value.last == ":" else { continue }
            guard let bytes = Base64.decode(String(value.dropFirst().dropLast())), let digest = BlobDigest(bytes: bytes) else { continue }
            self = digest
            return
        }
        return nil
    }
}
