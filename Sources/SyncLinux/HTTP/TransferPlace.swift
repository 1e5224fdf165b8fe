import CSyncLinux
import Glibc
import SyncCore

/// Destination of a request, as far as errors and TLS need it; curl itself gets the URL unchanged.
struct TransferPlace {
    let isTLS: Bool
    let host: String
    /// Name for messages: `hub.example:443`, or the path of a Unix socket.
    let name: String
    let isUnixSocket: Bool
    /// The proxy that the connection goes to instead.
    let proxy: HTTPProxy?
    /// The peer that the connection itself goes to.
    var peer: String { proxy?.url.authority ?? name }

    /// - Throws: A sentence when the text is no URL, when its scheme is not `http` or `https`, or when it holds a user name or password.
    init(url: String, socketPath: String?, proxy: HTTPProxy? = nil) throws(Refusal) {
        guard let parsed = curl_url() else { throw .malformed("no memory to read the URL") }
        defer { curl_url_cleanup(parsed) }
        let result = curl_url_set(parsed, CURLUPART_URL, url, 0)
        guard result == CURLUE_OK, !url.utf8.contains(0) else {
            throw .malformed("not a URL: \(String(cString: curl_url_strerror(result)))")
        }
        func part(_ part: CURLUPart, _ flags: Int32 = 0) -> String? {
            var text: UnsafeMutablePointer<CChar>?
            guard curl_url_get(parsed, part, &text, UInt32(flags)) == CURLUE_OK, let text else { return nil }
            defer { curl_free(text) }
            return String(cString: text)
        }
        guard let scheme = part(CURLUPART_SCHEME), scheme == "http" || scheme == "https" else {
            throw .malformed("the URL is neither http nor https")
        }
        guard part(CURLUPART_USER) == nil, part(CURLUPART_PASSWORD) == nil else {
            throw .malformed("a URL with a user name or password in it")
        }
        guard let host = part(CURLUPART_HOST), let port = part(CURLUPART_PORT, CURLU_DEFAULT_PORT) else {
            throw .malformed("a URL without a host")
        }
        isTLS = scheme == "https"
        self.host = host
        isUnixSocket = socketPath != nil
        self.proxy = proxy.flatMap { socketPath == nil && $0.carries(host) ? $0 : nil }
        name = socketPath ?? "\(host):\(port)"
    }

    /// Name that the certificate must have. `nil` when OpenSSL cannot be given it in the form that curl uses: names that are not ASCII,
    /// which curl turns into punycode, and scoped addresses.
    var certificateName: (text: String, isAddress: Bool)? {
        guard isTLS, !host.isEmpty, host.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7F }), !host.utf8.contains(37) else {
            return nil
        }
        if host.utf8.first == UInt8(ascii: "["), host.utf8.last == UInt8(ascii: "]") {
            return (String(host.dropFirst().dropLast()), true)
        }
        var address = in_addr()
        if inet_pton(AF_INET, host, &address) == 1 { return (host, true) }
        // Certificates do not have the final dot of a complete name.
        return (host.utf8.last == UInt8(ascii: ".") ? String(host.dropLast()) : host, false)
    }
}
