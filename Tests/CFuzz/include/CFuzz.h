#include <stddef.h>
#include <stdint.h>

/// libFuzzer as a library (compiler-rt, FuzzerDriver.cpp): runs with these arguments until it is done or something broke.
int LLVMFuzzerRunDriver(int *argc, char ***argv, int (*callback)(const uint8_t *data, size_t size));
