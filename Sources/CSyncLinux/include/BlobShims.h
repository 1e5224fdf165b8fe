#ifndef CSYNCLINUX_BLOB_SHIMS_H
#define CSYNCLINUX_BLOB_SHIMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Files that come in. SHA-256 by libcrypto, which uses the processor's own instructions for it.

struct csl_sha256;

/// NULL when there is no memory.
struct csl_sha256 *csl_sha256_new(void);
void csl_sha256_free(struct csl_sha256 *hash);
bool csl_sha256_update(struct csl_sha256 *hash, const void *bytes, size_t count);
/// The digest of everything so far; more may follow. `digest` has room for 32 bytes.
bool csl_sha256_digest(const struct csl_sha256 *hash, unsigned char *digest);

/// Opens `path`, relative to the folder `directory`, for reading: beneath it, through no link of any kind, without waiting
/// for a process at the other end of a FIFO (openat2(2), Linux 5.6). Returns a descriptor, or -1 with errno set.
int csl_open_beneath(int directory, const char *path);

/// Makes the empty file `target` share all blocks of `source` (FICLONE, ioctl_ficlone(2)). Returns 0 or errno: most file
/// systems cannot.
int csl_clone(int target, int source);

/// Throws away what a socket has not sent yet when it is closed, and tells the peer by a reset. Without anything unsent it
/// changes nothing.
void csl_close_without_rest(int socket);

/// Makes the kernel throw away the unsent bytes of this socket when the process ends, for whatever reason. No caller waits for these bytes
/// then, and no ledger would count them.
void csl_end_without_rest(int socket);

#endif
