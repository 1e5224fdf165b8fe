#include "CProcessStand.h"

#include <sys/xattr.h>

long stand_socket_protocol(const char *descriptor, char *name, unsigned long size) {
    return getxattr(descriptor, "system.sockprotoname", name, size);
}
