#include "CSyncLinux.h"
