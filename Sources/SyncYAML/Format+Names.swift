package import SyncCore

extension Format {
    /// A name of 1 to 64 characters, such as entities, apps and devices have.
    package static func identifier<Kind>() -> Format where Value == Identifier<Kind> {
        .text(
            expected: "a name of 1 to 64 characters A-Z a-z 0-9 . _ : -", parse: { Value($0) },
            write: { .string($0.text) })
    }
}

extension Format where Value == String {
    /// An absolute path of at most `limit` bytes, without `.` and `..`. A slash at the end is dropped.
    ///
    /// - Parameter hidesValue: For the path of a secret: a user may put the secret itself here, and then it must not appear in a message.
    package static func path(upTo limit: Int = 4_095, hidesValue: Bool = false) -> Format {
        .text(
            expected: "an absolute path of at most \(limit) bytes without . and .. in it", hidesValue: hidesValue,
            parse: { text in
                let path = text.utf8.count > 1 && text.utf8.last == UInt8(ascii: "/") ? String(text.dropLast()) : text
                let parts = path.split(separator: "/", omittingEmptySubsequences: false)
                guard path.utf8.first == UInt8(ascii: "/"), path.utf8.count <= limit,
                    !path.unicodeScalars.contains(where: { $0.value < 32 || (0x7F...0x9F).contains($0.value) }),
                    text == "/" || parts.dropFirst().allSatisfy({ $0 != "" && $0 != "." && $0 != ".." })
                else { return nil }
                return path
            }, write: { .string($0) })
    }
}
