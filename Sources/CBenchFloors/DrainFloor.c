// The least that a drain takes: read waiting rows, make the JSON of a push, gzip it, post it, mark the rows done. It
// has no order of records, no settle, no pull, no events and no status; it does check that every mutation was accepted.

#include "Internal.h"

#include <curl/curl.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

int bench_drain_prepare(const char *database, uint64_t rows, bench_failure *failure) {
    static const char *const schema =
        "CREATE TABLE mutation(seq INTEGER PRIMARY KEY AUTOINCREMENT, key TEXT NOT NULL UNIQUE,"
        " record_id TEXT NOT NULL, data TEXT NOT NULL, state INTEGER NOT NULL, hlc TEXT NOT NULL) STRICT;"
        "CREATE INDEX waiting ON mutation(state, seq);";
    sqlite3 *db = open_database(database, failure);
    if (!db) return -1;
    sqlite3_stmt *insert = NULL;
    uint64_t now = (uint64_t)time(NULL) * 1000u;
    int code = sqlite3_exec(db, schema, NULL, NULL, NULL);
    if (code == SQLITE_OK) {
        code = sqlite3_prepare_v2(
            db,
            "INSERT INTO mutation(key, record_id, data, state, hlc) VALUES (?, ?, ?, 0, ?)", -1, &insert, NULL);
    }
    if (code == SQLITE_OK) code = sqlite3_exec(db, "BEGIN", NULL, NULL, NULL);
    for (uint64_t index = 0; index < rows && code == SQLITE_OK; index++) {
        char key[37], name[37], hlc[32], payload[BENCH_PAYLOAD_BYTES];
        bench_key(index, key);
        // An id of the form that the agent mints where an app gives none.
        bench_key(index + rows, name);
        bench_payload(index, payload);
        // The hub wants a stamp of each: time, counter, node, as a device makes them that was filled at this rate.
        uint64_t milliseconds = now - (rows - index) / 8;
        int length = snprintf(
            hlc, sizeof hlc, "%012llx-%04x-9f2c11ab", (unsigned long long)milliseconds, (unsigned)(index % 8));
        sqlite3_bind_text(insert, 1, key, 36, SQLITE_STATIC);
        sqlite3_bind_text(insert, 2, name, 36, SQLITE_STATIC);
        sqlite3_bind_text(insert, 3, payload, BENCH_PAYLOAD_BYTES, SQLITE_STATIC);
        sqlite3_bind_text(insert, 4, hlc, length, SQLITE_STATIC);
        if (sqlite3_step(insert) != SQLITE_DONE) code = sqlite3_errcode(db);
        sqlite3_reset(insert);
    }
    if (code == SQLITE_OK) code = sqlite3_exec(db, "COMMIT; PRAGMA wal_checkpoint(TRUNCATE);", NULL, NULL, NULL);
    if (code != SQLITE_OK) bench_fail(failure, "fill %s: %s", database, sqlite3_errmsg(db));
    sqlite3_finalize(insert);
    sqlite3_close(db);
    return code == SQLITE_OK ? 0 : -1;
}

#define BODY_BYTES (1 << 20)

typedef struct {
    sqlite3 *db;
    sqlite3_stmt *next, *done;
    CURL *curl;
    struct curl_slist *headers;
    z_stream deflater;
    char *body, *packed, *answer;
    size_t answer_length;
} drainer;

static size_t keep_answer(char *bytes, size_t size, size_t count, void *context) {
    drainer *drainer = context;
    if (drainer->answer_length + size * count >= BODY_BYTES) return 0;
    memcpy(drainer->answer + drainer->answer_length, bytes, size * count);
    drainer->answer_length += size * count;
    return size * count;
}

static struct curl_slist *header(struct curl_slist *list, const char *name, const char *value) {
    char line[512];
    snprintf(line, sizeof line, "%s: %s", name, value);
    return curl_slist_append(list, line);
}

static int drainer_open(drainer *drainer, const bench_drain_plan *plan, bench_failure *failure) {
    memset(drainer, 0, sizeof *drainer);
    drainer->db = open_database(plan->database, failure);
    if (!drainer->db) return -1;
    if (sqlite3_prepare_v2(
            drainer->db, "SELECT seq, key, record_id, data, hlc FROM mutation WHERE state = 0 ORDER BY seq LIMIT ?", -1,
            &drainer->next, NULL)
            != SQLITE_OK
        || sqlite3_prepare_v2(
               drainer->db, "UPDATE mutation SET state = 1 WHERE seq BETWEEN ? AND ?", -1, &drainer->done, NULL)
            != SQLITE_OK) {
        return bench_fail(failure, "prepare: %s", sqlite3_errmsg(drainer->db));
    }
    drainer->body = malloc(BODY_BYTES);
    drainer->packed = malloc(BODY_BYTES);
    drainer->answer = malloc(BODY_BYTES);
    drainer->curl = curl_easy_init();
    // 15 + 16: a gzip wrapper around the stream.
    if (!drainer->body || !drainer->packed || !drainer->answer || !drainer->curl
        || deflateInit2(&drainer->deflater, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK) {
        return bench_fail(failure, "out of memory");
    }
    char bearer[256], url[512];
    snprintf(bearer, sizeof bearer, "Bearer %s", plan->token);
    snprintf(url, sizeof url, "%s/v1/sync/push", plan->url);
    struct curl_slist *list = NULL;
    list = header(list, "Authorization", bearer);
    list = header(list, "Sync-Version", "1");
    list = header(list, "Sync-Device", plan->device);
    list = header(list, "Sync-Replica", plan->replica);
    list = header(list, "Content-Type", "application/json");
    list = header(list, "Content-Encoding", "gzip");
    list = curl_slist_append(list, "Expect:");
    drainer->headers = list;
    curl_easy_setopt(drainer->curl, CURLOPT_URL, url);
    curl_easy_setopt(drainer->curl, CURLOPT_HTTPHEADER, drainer->headers);
    curl_easy_setopt(drainer->curl, CURLOPT_POST, 1L);
    curl_easy_setopt(drainer->curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(drainer->curl, CURLOPT_PROXY, "");
    curl_easy_setopt(drainer->curl, CURLOPT_ACCEPT_ENCODING, "gzip");
    curl_easy_setopt(drainer->curl, CURLOPT_WRITEFUNCTION, keep_answer);
    curl_easy_setopt(drainer->curl, CURLOPT_WRITEDATA, drainer);
    return 0;
}

static void drainer_close(drainer *drainer) {
    sqlite3_finalize(drainer->next);
    sqlite3_finalize(drainer->done);
    sqlite3_close(drainer->db);
    if (drainer->curl) curl_easy_cleanup(drainer->curl);
    curl_slist_free_all(drainer->headers);
    deflateEnd(&drainer->deflater);
    free(drainer->body);
    free(drainer->packed);
    free(drainer->answer);
}

/// Makes the body of the next push. Returns its length, 0 when nothing waits.
static size_t make_body(drainer *drainer, const bench_drain_plan *plan, int *count, int64_t *first, int64_t *last) {
    size_t length = (size_t)snprintf(drainer->body, BODY_BYTES, "{\"acked_seq\":0,\"mutations\":[");
    *count = 0;
    sqlite3_bind_int(drainer->next, 1, plan->batch);
    while (sqlite3_step(drainer->next) == SQLITE_ROW && length + 1024 < BODY_BYTES) {
        *last = sqlite3_column_int64(drainer->next, 0);
        if (*count == 0) *first = *last;
        length += (size_t)snprintf(
            drainer->body + length, BODY_BYTES - length,
            "%s{\"seq\":%lld,\"idempotency_key\":\"%s\",\"entity\":\"%s\",\"record_id\":\"%s\",\"action\":\"create\","
            "\"data\":%s,\"base_version\":0,\"hlc\":\"%s\"}",
            *count > 0 ? "," : "", (long long)*last, (const char *)sqlite3_column_text(drainer->next, 1), plan->entity,
            (const char *)sqlite3_column_text(drainer->next, 2), (const char *)sqlite3_column_text(drainer->next, 3),
            (const char *)sqlite3_column_text(drainer->next, 4));
        (*count)++;
    }
    sqlite3_reset(drainer->next);
    length += (size_t)snprintf(drainer->body + length, BODY_BYTES - length, "]}");
    return *count > 0 ? length : 0;
}

static int post(drainer *drainer, size_t length, bench_failure *failure) {
    deflateReset(&drainer->deflater);
    drainer->deflater.next_in = (Bytef *)drainer->body;
    drainer->deflater.avail_in = (uInt)length;
    drainer->deflater.next_out = (Bytef *)drainer->packed;
    drainer->deflater.avail_out = BODY_BYTES;
    if (deflate(&drainer->deflater, Z_FINISH) != Z_STREAM_END) return bench_fail(failure, "gzip failed");
    drainer->answer_length = 0;
    curl_easy_setopt(drainer->curl, CURLOPT_POSTFIELDS, drainer->packed);
    curl_easy_setopt(drainer->curl, CURLOPT_POSTFIELDSIZE, (long)drainer->deflater.total_out);
    CURLcode code = curl_easy_perform(drainer->curl);
    if (code != CURLE_OK) return bench_fail(failure, "post: %s", curl_easy_strerror(code));
    long status = 0;
    curl_easy_getinfo(drainer->curl, CURLINFO_RESPONSE_CODE, &status);
    drainer->answer[drainer->answer_length] = 0;
    return status == 200 ? 0 : bench_fail(failure, "the hub answered %ld: %.300s", status, drainer->answer);
}

static int count_accepted(const char *answer) {
    int count = 0;
    while ((answer = strstr(answer, "\"accepted\""))) {
        count++;
        answer++;
    }
    return count;
}

int bench_drain_floor(const bench_drain_plan *plan, bench_cost *cost, bench_failure *failure) {
    *cost = (bench_cost){0};
    drainer drainer;
    uint64_t start = now_ns(), cpu = thread_cpu_ns();
    int outcome = drainer_open(&drainer, plan, failure);
    while (outcome == 0) {
        int count = 0;
        int64_t first = 0, last = 0;
        size_t length = make_body(&drainer, plan, &count, &first, &last);
        if (length == 0) break;
        outcome = post(&drainer, length, failure);
        if (outcome != 0) break;
        if (count_accepted(drainer.answer) != count) {
            outcome = bench_fail(failure, "not all %d mutations were accepted: %.300s", count, drainer.answer);
            break;
        }
        // One statement is one transaction, and one fsync, for the batch.
        sqlite3_bind_int64(drainer.done, 1, first);
        sqlite3_bind_int64(drainer.done, 2, last);
        if (sqlite3_step(drainer.done) != SQLITE_DONE) {
            outcome = bench_fail(failure, "mark done: %s", sqlite3_errmsg(drainer.db));
        }
        sqlite3_reset(drainer.done);
        cost->rows += (uint64_t)count;
        cost->commits++;
    }
    cost->nanoseconds = now_ns() - start;
    cost->cpu_nanoseconds = thread_cpu_ns() - cpu;
    drainer_close(&drainer);
    return outcome;
}
