#ifndef CSYNCLINUX_CURL_SHIMS_H
#define CSYNCLINUX_CURL_SHIMS_H

#include <curl/curl.h>
#include <stdbool.h>
#include <stdint.h>

// curl's setters and getters are variadic, which Swift cannot call. One typed function per type of argument: the type
// that each option wants is in its manual page (CURLOPT_*(3), CURLINFO_*(3)).

static inline CURLcode csl_easy_set_long(CURL *easy, CURLoption option, long value) {
    return curl_easy_setopt(easy, option, value);
}
static inline CURLcode csl_easy_set_offset(CURL *easy, CURLoption option, curl_off_t value) {
    return curl_easy_setopt(easy, option, value);
}
/// curl copies the text, except for CURLOPT_POSTFIELDS. NULL takes the default away.
static inline CURLcode csl_easy_set_text(CURL *easy, CURLoption option, const char *value) {
    return curl_easy_setopt(easy, option, value);
}
/// CURLOPT_POSTFIELDS, CURLOPT_ERRORBUFFER, CURLOPT_SHARE and every CURLOPT_*DATA: curl keeps the pointer.
static inline CURLcode csl_easy_set_pointer(CURL *easy, CURLoption option, void *value) {
    return curl_easy_setopt(easy, option, value);
}
static inline CURLcode csl_easy_set_list(CURL *easy, CURLoption option, struct curl_slist *value) {
    return curl_easy_setopt(easy, option, value);
}

typedef size_t (*csl_bytes_callback)(char *bytes, size_t size, size_t count, void *context);
static inline CURLcode csl_easy_set_header_callback(CURL *easy, csl_bytes_callback callback) {
    return curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, callback);
}
static inline CURLcode csl_easy_set_write_callback(CURL *easy, csl_bytes_callback callback) {
    return curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, callback);
}
static inline CURLcode csl_easy_set_read_callback(CURL *easy, csl_bytes_callback callback) {
    return curl_easy_setopt(easy, CURLOPT_READFUNCTION, callback);
}
static inline CURLcode csl_easy_set_open_socket_callback(CURL *easy, curl_opensocket_callback callback) {
    return curl_easy_setopt(easy, CURLOPT_OPENSOCKETFUNCTION, callback);
}
static inline CURLcode csl_easy_set_close_socket_callback(CURL *easy, curl_closesocket_callback callback) {
    return curl_easy_setopt(easy, CURLOPT_CLOSESOCKETFUNCTION, callback);
}
static inline CURLcode csl_easy_set_ready_callback(CURL *easy, curl_prereq_callback callback) {
    return curl_easy_setopt(easy, CURLOPT_PREREQFUNCTION, callback);
}

/// Address and port as text, such as 192.0.2.7|443. False for what is no Internet address.
bool csl_address_text(const struct curl_sockaddr *address, char *text, int size);

static inline CURLcode csl_easy_get_long(CURL *easy, CURLINFO info, long *value) {
    return curl_easy_getinfo(easy, info, value);
}
static inline CURLcode csl_easy_get_offset(CURL *easy, CURLINFO info, curl_off_t *value) {
    return curl_easy_getinfo(easy, info, value);
}
static inline CURLcode csl_easy_get_socket(CURL *easy, curl_socket_t *value) {
    return curl_easy_getinfo(easy, CURLINFO_ACTIVESOCKET, value);
}
static inline CURLcode csl_easy_get_pointer(CURL *easy, CURLINFO info, void **value) {
    return curl_easy_getinfo(easy, info, (char **)value);
}

static inline CURLMcode csl_multi_set_long(CURLM *multi, CURLMoption option, long value) {
    return curl_multi_setopt(multi, option, value);
}
static inline CURLSHcode csl_share_set_long(CURLSH *share, CURLSHoption option, long value) {
    return curl_share_setopt(share, option, value);
}

// CURLMsg keeps the result in a union.
static inline CURLcode csl_message_result(const CURLMsg *message) {
    return message->data.result;
}

/// The early checks of a TLS handshake, and the facts that it learned. Lives as long as the transfer that points to it.
struct csl_tls_watch {
    /// The name or address that the certificate must carry; NULL leaves the check to curl alone.
    const char *host;
    bool host_is_address;
    /// The TCP connection stands and the handshake has begun (curl's own times say so only once it is over).
    bool has_begun;
    /// The peer asked for a client certificate.
    bool asked_for_certificate;
    /// Seconds since 1970 of the first certificate of the peer's chain to end; 0 when none was looked at (a resumed session).
    int64_t ends_at;
};

/// Makes every TLS connection of `easy` report to `watch`, check the name before the dates, and refuse renegotiation.
CURLcode csl_easy_watch_tls(CURL *easy, struct csl_tls_watch *watch);

/// When the first of the certificates in a PEM file ends, in seconds since 1970. False when there is none that reads.
bool csl_certificates_end(const char *path, int64_t *ends_at);

/// The words for an X509_V_ERR_* number of CURLINFO_SSL_VERIFYRESULT.
const char *csl_verify_error_text(long result);

/// True for the X509_V_ERR_* numbers that complain about a date.
bool csl_is_date_error(long result);

#endif
