import SyncCore
import SyncHTTP

/// The part of a file that a request asks for: all of it, a range, or nothing because the client has it (RFC 9110, sections 13 and 14).
enum FileAnswer: Hashable, Sendable {
    case whole
    /// The bytes of a range, which is never empty.
    case part(Range<Int64>)
    /// The client has these bytes (`If-None-Match`).
    case unchanged
    /// No byte of the range exists.
    case beyond

    /// - Parameters:
    ///   - isRead: The request wants bytes. Any other one has no range (RFC 9110, section 14.2).
    ///   - tag: The strong entity tag, with its quotes.
    ///   - size: Size of the file, bytes.
    init(_ headers: HTTPHeaders, isRead: Bool, tag: String, size: Int64) {
        if let known = headers["If-None-Match"], FileAnswer.names(tag, in: known) {
            self = .unchanged
            return
        }
        // Another tag, a weak one or a date does not prove that the client's bytes are of this file.
        let mayContinue = headers["If-Range"].map { sameBytes($0, tag) } ?? true
        guard isRead, mayContinue, let text = headers["Range"], let wanted = ByteRange(text) else {
            self = .whole
            return
        }
        self = wanted.bytes(of: size).map { .part($0) } ?? .beyond
    }

    /// The comparison of `If-None-Match` is weak: `W/` before a tag does not count.
    private static func names(_ tag: String, in list: String) -> Bool {
        list.split(separator: ",").contains { part in
            let name = part.trimmingSpaces
            if sameBytes(name, "*") { return true }
            return sameBytes(name.hasPrefix("W/") ? String(name.dropFirst(2)) : name, tag)
        }
    }
}
