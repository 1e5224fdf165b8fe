import CSyncLinux
import Glibc
import SyncCore

/// What curl reports about a failed transfer, and what it means.
///
/// curl's codes name the call that failed, not the cause: a server that refuses our certificate under TLS 1.3 shows as a
/// failed read, because the handshake is over for the client before the server has looked. So the handshake's own record
/// (``csl_tls_watch``), the verification result and, last, the words are asked as well. The words are those of libcurl 7.88
/// with OpenSSL 3; where another version writes other ones, the plain meaning of the code stays.
struct CurlFailure {
    var code: CURLcode
    var text: String
    /// X509_V_ERR_*: 0 when nothing is wrong with the peer's certificate, 1 when nothing was found out about it.
    var verifyResult: Int
    var systemError: Int32
    /// At least the status line came.
    var isHeadBegun: Bool
    var isNewConnection: Bool
    /// The peer asked for a client certificate in the handshake.
    var askedForCertificate: Bool
    /// The request names one.
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
            // The first is also what an answer without a status line gives (HTTP/0.9).
            return .malformed
        case CURLE_RECV_ERROR where words(["chunk"]):
            return .malformed
        case CURLE_FILESIZE_EXCEEDED:
            return .tooLarge
        case CURLE_OUT_OF_MEMORY where isHeadBegun, CURLE_RECV_ERROR where words(["Too large response headers"]):
            // curl's own limit on one line of a head, 100 KiB, is reported as a lack of memory.
            return .tooLarge
        default:
            // The rest breaks a connection or a stream in the middle, one way or another.
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
        // Some of it may be the peer's own text.
        return String(decoding: detail.utf8.prefix(512).map { $0 < 0x20 || $0 == 0x7F ? 32 : $0 }, as: UTF8.self)
    }

    private var isCertificateRefused: Bool {
        // Only before the first answer on the connection: what fails later was let in.
        guard askedForCertificate, isNewConnection, !isHeadBegun else { return false }
        switch code {
        case CURLE_SSL_CONNECT_ERROR, CURLE_SEND_ERROR, CURLE_RECV_ERROR, CURLE_GOT_NOTHING:
            // With nothing to show, any end right after the question is the answer to it; a TLS 1.3 server that closes at once
            // may leave no alert behind for us to read. With a certificate, only an alert says that it was not liked.
            return !showsCertificate || words(Self.certificateAlerts)
        case CURLE_PEER_FAILED_VERIFICATION:
            // The server's alert "certificate expired" is about ours, though curl files it under the peer's.
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
