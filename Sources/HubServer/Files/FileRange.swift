import SyncCore

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
        guard isRead, mayContinue, let text = headers["Range"], let wanted = WantedRange(text) else {
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

/// The one range of a `Range` field in bytes.
enum WantedRange: Hashable, Sendable {
    /// `bytes=N-` and `bytes=N-M`; `last` counts from 0 and is included.
    case from(Int64, last: Int64?)
    /// `bytes=-N`
    case last(Int64)

    /// Numbers above 2^63-1 count as that.
    ///
    /// - Returns: `nil` for several ranges, for another unit and for a text that is none: such a field is ignored.
    init?(_ text: String) {
        let sides = text.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
        guard sides.count == 2, asciiCaseEqual(sides[0].trimmingSpaces, "bytes") else { return nil }
        let ends = sides[1].trimmingSpaces.split(separator: "-", omittingEmptySubsequences: false)
        guard ends.count == 2 else { return nil }
        switch (WantedRange.number(ends[0]), WantedRange.number(ends[1])) {
        case (let first?, let last?) where first <= last: self = .from(first, last: last)
        case (let first?, nil) where ends[1].isEmpty: self = .from(first, last: nil)
        case (nil, let count?) where ends[0].isEmpty: self = .last(count)
        case (_, _): return nil
        }
    }

    /// The bytes of a file of this size; `nil`: none of them exists.
    func bytes(of size: Int64) -> Range<Int64>? {
        switch self {
        case .from(let first, let last):
            guard first < size else { return nil }
            return first..<min(size, (last ?? .max).saturatingAdd(1))
        case .last(let count):
            guard count > 0, size > 0 else { return nil }
            return max(0, size - count)..<size
        }
    }

    private static func number(_ text: Substring) -> Int64? {
        guard !text.isEmpty, text.utf8.allSatisfy({ (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }) else { return nil }
        return Int64(text) ?? .max
    }
}
