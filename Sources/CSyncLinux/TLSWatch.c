#define _GNU_SOURCE
#include "CurlShims.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <openssl/x509_vfy.h>
#include <stdio.h>
#include <time.h>

static int certificate_wanted(SSL *ssl, void *context) {
    (void)ssl;
    ((struct csl_tls_watch *)context)->asked_for_certificate = true;
    return 1;
}

static int64_t end_of(const X509 *certificate) {
    struct tm end;
    if (ASN1_TIME_to_tm(X509_get0_notAfter(certificate), &end) != 1) return 0;
    return (int64_t)timegm(&end);
}

// Runs for each certificate of the chain, during the handshake only, and leaves the verdict as it is.
static int certificate_seen(int verdict, X509_STORE_CTX *store) {
    SSL *ssl = X509_STORE_CTX_get_ex_data(store, SSL_get_ex_data_X509_STORE_CTX_idx());
    struct csl_tls_watch *watch = ssl ? SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl)) : NULL;
    const X509 *certificate = X509_STORE_CTX_get_current_cert(store);
    if (watch && certificate) {
        int64_t end = end_of(certificate);
        if (end > 0 && (watch->ends_at == 0 || end < watch->ends_at)) watch->ends_at = end;
    }
    return verdict;
}

bool csl_certificates_end(const char *path, int64_t *ends_at) {
    FILE *file = fopen(path, "re");
    if (!file) return false;
    int64_t first = 0;
    X509 *certificate;
    while ((certificate = PEM_read_X509(file, NULL, NULL, NULL))) {
        int64_t end = end_of(certificate);
        if (end > 0 && (first == 0 || end < first)) first = end;
        X509_free(certificate);
    }
    // The end of the file is an error to the reader, and of no interest to the next call.
    ERR_clear_error();
    fclose(file);
    *ends_at = first;
    return first > 0;
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
    SSL_CTX_set_app_data(tls, watch);
    SSL_CTX_set_verify(tls, SSL_CTX_get_verify_mode(tls), certificate_seen);
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
