#include "Internal.h"

#include <string.h>

/// splitmix64: a good mix of a counter, so that row 7 is the same in every run and on every machine.
static uint64_t mix(uint64_t x) {
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

static const char *const words[64] = {
    "pump", "bearing", "rail", "loose", "checked", "replaced", "noise", "high", "low", "valve", "closed", "open",
    "leak", "seal", "oil", "level", "normal", "after", "before", "shift", "night", "morning", "restart", "alarm",
    "cleared", "manual", "filter", "clogged", "cleaned", "pressure", "rising", "falling", "stable", "motor", "hot",
    "cold", "shaft", "vibration", "belt", "worn", "ordered", "spare", "part", "door", "panel", "switch", "reset",
    "again", "twice", "once", "left", "right", "upper", "lower", "inlet", "outlet", "drain", "tank", "full",
    "empty", "half", "watch", "next", "week",
};

void bench_payload(uint64_t index, char out[BENCH_PAYLOAD_BYTES]) {
    uint64_t random = mix(index);
    char text[2 * BENCH_PAYLOAD_BYTES];
    int length = snprintf(
        text, sizeof text,
        "{\"at\":\"2026-11-%02uT%02u:%02u:%02u.%03uZ\",\"sensor\":\"pump-%02u/bearing-%u\",\"value\":%u.%08u,"
        "\"remark\":\"",
        (unsigned)(1 + index / 86400 % 28), (unsigned)(index / 3600 % 24), (unsigned)(index / 60 % 60),
        (unsigned)(index % 60), (unsigned)(random % 1000), (unsigned)(random >> 10) % 32, (unsigned)(random >> 15) % 4,
        (unsigned)(40 + (random >> 17) % 60), (unsigned)((random >> 24) % 100000000u));
    // Words up to the size, the last one cut: the document is always as long as promised.
    while (length < BENCH_PAYLOAD_BYTES) {
        random = mix(random);
        length += snprintf(text + length, sizeof text - (size_t)length, "%s ", words[random % 64]);
    }
    memcpy(out, text, BENCH_PAYLOAD_BYTES - 2);
    memcpy(out + BENCH_PAYLOAD_BYTES - 2, "\"}", 2);
}

void bench_key(uint64_t index, char out[37]) {
    uint64_t high = mix(index * 2 + 1), low = mix(index * 2 + 2);
    // The time part of a UUIDv7 moves slowly, as it does for real keys, and so compresses and sorts as they do.
    uint64_t milliseconds = 1795216800000u + index / 8;
    snprintf(
        out, 37, "%08x-%04x-7%03x-%04x-%012llx", (unsigned)(milliseconds >> 16), (unsigned)(milliseconds & 0xffff),
        (unsigned)(high & 0xfff), (unsigned)(0x8000 | (high >> 12 & 0x3fff)),
        (unsigned long long)(low & 0xffffffffffffu));
}
