#include "Answer.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

void answer_begin(answer *answer) {
    answer->state = ANSWER_HEAD;
    answer->status = 0;
    answer->is_chunked = 0;
    answer->left = 0;
    answer->head_length = 0;
}

/// The value of a header field, or NULL. The head is NUL-terminated.
static const char *field(const char *head, const char *name) {
    size_t length = strlen(name);
    for (const char *line = strchr(head, '\n'); line; line = strchr(line, '\n')) {
        line++;
        if (strncasecmp(line, name, length) != 0 || line[length] != ':') continue;
        const char *value = line + length + 1;
        return value + strspn(value, " ");
    }
    return NULL;
}

static int read_head(answer *answer) {
    if (strncmp(answer->head, "HTTP/1.", 7) != 0) return -1;
    answer->status = atoi(answer->head + 9);
    const char *coding = field(answer->head, "transfer-encoding");
    const char *length = field(answer->head, "content-length");
    answer->is_chunked = coding && strncasecmp(coding, "chunked", 7) == 0;
    if (answer->is_chunked) {
        answer->state = ANSWER_CHUNK_SIZE;
    } else if (answer->status == 204 || answer->status == 304) {
        answer->state = ANSWER_DONE;
    } else if (length) {
        answer->left = strtoull(length, NULL, 10);
        answer->state = answer->left > 0 ? ANSWER_BODY : ANSWER_DONE;
    } else {
        return -1;
    }
    answer->head_length = 0;
    return 0;
}

long answer_take(answer *answer, const char *bytes, size_t count, answer_sink sink, void *context) {
    size_t used = 0;
    while (used < count && answer->state != ANSWER_DONE) {
        switch (answer->state) {
        case ANSWER_HEAD: {
            if (answer->head_length + 1 >= sizeof answer->head) return -1;
            char byte = bytes[used++];
            answer->head[answer->head_length++] = byte;
            answer->head[answer->head_length] = 0;
            if (byte == '\n' && answer->head_length >= 4
                && memcmp(answer->head + answer->head_length - 4, "\r\n\r\n", 4) == 0 && read_head(answer) != 0) {
                return -1;
            }
            break;
        }
        case ANSWER_BODY:
        case ANSWER_CHUNK: {
            size_t piece = count - used < answer->left ? count - used : (size_t)answer->left;
            if (sink) sink(context, bytes + used, piece);
            used += piece;
            answer->left -= piece;
            if (answer->left == 0) answer->state = answer->is_chunked ? ANSWER_CHUNK_END : ANSWER_DONE;
            break;
        }
        case ANSWER_CHUNK_SIZE:
        case ANSWER_CHUNK_END:
        case ANSWER_TRAILER: {
            // Lines: the size of a chunk, the empty one behind it, and those of the trailer up to an empty one.
            char byte = bytes[used++];
            if (byte != '\n') {
                if (answer->head_length + 1 >= sizeof answer->head) return -1;
                if (byte != '\r') answer->head[answer->head_length++] = byte;
                break;
            }
            answer->head[answer->head_length] = 0;
            int is_empty = answer->head_length == 0;
            answer->head_length = 0;
            if (answer->state == ANSWER_CHUNK_SIZE) {
                answer->left = strtoull(answer->head, NULL, 16);
                answer->state = answer->left > 0 ? ANSWER_CHUNK : ANSWER_TRAILER;
            } else if (answer->state == ANSWER_CHUNK_END) {
                answer->state = ANSWER_CHUNK_SIZE;
            } else if (is_empty) {
                answer->state = ANSWER_DONE;
            }
            break;
        }
        case ANSWER_DONE: break;
        }
    }
    return (long)used;
}
