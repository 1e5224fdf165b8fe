#include "CProcessStand.h"

#include <errno.h>
#include <sys/xattr.h>

long stand_socket_protocol(const char *descriptor, char *name, unsigned long size) {
    ssize_t length = getxattr(descriptor, "system.sockprotoname", name, size);
    return length < 0 ? -errno : length;
}
