/* POST to a collection: one document or many, under ids that the server makes. With an
 * Idempotency-Key the store remembers the ids, and a request that is sent again gets the same answer. */
#include <nettle/sha2.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "bulk.h"
#include "condition.h"
#include "db.h"
#include "id.h"

#define KEY_MAX 255 /* characters of an Idempotency-Key */

static bool is_lines(slate_request *req)
{
    static const char type[] = "application/x-ndjson";
    const char *sent = slate_header(req, "Content-Type");
    return sent && strncasecmp(sent, type, sizeof type - 1) == 0;
}

/* ---- The key ------------------------------------------------------------------------------------ */

/* A string of RFC 8941 ("8e03", with \" and \\), or the bare characters. Returns the length, 0 if it
 * is neither; writes up to KEY_MAX bytes. */
static size_t read_key(const char *at, char key[static KEY_MAX])
{
    size_t size = 0;
    bool quoted = *at == '"';
    for (at += quoted; *at && !(quoted && *at == '"'); at++) {
        if (quoted && *at == '\\' && *++at != '"' && *at != '\\')
            return 0;
        if (size == KEY_MAX || *at < 0x20 || *at > 0x7e)
            return 0;
        key[size++] = *at;
    }
    return quoted && (at[0] != '"' || at[1] != '\0') ? 0 : size;
}

/* Key and fingerprint of the request: what it is, and every byte of its body. The store has one space
 * of keys; here each collection has its own. false: a problem has been answered. */
static bool take_key(slate_request *req, store_op *op)
{
    const char *header = slate_header(req, "Idempotency-Key");
    char key[KEY_MAX], print[2 * SHA256_DIGEST_SIZE + 1];
    unsigned char digest[SHA256_DIGEST_SIZE];
    struct sha256_ctx hash;
    size_t size, body_size;
    if (!header)
        return true;
    if (!(size = read_key(header, key))) {
        slate_answer_problem(
            req, 400, "idempotency-key", &(slate_where){.limit = KEY_MAX},
            "Idempotency-Key must be 1 to %d printable ASCII characters, bare or as "
            "a string in quotes.",
            KEY_MAX);
        return false;
    }
    const char *body = slate_body(req, &body_size);
    sha256_init(&hash);
    sha256_update(&hash, 1, (const uint8_t *)(is_lines(req) ? "L" : "J"));
    sha256_update(&hash, body_size, (const uint8_t *)body);
    sha256_digest(&hash, sizeof digest, digest);
    for (size_t i = 0; i < SHA256_DIGEST_SIZE; i++)
        snprintf(print + 2 * i, 3, "%02x", digest[i]);
    op->key.at = mem_printf(op->memory, &op->key.size, "%.*s/%.*s", (int)op->collection.size,
                            op->collection.at, (int)size, key);
    op->fingerprint = store_op_copy(op, print, sizeof print - 1);
    if (op->key.at && op->fingerprint.at)
        return true;
    slate_answer_refused(req, &op->budget);
    return false;
}

/* ---- Ids ------------------------------------------------------------------------------------------ */

/* What is remembered: the first id and, of a bulk insert, the number of documents, as "ID 12". */
typedef struct inserted {
    db_id first;
    size_t count; /* 0: a single document, not in an array */
} inserted;

#define REMEMBERED_MAX (DB_ID_SIZE + 24)

static bool read_inserted(store_text text, inserted *ret_inserted)
{
    inserted i = {.count = 0};
    if (text.size < DB_ID_SIZE || !db_id_read(text.at, DB_ID_SIZE, &i.first))
        return false;
    for (size_t at = DB_ID_SIZE + 1; at < text.size; at++) {
        if (text.at[at] < '0' || text.at[at] > '9' || i.count > DB_BULK_MAX)
            return false;
        i.count = i.count * 10 + (size_t)(text.at[at] - '0');
    }
    *ret_inserted = i;
    return i.count <= DB_BULK_MAX;
}

/* Gives the documents their ids. false: a problem has been answered. */
static bool give_ids(slate_request *req, store_op *op, bool many)
{
    store_document *documents = (store_document *)op->documents; /* not yet the store's */
    char text[REMEMBERED_MAX];
    db_id first;
    char *ids = mem_alloc_aligned(op->memory, op->count * DB_ID_SIZE, 1);
    if (!ids) {
        slate_answer_refused(req, &op->budget);
        return false;
    }
    if (!db_id_make(op->count, &first)) {
        slate_answer_problem(req, 500, "no-randomness", NULL,
                             "The system gave no random numbers to make ids of; nothing was "
                             "written.");
        return false;
    }
    for (size_t i = 0; i < op->count; i++, ids += DB_ID_SIZE) {
        db_id_print(first + i, ids);
        documents[i].id = (store_text){ids, DB_ID_SIZE};
    }
    db_id_print(first, text);
    int more = many ? snprintf(text + DB_ID_SIZE, sizeof text - DB_ID_SIZE, " %zu", op->count) : 0;
    op->remember = store_op_copy(op, text, DB_ID_SIZE + (size_t)more);
    if (!op->remember.at)
        slate_answer_refused(req, &op->budget);
    return op->remember.at != NULL;
}

/* ---- The answer ------------------------------------------------------------------------------------- */

static slate_result answer_many(slate_request *req, const inserted *made, uint64_t revision)
{
    char id[DB_ID_SIZE];
    json_writer *w = slate_writer(req, made->count * 60 + 2);
    json_write_begin_array(w);
    for (size_t i = 0; i < made->count; i++) {
        db_id_print(made->first + i, id);
        json_write_begin_object(w);
        json_write_literal_key(w, "id");
        json_write_string(w, id, sizeof id);
        json_write_literal_key(w, "revision");
        json_write_integer(w, (int64_t)revision);
        json_write_end_object(w);
    }
    json_write_end_array(w);
    return slate_answer_written(req, 201);
}

static slate_result answer_inserted(slate_request *req, const store_op *op, store_text remembered)
{
    inserted made;
    char id[DB_ID_SIZE + 1] = {0};
    if (!read_inserted(remembered, &made))
        return slate_answer_problem(req, 500, "store-failed", NULL,
                                    "What the store remembers of this key cannot be read.");
    if (made.count > 0)
        return answer_many(req, &made, op->revision);
    db_id_print(made.first, id);
    db_set_location(req, id);
    return db_answer_written(req, 201, id, op->revision, op->documents[0].json);
}

static slate_result insert(slate_request *req, void *arg, slate_wake_reason why)
{
    const store_op *op = arg;
    (void)why;
    switch (op->status) {
    case STORE_OK:
        return answer_inserted(req, op, op->remember);
    case STORE_REPLAYED:
        slate_set_header(req, "Idempotency-Replayed", "true");
        return answer_inserted(req, op, op->bytes);
    case STORE_KEY_REUSED:
        return slate_answer_problem(req, 422, "idempotency-key-reused", NULL,
                                    "This Idempotency-Key has been used in this collection with "
                                    "another body; nothing was written.");
    case STORE_EXISTS:
        return slate_answer_problem(req, 409, "id-exists", NULL,
                                    "There is a document under an id that was made for a new one; "
                                    "nothing was written. Sent again, the request gets other ids.");
    default:
        return db_answer_status(req, op);
    }
}

/* ---- The request ---------------------------------------------------------------------------------- */

/* One document, or the elements of an array. */
static bool take_json(slate_request *req, store_op *op, bool *ret_many)
{
    json_t *tree = slate_body_json(req);
    *ret_many = json_is_array(tree);
    if (!tree || *ret_many)
        return tree && db_bulk_array(req, op, tree);
    store_document *document = mem_alloc_array(op->memory, 1, sizeof *document);
    if (!document) {
        slate_answer_refused(req, &op->budget);
        return false;
    }
    op->documents = document;
    op->count = 1;
    return db_store_json(req, op, tree, NULL, &document->json);
}

static bool take_lines(slate_request *req, store_op *op)
{
    size_t size;
    const char *body = slate_body(req, &size);
    return db_bulk_lines(req, op, body, size);
}

slate_result db_insert(slate_request *req)
{
    store_op *op = db_begin(req, STORE_INSERT);
    bool many = true;
    if (!op || !db_collection_proceeds(req) || !take_key(req, op) ||
        !(is_lines(req) ? take_lines(req, op) : take_json(req, op, &many)) ||
        !give_ids(req, op, many))
        return SLATE_ANSWERED;
    return store_submit(db.store, op, req, insert);
}
