#include "CPostgres.h"
