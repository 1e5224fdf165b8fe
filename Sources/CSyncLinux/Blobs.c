#include "CSyncLinux.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <linux/openat2.h>
#include <linux/sockios.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

struct csl_sha256 {
    EVP_MD_CTX *context;
};

struct csl_sha256 *csl_sha256_new(void) {
    struct csl_sha256 *hash = malloc(sizeof *hash);
    if (!hash) return NULL;
    hash->context = EVP_MD_CTX_new();
    if (!hash->context || EVP_DigestInit_ex(hash->context, EVP_sha256(), NULL) != 1) {
        csl_sha256_free(hash);
        return NULL;
    }
    return hash;
}

void csl_sha256_free(struct csl_sha256 *hash) {
    if (!hash) return;
    EVP_MD_CTX_free(hash->context);
    free(hash);
}

bool csl_sha256_update(struct csl_sha256 *hash, const void *bytes, size_t count) {
    return EVP_DigestUpdate(hash->context, bytes, count) == 1;
}

bool csl_sha256_digest(const struct csl_sha256 *hash, unsigned char *digest) {
    EVP_MD_CTX *copy = EVP_MD_CTX_new();
    if (!copy) return false;
    unsigned int length = 0;
    bool done = EVP_MD_CTX_copy_ex(copy, hash->context) == 1 && EVP_DigestFinal_ex(copy, digest, &length) == 1 && length == 32;
    EVP_MD_CTX_free(copy);
    return done;
}

int csl_open_beneath(int directory, const char *path) {
    struct open_how how = {
        .flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY,
        .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS,
    };
    return (int)syscall(SYS_openat2, directory, path, &how, sizeof how);
}

int csl_clone(int target, int source) {
    return ioctl(target, FICLONE, source) == 0 ? 0 : errno;
}

static void drop_rest(int socket, bool drops) {
    struct linger rest = {.l_onoff = drops, .l_linger = 0};
    setsockopt(socket, SOL_SOCKET, SO_LINGER, &rest, sizeof rest);
}

void csl_close_without_rest(int socket) {
    int unsent = 0;
    if (ioctl(socket, SIOCOUTQ, &unsent) == 0) drop_rest(socket, unsent > 0);
}

void csl_end_without_rest(int socket) {
    drop_rest(socket, true);
}
