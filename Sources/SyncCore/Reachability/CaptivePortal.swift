/// The answer of a network at its address from RFC 8910: an `application/captive+json` document (RFC 8908, section 5).
///
/// | member | type | meaning |
/// |---|---|---|
/// | `captive` | boolean, required | a login is needed |
/// | `user-portal-url` | string | the page for people |
/// | `seconds-remaining` | number | until the session ends |
/// | `bytes-remaining` | number | until the session ends |
package struct CaptivePortal: Hashable, Sendable {
    package var isCaptive: Bool
    /// Address of the portal: `https`, visible ASCII, at most 2 KiB; any other value is dropped.
    package var userPortalURL: String?
    package var secondsRemaining: Int64?
    package var bytesRemaining: Int64?

    /// Amounts below which a session is treated like a metered link. An ordinary day of a gateway is a few megabytes, and ten minutes are
    /// enough for urgent work.
    package static let scarceBytes: Int64 = 20_000_000
    package static let scarceSeconds: Int64 = 600
    package static let maxDocumentBytes = 16 << 10

    package init(isCaptive: Bool) {
        self.isCaptive = isCaptive
    }

    package var isScarce: Bool {
        (bytesRemaining.map { $0 < Self.scarceBytes } ?? false) || (secondsRemaining.map { $0 < Self.scarceSeconds } ?? false)
    }

    /// - Returns: `nil` when the answer is no such document; then the probe decides.
    package init?(_ response: HTTPResponse) {
        guard response.status == 200, let type = response.headers["Content-Type"]?.split(separator: ";").first,
            asciiCaseEqual(type.trimmingSpaces, "application/captive+json"),
            // `try?`: an answer that is not JSON is no such document.
            let json = try? JSONReader.read(response.body), let object = json.object, let isCaptive = object["captive"]?.bool
        else { return nil }
        self.isCaptive = isCaptive
        userPortalURL = object["user-portal-url"]?.text.flatMap { Self.isPortalURL($0) ? $0 : nil }
        secondsRemaining = object["seconds-remaining"].flatMap(Self.amount)
        bytesRemaining = object["bytes-remaining"].flatMap(Self.amount)
    }

    /// An amount with a fraction counts as its whole part.
    private static func amount(_ json: JSON) -> Int64? {
        guard let number = json.double, number >= 0 else { return nil }
        return number < 9e18 ? Int64(number) : .max
    }

    /// Returns whether the address is one that RFC 8908 allows: `https` only, both for the API and for the page.
    package static func isPortalURL(_ text: String) -> Bool {
        let bytes = text.utf8
        return text.hasPrefix("https://") && bytes.count > 8 && bytes.count <= 2_048
            && bytes.allSatisfy { $0 > 32 && $0 < 127 } && !bytes.contains(UInt8(ascii: "@"))
    }

    /// The request to the network, without credentials and only over TLS.
    ///
    /// - Returns: `nil` when `uri` is not an address that RFC 8910 allows.
    package static func request(_ uri: String, interface: String?) -> HTTPRequest? {
        guard isPortalURL(uri) else { return nil }
        var deadlines = HTTPRequest.Deadlines()
        deadlines.connect = .seconds(3)
        deadlines.firstByte = .seconds(5)
        deadlines.idle = .seconds(5)
        deadlines.total = .seconds(10)
        return HTTPRequest(
            .get, uri, headers: ["Accept": "application/captive+json"], interface: interface, deadlines: deadlines,
            maxResponseBytes: maxDocumentBytes, maxInflateRatio: 1, keepsConnection: false)
    }
}
