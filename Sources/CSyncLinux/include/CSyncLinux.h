#ifndef CSYNCLINUX_H
#define CSYNCLINUX_H

#include <curl/curl.h>
#include <zlib.h>

#include "BlobShims.h"
#include "CSyncLinuxPeer.h"
#include "ClockShims.h"
#include "CurlShims.h"
#include "NetlinkShims.h"
#include "ProcessShims.h"
#include "SocketShims.h"

#endif
