#ifndef CBENCHFLOORS_ANSWER_H
#define CBENCHFLOORS_ANSWER_H

#include <stddef.h>
#include <stdint.h>

/// Reads one HTTP/1.1 answer piece by piece: just enough of HTTP for a server that is known to speak it well.
typedef struct {
    enum {
        ANSWER_HEAD,
        ANSWER_BODY,
        ANSWER_CHUNK_SIZE,
        ANSWER_CHUNK,
        ANSWER_CHUNK_END,
        ANSWER_TRAILER,
        ANSWER_DONE,
    } state;
    int status;
    int is_chunked;
    uint64_t left;
    size_t head_length;
    char head[16 << 10];
} answer;

/// Gets the decoded body as it comes.
typedef void (*answer_sink)(void *context, const char *bytes, size_t count);

void answer_begin(answer *answer);

/// Takes `count` bytes of the connection. Returns how many belonged to this answer, or -1 if they are not HTTP.
long answer_take(answer *answer, const char *bytes, size_t count, answer_sink sink, void *context);

#endif
