import CSyncLinux
import SyncCore

/// Memory that curl keeps pointers to during one transfer: it must neither move nor end before the handle does.
final class CurlTransferMemory {
    let body: UnsafeMutableRawBufferPointer
    let errorBuffer: UnsafeMutablePointer<CChar>
    let tlsWatch: UnsafeMutablePointer<csl_tls_watch>
    private(set) var headers: UnsafeMutablePointer<curl_slist>?
    private let host: UnsafeMutablePointer<CChar>?

    init(body bytes: [UInt8], host name: (text: String, isAddress: Bool)?) {
        // The body always has an address, because curl would take none for "no body, ask the read callback".
        body = .allocate(byteCount: max(1, bytes.count), alignment: 1)
        body.copyBytes(from: bytes)
        errorBuffer = .allocate(capacity: Int(CURL_ERROR_SIZE))
        errorBuffer.initialize(repeating: 0, count: Int(CURL_ERROR_SIZE))
        let text = name.map { Array($0.text.utf8CString) }
        host = text.map { text in
            let copy = UnsafeMutablePointer<CChar>.allocate(capacity: text.count)
            copy.initialize(from: text, count: text.count)
            return copy
        }
        tlsWatch = .allocate(capacity: 1)
        tlsWatch.initialize(
            to: csl_tls_watch(
                host: UnsafePointer(host), host_is_address: name?.isAddress ?? false, has_begun: false,
                asked_for_certificate: false, ends_at: 0))
    }

    deinit {
        body.deallocate()
        errorBuffer.deallocate()
        tlsWatch.deallocate()
        host?.deallocate()
        curl_slist_free_all(headers)
    }

    /// - Returns: `false` when there is no memory.
    func add(header line: String) -> Bool {
        guard let longer = curl_slist_append(headers, line) else { return false }
        headers = longer
        return true
    }

    var isHandshakeBegun: Bool { tlsWatch.pointee.has_begun }
    var askedForCertificate: Bool { tlsWatch.pointee.asked_for_certificate }

    /// Earliest expiry among the certificates of the peer's chain; `nil` when no chain was verified.
    var certificateEndsAt: Timestamp? {
        let seconds = tlsWatch.pointee.ends_at
        return seconds > 0 ? Timestamp(milliseconds: seconds.saturatingMultiply(1_000)) : nil
    }

    /// curl's words about the failure; `nil` when there are none.
    var errorText: String? {
        errorBuffer.pointee == 0 ? nil : String(cString: errorBuffer)
    }
}
