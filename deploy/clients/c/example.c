// An app in C that writes, reads and follows records over the socket of agentd. It needs libcurl.
//
//   cc -o example example.c -lcurl
//   ./example write ENTITY ID DATA KEY    stores the fields of DATA (JSON) in a record
//   ./example read ENTITY ID              prints the record
//   ./example follow FILE                 prints the changes of records, for ever
//
// AGENTD_SOCKET is the path of the socket. While the agent is away or busy, a request is repeated for DEADLINE seconds (30).
// Exit status: 0 done, 1 the agent refused it, 2 the agent cannot be reached, 64 wrong usage.

#define _GNU_SOURCE
#include <curl/curl.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { text_max = 16 << 20, event_max = 1 << 20 };

static void fail(int status, const char *format, ...) {
    va_list words;
    va_start(words, format);
    fputs("example: ", stderr);
    vfprintf(stderr, format, words);
    fputc('\n', stderr);
    va_end(words);
    exit(status);
}

static char *text(const char *format, ...) {
    va_list words;
    char *made;
    va_start(words, format);
    if (vasprintf(&made, format, words) < 0) fail(2, "no memory");
    va_end(words);
    return made;
}

static const char *setting(const char *name, const char *otherwise) {
    const char *value = getenv(name);
    return value && *value ? value : otherwise;
}

static const char *socket_path(void) { return setting("AGENTD_SOCKET", "/run/agentd/agent.sock"); }

static void backoff(void) { usleep(100000 + (useconds_t)(random() % 400000)); }

// The part of an answer that has come so far.
struct buffer {
    char *bytes;
    size_t count;
};

static void append(struct buffer *into, const char *bytes, size_t count) {
    char *grown = realloc(into->bytes, into->count + count + 1);
    if (!grown) fail(2, "no memory");
    memcpy(grown + into->count, bytes, count);
    into->bytes = grown;
    into->count += count;
    grown[into->count] = 0;
}

// For libcurl: keeps the whole answer. Less than all of it ends the transfer.
static size_t collect(char *bytes, size_t size, size_t count, void *into) {
    struct buffer *body = into;
    if (body->count + size * count > text_max) return 0;
    append(body, bytes, size * count);
    return size * count;
}

static void check_permission(void) {
    if (access(socket_path(), W_OK) < 0 && errno == EACCES) fail(2, "this user may not open the socket %s", socket_path());
}

static int is_busy(long status) { return status == 408 || status == 429 || status == 500 || status == 503; }

// One request. Returns its HTTP status; 0 where there was none, with the reason in `error`.
static long send_request(
    const char *path, struct curl_slist *headers, const char *body, curl_write_callback read, void *into, char *error
) {
    CURL *curl = curl_easy_init();
    char *url = text("http://agent%s", path);
    long status = 0;
    if (!curl) fail(2, "libcurl does not start");
    *error = 0;
    curl_easy_setopt(curl, CURLOPT_UNIX_SOCKET_PATH, socket_path());
    curl_easy_setopt(curl, CURLOPT_URL, url);
    curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, error);
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, read);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, into);
    // The agent writes to a feed at least every 15 seconds. After three times that, the connection is dead.
    curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, 1L);
    curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME, 45L);
    if (body) curl_easy_setopt(curl, CURLOPT_POSTFIELDS, body);
    CURLcode code = curl_easy_perform(curl);
    curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
    if (code != CURLE_OK) {
        status = 0;
        if (!*error) strcpy(error, curl_easy_strerror(code));
    }
    curl_easy_cleanup(curl);
    free(url);
    return status;
}

// One request and its whole answer, repeated while the agent is away or busy. The caller frees the answer.
static char *ask(const char *path, struct curl_slist *headers, const char *body) {
    time_t end = time(NULL) + atol(setting("DEADLINE", "30"));
    char error[CURL_ERROR_SIZE];
    while (1) {
        struct buffer answer = {0};
        append(&answer, "", 0);
        long status = send_request(path, headers, body, collect, &answer, error);
        if (status >= 200 && status < 300) return answer.bytes;
        if (status && !is_busy(status)) fail(1, "the agent answered %ld: %s", status, answer.bytes);
        // A connection that failed, or an answer that broke off: the request may have been stored or not.
        if (!status) check_permission();
        if (time(NULL) >= end && status) fail(2, "the agent answered %ld: %s", status, answer.bytes);
        if (time(NULL) >= end) fail(2, "the agent does not answer at %s: %s", socket_path(), error);
        free(answer.bytes);
        backoff();
    }
}

// The key makes the repeats one change, also those of a later run of this program.
static void write_record(const char *entity, const char *id, const char *data, const char *key) {
    struct curl_slist *headers = curl_slist_append(NULL, "Content-Type: application/json");
    char *field = text("Idempotency-Key: %s", key);
    char *body = text("{\"entity\":\"%s\",\"record_id\":\"%s\",\"action\":\"upsert\",\"data\":%s}", entity, id, data);
    headers = curl_slist_append(headers, field);
    char *answer = ask("/v1/mutations", headers, body);
    // The id of the mutation is the first member. A real app has a reader of JSON for that.
    if (strncmp(answer, "{\"id\":\"", 7) != 0) fail(2, "the answer is not what it must be: %s", answer);
    printf("%.*s\n", (int)strcspn(answer + 7, "\""), answer + 7);
    curl_slist_free_all(headers);
    free(field);
    free(body);
    free(answer);
}

static void read_record(const char *entity, const char *id) {
    char *path = text("/v1/records/%s/%s", entity, id);
    char *answer = ask(path, NULL, NULL);
    puts(answer);
    free(path);
    free(answer);
}

struct feed {
    const char *file;
    struct buffer rest;
};

static void keep(const char *file, const char *position) {
    char *next = text("%s.new", file);
    FILE *out = fopen(next, "w");
    if (!out || fputs(position, out) < 0 || fclose(out) != 0 || rename(next, file) != 0)
        fail(2, "cannot write the position to %s: %s", file, strerror(errno));
    free(next);
}

// For libcurl: takes what has come of the feed. An event ends with an empty line; without it, it does not count.
static size_t take_events(char *bytes, size_t size, size_t count, void *into) {
    struct feed *feed = into;
    append(&feed->rest, bytes, size * count);
    char *block = feed->rest.bytes, *end;
    for (; (end = strstr(block, "\n\n")); block = end + 2) {
        char *id = "", *type = "", *data = "";
        *end = 0;
        for (char *place = block, *line; (line = strsep(&place, "\n"));) {
            if (!strncmp(line, "id: ", 4)) id = line + 4;
            if (!strncmp(line, "event: ", 7)) type = line + 7;
            if (!strncmp(line, "data: ", 6)) data = line + 6;
        }
        // The event is handled first, and its position is stored then. The next run continues after it.
        // `reset`: what lies before is not kept any more, so the app must read its records again.
        if (*data) {
            printf("%s %s %s\n", id, type, data);
            fflush(stdout);
        }
        if (*id) keep(feed->file, id);
    }
    feed->rest.count -= (size_t)(block - feed->rest.bytes);
    memmove(feed->rest.bytes, block, feed->rest.count + 1);
    return feed->rest.count > event_max ? 0 : size * count;
}

static void follow(const char *file) {
    while (1) {
        char error[CURL_ERROR_SIZE], position[32] = "";
        FILE *in = fopen(file, "r");
        if (in) {
            if (fgets(position, sizeof position, in)) position[strcspn(position, "\n")] = 0;
            fclose(in);
        }
        struct feed feed = {.file = file};
        char *field = text("Last-Event-ID: %s", position);
        struct curl_slist *headers = curl_slist_append(NULL, field);
        append(&feed.rest, "", 0);
        long status = send_request("/v1/events?types=record", headers, NULL, take_events, &feed, error);
        // A refusal is a text without an empty line, so it is still there.
        if (status && status != 200 && !is_busy(status)) fail(1, "the agent answered %ld: %s", status, feed.rest.bytes);
        if (!status) check_permission();
        fprintf(stderr, "example: the feed broke and goes on: %s\n", status ? feed.rest.bytes : error);
        curl_slist_free_all(headers);
        free(field);
        free(feed.rest.bytes);
        backoff();
    }
}

int main(int count, char **words) {
    srandom((unsigned)(time(NULL) ^ getpid()));
    if (count == 6 && !strcmp(words[1], "write")) {
        write_record(words[2], words[3], words[4], words[5]);
    } else if (count == 4 && !strcmp(words[1], "read")) {
        read_record(words[2], words[3]);
    } else if (count == 3 && !strcmp(words[1], "follow")) {
        follow(words[2]);
    } else {
        fputs("usage: example write ENTITY ID DATA KEY | read ENTITY ID | follow FILE\n", stderr);
        return 64;
    }
    return 0;
}
