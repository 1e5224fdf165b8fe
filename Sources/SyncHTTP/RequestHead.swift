import NIOHTTP1

/// Request line and header fields, already checked against the rules of RFC 9112 that the server enforces.
///
/// A class, because it is passed on a dozen times in each request: one reference is counted instead of its whole content.
package final class RequestHead: Sendable {
    package enum Method: String, Sendable, CaseIterable {
        case get = "GET", head = "HEAD", post = "POST", put = "PUT", patch = "PATCH", delete = "DELETE"
        case options = "OPTIONS"
    }

    package let method: Method
    package let peer: HTTPPeer
    /// Declared length of the body: 0 when there is none, `nil` when it is chunked.
    package let contentLength: Int?
    private let head: HTTPRequestHead

    init(method: Method, peer: HTTPPeer, contentLength: Int?, head: HTTPRequestHead) {
        self.method = method
        self.peer = peer
        self.contentLength = contentLength
        self.head = head
    }

    /// The target as sent: visible ASCII, begins with `/` (or is `*`, with `OPTIONS`), no fragment, nothing decoded.
    package var target: String { head.uri }

    /// The target up to the first `?`, nothing decoded.
    package var path: Substring {
        let target = head.uri
        return target[..<(target.utf8.firstIndex(of: UInt8(ascii: "?")) ?? target.endIndex)]
    }

    /// The target after the first `?`, nothing decoded; `nil` without one.
    package var query: Substring? {
        let target = head.uri
        return target.utf8.firstIndex(of: UInt8(ascii: "?")).map { target[target.utf8.index(after: $0)...] }
    }

    /// The value of the first field of that name (ASCII case ignored), without surrounding white space. Bytes that are not UTF-8 appear as
    /// U+FFFD.
    package func header(_ name: String) -> String? {
        head.headers.first(name: name).map { String($0.withoutTrailingBlanks) }
    }

    /// The first of these fields that the request has more than once.
    ///
    /// The intended one of two values is unknown, and programs on the way may each use another one.
    ///
    /// - Parameter names: In lower case; ASCII case is ignored in the request.
    package func repeated(among names: [StaticString]) -> StaticString? {
        names.first { name in
            var count = 0
            // The length distinguishes almost all other names.
            for (field, _) in head.headers where field.utf8.count == name.utf8CodeUnitCount && field.isASCIICaseEqual(to: name) {
                count += 1
            }
            return count > 1
        }
    }

    /// The values of all fields of that name, in order.
    package func headers(_ name: String) -> [String] {
        head.headers[name].map { String($0.withoutTrailingBlanks) }
    }
}
