#include "CurlShims.h"

#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <openssl/x509_vfy.h>

static int certificate_wanted(SSL *ssl, void *context) {
    (void)ssl;
    ((struct csl_tls_watch *)context)->asked_for_certificate = true;
    return 1;
}

static CURLcode prepare(CURL *easy, void *ssl_context, void *context) {
    (void)easy;
    SSL_CTX *tls = ssl_context;
    struct csl_tls_watch *watch = context;
    watch->has_begun = true;

    // Curl looks at the name after the handshake, and a date error ends the handshake: a foreign certificate that is also
    // expired would pass for a clock problem. OpenSSL checks names before dates, so the name is given to it too.
    // Curl's own check still follows.
    if (watch->host) {
        X509_VERIFY_PARAM *parameters = SSL_CTX_get0_param(tls);
        int set = watch->host_is_address
            ? X509_VERIFY_PARAM_set1_ip_asc(parameters, watch->host)
            : X509_VERIFY_PARAM_set1_host(parameters, watch->host, 0);
        if (set != 1) return CURLE_SSL_CONNECT_ERROR;
    }

    // On a client this runs when the server sends a CertificateRequest, whether we have a certificate or not. Without
    // renegotiation that is only during the handshake, while the transfer that owns `watch` is alive.
    SSL_CTX_set_cert_cb(tls, certificate_wanted, watch);
    SSL_CTX_set_options(tls, SSL_OP_NO_RENEGOTIATION);
    return CURLE_OK;
}

CURLcode csl_easy_watch_tls(CURL *easy, struct csl_tls_watch *watch) {
    CURLcode code = curl_easy_setopt(easy, CURLOPT_SSL_CTX_FUNCTION, prepare);
    if (code != CURLE_OK) return code;
    return curl_easy_setopt(easy, CURLOPT_SSL_CTX_DATA, watch);
}

const char *csl_verify_error_text(long result) {
    return X509_verify_cert_error_string(result);
}

bool csl_is_date_error(long result) {
    switch (result) {
    case X509_V_ERR_CERT_NOT_YET_VALID:
    case X509_V_ERR_CERT_HAS_EXPIRED:
    case X509_V_ERR_CRL_NOT_YET_VALID:
    case X509_V_ERR_CRL_HAS_EXPIRED:
        return true;
    default:
        return false;
    }
}
