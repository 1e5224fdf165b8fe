import SyncCore

/// The content codings that a client accepts.
package enum ContentCoding {
    /// Reads `Accept-Encoding` (RFC 9110, 12.5.3) for one coding: it is accepted when named without a weight of zero.
    package static func acceptsGzip(_ header: String?) -> Bool {
        for part in (header ?? "").split(separator: ",") {
            let words = part.split(separator: ";").map { $0.trimmingSpaces }
            guard let name = words.first, asciiCaseEqual(name, "gzip") || name == "*" else { continue }
            let weight = words.dropFirst().first { $0.hasPrefix("q=") || $0.hasPrefix("Q=") }?.dropFirst(2)
            return weight.map { (Double($0) ?? 0) > 0 } ?? true
        }
        return false
    }
}
