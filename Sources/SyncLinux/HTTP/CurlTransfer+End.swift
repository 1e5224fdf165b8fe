import CSyncLinux
import SyncCore

/// The result of the transfer, good or not, and its bytes.
extension CurlTransfer {
    /// `true` when the status is 421: the peer of this connection does not answer for the requested server (RFC 9110, 15.5.20).
    var isMisdirected: Bool { reader.isHeadWhole && reader.status == 421 }

    /// Ends the transfer with the result of curl, good or not. The transfer is removed from curl already.
    func complete(_ code: CURLcode) {
        if code == CURLE_OK || reader.isStopped {
            // A connection that ends in the middle of a head is no error to curl, which knows no length to compare.
            guard reader.isHeadWhole else { return fail(.broken, doing: doing, detail: "closed in the answer's head") }
            do throws(Refusal) {
                try reader.finish()
                var response = HTTPResponse(
                    status: reader.status, headers: reader.headers, body: reader.body, traffic: traffic)
                response.certificateEndsAt = memory.certificateEndsAt
                releaseHandle()
                return finish(.success(response))
            } catch {
                return fail(error.code, doing: doing, detail: error.words)
            }
        }
        if let refusal { return fail(refusal.code, doing: doing, detail: refusal.detail) }
        if let detail = proxyRefusal { return fail(.unreachable, doing: doing, detail: detail) }
        let failure = CurlFailure(
            code: code, text: memory.errorText ?? String(cString: curl_easy_strerror(code)),
            verifyResult: long(CURLINFO_SSL_VERIFYRESULT), systemError: Int32(clamping: long(CURLINFO_OS_ERRNO)),
            isHeadBegun: reader.hasBegun, isNewConnection: long(CURLINFO_NUM_CONNECTS) > 0,
            askedForCertificate: memory.askedForCertificate,
            showsCertificate: request.tls?.clientCertificateFile != nil)
        // curl reports a path that is too long for a socket as a name that cannot be resolved.
        let transportCode = failure.transportCode
        let isPath = transportCode == .unresolved && place.isUnixSocket
        fail(isPath ? .unreachable : transportCode, doing: doing, detail: failure.detail)
    }

    /// The proxy's answer to `CONNECT`, when it was a refusal.
    private var proxyRefusal: String? {
        let status = long(CURLINFO_HTTP_CONNECTCODE)
        guard place.proxy != nil, status >= 300 else { return nil }
        return switch status {
        case 407: (hasProxyCredentials ? HTTPProxy.Demand.otherCredentials : .credentials).rawValue
        case 401, 403, 405: "the proxy lets nothing through to there (\(status))"
        case 500...599: "the proxy cannot reach it (\(status))"
        default: "the proxy answers \(status)"
        }
    }

    func fail(_ code: TransportError.Code, doing: String, detail: String) {
        var error = TransportError(code, doing: doing, detail: detail, traffic: traffic)
        if reader.hasBegun { error.status = reader.status }
        releaseHandle()
        finish(.failure(error))
    }

    /// Present step of the transfer, for error messages.
    var doing: String {
        switch clock.step {
        case .connecting:
            if memory.isHandshakeBegun { return "TLS handshake with \(place.name)" }
            if let proxy = place.proxy?.url {
                if offset(CURLINFO_NAMELOOKUP_TIME_T) == 0 { return "resolve the proxy \(proxy.host)" }
                return "connect to \(place.name) through the proxy \(proxy.authority)"
            }
            if !place.isUnixSocket, offset(CURLINFO_NAMELOOKUP_TIME_T) == 0 { return "resolve \(place.host)" }
            return "connect to \(place.name)"
        case .sending: return "send the request to \(place.name)"
        case .waiting: return "wait for the answer of \(place.name)"
        case .receiving: return "receive the answer of \(place.name)"
        }
    }

    // MARK: Traffic

    func moved(_ bytes: SocketLedger.Bytes) {
        tcp = (tcp ?? SocketLedger.Bytes()) + bytes
    }

    private var traffic: Traffic {
        var traffic = Traffic()
        if let tcp {
            traffic.add(tcp)
        } else {
            // There is no TCP (a Unix socket), so the sizes that HTTP itself sent are used. curl sends a body in memory together with the
            // head when it is below 64 KiB, and then counts it into the request (libcurl 7.88, Curl_buffer_send).
            var isOneWrite = upload.size.map { $0 < 64 << 10 } ?? false
            if case .sized = self.request.body { isOneWrite = false }
            let request = Int64(long(CURLINFO_REQUEST_SIZE))
            traffic.up = Int(clamping: isOneWrite ? request : request + offset(CURLINFO_SIZE_UPLOAD_T))
            traffic.down = Int(clamping: Int64(long(CURLINFO_HEADER_SIZE)) + offset(CURLINFO_SIZE_DOWNLOAD_T))
        }
        traffic.newConnection = long(CURLINFO_NUM_CONNECTS) > 0
        let sent = offset(CURLINFO_PRETRANSFER_TIME_T), answered = offset(CURLINFO_STARTTRANSFER_TIME_T)
        if reader.hasBegun, answered >= sent { traffic.roundTrip = .microseconds(answered - sent) }
        return traffic
    }
}

extension Refusal {
    var code: TransportError.Code {
        switch self {
        case .tooLarge: .tooLarge
        case .malformed: .malformed
        }
    }

    var words: String {
        switch self {
        case .tooLarge(let words), .malformed(let words): words
        }
    }
}
