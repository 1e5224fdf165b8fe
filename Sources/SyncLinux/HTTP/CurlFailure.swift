import CSyncLinux
import Glibc
import SyncCore

/// A failed transfer as curl reports it, and its meaning.
///
/// curl's codes name the call that failed and not the cause. A server that refuses our certificate under TLS 1.3 shows as a failed read,
/// because the handshake is over for the client before the server has checked the certificate. Therefore the handshake's own record
/// (``csl_tls_watch``), the verification result and, last, the words are examined as well. The words are those of libcurl 7.88 with OpenSSL
/// 3. Where another version uses other words, the plain meaning of the code stays.
struct CurlFailure {
    var code: CURLcode
    var text: String
    /// X509_V_ERR_*: 0 when the peer's certificate is valid, 1 when it was not examined.
    var verifyResult: Int
    var systemError: Int32
    /// `true` when at least the status line came.
    var isHeadBegun: Bool
    var isNewConnection: Bool
    /// `true` when the peer asked for a client certificate in the handshake.
    var askedForCertificate: Bool
    /// `true` when the request names a client certificate.
    var showsCertificate: Bool

    var transportCode: TransportError.Code {
        if isCertificateRefused { return .clientCertificate }
        switch code {
        case CURLE_COULDNT_RESOLVE_HOST, CURLE_COULDNT_RESOLVE_PROXY:
            return .unresolved
        case CURLE_COULDNT_CONNECT, CURLE_INTERFACE_FAILED:
            return .unreachable
        case CURLE_OPERATION_TIMEDOUT:
            return .timedOut
        case CURLE_PEER_FAILED_VERIFICATION:
            return csl_is_date_error(verifyResult) ? .untrustedDate : .untrusted
        case CURLE_SSL_CERTPROBLEM, CURLE_SSL_CLIENTCERT:
            return .clientCertificate
        case CURLE_SSL_CONNECT_ERROR:
            return words(Self.brokenHandshake) ? .broken : .untrusted
        case CURLE_SSL_PINNEDPUBKEYNOTMATCH, CURLE_SSL_CACERT_BADFILE, CURLE_SSL_CIPHER, CURLE_SSL_ISSUER_ERROR,
            CURLE_SSL_CRL_BADFILE, CURLE_SSL_INVALIDCERTSTATUS, CURLE_USE_SSL_FAILED:
            return .untrusted
        case CURLE_UNSUPPORTED_PROTOCOL, CURLE_URL_MALFORMAT, CURLE_WEIRD_SERVER_REPLY, CURLE_BAD_CONTENT_ENCODING:
            // curl reports the first code also for an answer without a status line (HTTP/0.9).
            return .malformed
        case CURLE_RECV_ERROR where words(["chunk"]):
            return .malformed
        case CURLE_FILESIZE_EXCEEDED:
            return .tooLarge
        case CURLE_OUT_OF_MEMORY where isHeadBegun, CURLE_RECV_ERROR where words(["Too large response headers"]):
            // curl reports its own limit on one line of a head, 100 KiB, as a lack of memory.
            return .tooLarge
        default:
            // The other codes mean a connection or a stream that broke in the middle.
            return .broken
        }
    }

    var detail: String {
        var detail = text
        if code == CURLE_PEER_FAILED_VERIFICATION, verifyResult > 1 {
            let reason = String(cString: csl_verify_error_text(verifyResult))
            if !words([reason]) { detail += " (\(reason))" }
        }
        if systemError != 0, code == CURLE_COULDNT_CONNECT || code == CURLE_INTERFACE_FAILED {
            detail += " (\(String(cString: strerror(systemError))))"
        }
        // Part of the text may come from the peer.
        return String(decoding: detail.utf8.prefix(512).map { $0 < 0x20 || $0 == 0x7F ? 32 : $0 }, as: UTF8.self)
    }

    private var isCertificateRefused: Bool {
        // Only a failure before the first answer on the connection counts: a later one comes after the server has accepted the client.
        guard askedForCertificate, isNewConnection, !isHeadBegun else { return false }
        switch code {
        case CURLE_SSL_CONNECT_ERROR, CURLE_SEND_ERROR, CURLE_RECV_ERROR, CURLE_GOT_NOTHING:
            // Without a certificate, any end right after the server's request for one is its refusal; a TLS 1.3 server that closes at once
            // may leave no alert for us to read. With a certificate, only an alert shows that it was refused.
            return !showsCertificate || words(Self.certificateAlerts)
        case CURLE_PEER_FAILED_VERIFICATION:
            // The server's alert "certificate expired" is about our certificate, though curl reports it like a fault of the peer's.
            return words(["SSL certificate verification failed"]) && verifyResult <= 1
        default:
            return false
        }
    }

    private func words(_ wanted: [String]) -> Bool {
        wanted.contains { text.contains($0) }
    }

    private static let brokenHandshake = [
        "SSL_ERROR_SYSCALL", "SSL_ERROR_ZERO_RETURN", "reset by peer", "Broken pipe", "unexpected eof",
    ]

    private static let certificateAlerts = [
        "alert bad certificate", "alert unsupported certificate", "alert certificate revoked", "alert certificate expired",
        "alert certificate unknown", "alert certificate required", "alert unknown ca", "alert access denied",
        "alert handshake failure",
    ]
}
