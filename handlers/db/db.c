/* The document API: its routes, its store, and the answers that its handlers share. The store is
 * opened and closed by the main thread; everything else runs on workers' threads. */
#include "db.h"

#include <string.h>

#include "../../server/options.h"
#include "../field.h"
#include "condition.h"
#include "id.h"

#define PAGE_BYTES (1024u * 1024u)

static const slate_route routes[] = {
    {.path = "/db",
     .on[SLATE_GET] = db_collections,
     .summary = "Lists the collections, with the number of their documents and their size."},
    {.path = "/db/{collection}",
     .on = {[SLATE_GET] = db_list, [SLATE_POST] = db_insert, [SLATE_DELETE] = db_clear},
     .consumes[SLATE_POST] = "application/json, application/x-ndjson",
     .summary = "Documents of a collection: lists them, inserts one or many, removes them all."},
    {.path = "/db/{collection}/{id}",
     .on = {[SLATE_GET] = db_get,
            [SLATE_PUT] = db_put,
            [SLATE_PATCH] = db_patch,
            [SLATE_DELETE] = db_delete},
     .consumes = {[SLATE_PUT] = "application/json",
                  [SLATE_PATCH] = "application/merge-patch+json, application/json-patch+json"},
     .summary = "A document: reads it, puts it, patches it, removes it."},
    {.path = NULL},
};

db_settings db;

/* ---- The module -------------------------------------------------------------------------------- */

/* A page ends with a whole row, its buffer is up to twice as large as what is in it, and the answer is
 * a copy. */
static size_t fit_page(size_t page_bytes, size_t limit)
{
    return limit > 0 && limit / 8 < page_bytes ? limit / 8 : page_bytes;
}

static bool start(const options *opts)
{
    db = (db_settings){
        .require_precondition = opts->require_precondition,
        .json_depth = opts->json_depth,
        .document_limit = opts->body_limit,
        .page_bytes = fit_page(fit_page(PAGE_BYTES, opts->request_memory), opts->memory_limit),
    };
    if (!opts->db)
        return true;
    const store_settings settings = {
        .uri = opts->db,
        .threads = opts->db_threads ? opts->db_threads : opts->threads,
        .timeout_ms = opts->db_timeout,
        .indexes = opts->db_indexes,
    };
    db.store = store_open(&settings);
    return db.store != NULL;
}

static void stop(void)
{
    if (db.store)
        store_close(db.store);
    db.store = NULL;
}

static bool ready(const char **ret_reason)
{
    return !db.store || store_ready(db.store, ret_reason);
}

static void figures(slate_emit_figure *emit, void *arg)
{
    if (db.store)
        store_figures(db.store, emit, arg);
}

const slate_module db_module = {
    .name = "store",
    .routes = routes,
    .start = start,
    .stop = stop,
    .ready = ready,
    .figures = figures,
};

/* ---- Operations -------------------------------------------------------------------------------- */

/* The path parameter, checked and copied. false: a problem has been answered. */
static bool take_name(slate_request *req, store_op *op, const char *param, store_text *ret_name)
{
    const char *name = slate_param(req, param);
    if (!name)
        return true;
    size_t length = strlen(name);
    if (!db_name_valid(name, length)) {
        slate_answer_problem(req, 400, "db-name", NULL,
                             "The %s \"%.130s\" is no name; allowed are " DB_NAME_ALLOWED ".",
                             param, name);
        return false;
    }
    *ret_name = store_op_copy(op, name, length);
    if (!ret_name->at)
        slate_answer_refused(req, &op->budget);
    return ret_name->at != NULL;
}

store_op *db_new_op(slate_request *req, store_kind kind)
{
    if (!db.store) {
        slate_answer_problem(req, 503, "store-off", NULL,
                             "This server has no document store; it was started with --db off.");
        return NULL;
    }
    store_op *op = store_op_create(slate_context_create(req, "store operation"), kind);
    if (!op) {
        slate_answer_no_memory(req);
        return NULL;
    }
    slate_budget_init(req, &op->budget);
    if (take_name(req, op, "collection", &op->collection) && take_name(req, op, "id", &op->id))
        return op;
    store_op_release(op);
    return NULL;
}

static void release(void *arg)
{
    store_op_release(arg);
}

store_op *db_begin(slate_request *req, store_kind kind)
{
    store_op *op = db_new_op(req, kind);
    if (!op)
        return NULL;
    mem_callback *end = mem_alloc(slate_request_context(req), sizeof *end);
    if (!end) { /* the budget is marked: a ready-made answer is sent */
        store_op_release(op);
        return NULL;
    }
    *end = (mem_callback){.run = release, .arg = op};
    mem_on_reset(slate_request_context(req), end);
    return op;
}

bool db_store_json(slate_request *req, store_op *op, const json_t *tree, const slate_where *place,
                   store_text *ret_json)
{
    slate_where where = place ? *place : (slate_where){.limit = 0};
    json_writer w;
    json_writer_init(&w, op->memory, 0, db.json_depth, false);
    json_write_tree(&w, tree);
    if (w.failed == JSON_WRITE_DEPTH) {
        where.limit = db.json_depth;
        slate_answer_problem(req, 422, "json-refused", &where,
                             "The document would be nested deeper than %u levels, the limit.",
                             db.json_depth);
    } else if (w.failed != JSON_WRITE_OK) {
        slate_answer_refused(req, &op->budget);
    } else if (w.length > db.document_limit) {
        where.limit = db.document_limit;
        slate_answer_problem(req, 422, "document-too-large", &where,
                             "The document would be %zu bytes long; the limit is %zu.", w.length,
                             db.document_limit);
    } else {
        *ret_json = (store_text){w.text, w.length};
        return true;
    }
    return false;
}

/* ---- Answers ----------------------------------------------------------------------------------- */

static slate_result answer_later(slate_request *req, const char *type, const char *format,
                                 const char *detail)
{
    slate_set_header(req, "Retry-After", "1");
    return slate_answer_problem(req, 503, type, NULL, format, detail);
}

slate_result db_answer_status(slate_request *req, const store_op *op)
{
    switch (op->status) {
    case STORE_NOT_FOUND:
        return db_answer_not_found(req);
    case STORE_PRECONDITION:
        return db_answer_precondition(req, op->revision);
    case STORE_BUSY:
        return answer_later(req, "store-busy", "%s", op->detail);
    case STORE_NO_MEMORY:
        return slate_answer_refused(req, &op->budget);
    case STORE_UNKNOWN:
        return answer_later(req, "outcome-unknown",
                            "%s Read before you try again, or make the retry safe: If-Match or "
                            "If-None-Match with PUT, PATCH and DELETE, Idempotency-Key with POST.",
                            op->detail);
    default:
        return slate_answer_problem(req, 500, "store-failed", NULL, "%s",
                                    *op->detail ? op->detail : "The store failed.");
    }
}

slate_result db_answer_fault(slate_request *req, const char *type, const db_fault *fault)
{
    if (fault->memory)
        return slate_answer_no_memory(req);
    return slate_answer_problem(req, 400, type, &(slate_where){.limit = fault->limit}, "%s",
                                fault->detail);
}

slate_result db_answer_not_found(slate_request *req)
{
    return slate_answer_problem(req, 404, "document-not-found", NULL,
                                "There is no document \"%s\" in \"%s\".", slate_param(req, "id"),
                                slate_param(req, "collection"));
}

bool db_set_etag(slate_request *req, uint64_t revision)
{
    char tag[24] = {0}, *at = tag + sizeof tag - 1;
    *--at = '"';
    for (; revision > 0; revision /= 10)
        *--at = (char)('0' + revision % 10);
    *--at = '"';
    return slate_set_header(req, "ETag", at);
}

bool db_set_location(slate_request *req, const char *id)
{
    char *path = mem_printf(slate_scratch_context(req), NULL, "/db/%s/%s",
                            slate_param(req, "collection"), id);
    return path && slate_set_header(req, "Location", path);
}

slate_result db_answer_precondition(slate_request *req, uint64_t revision)
{
    db_conditions conditions;
    db_fault fault = {.limit = 0};
    if (revision != 0)
        db_set_etag(req, revision);
    if (revision != 0 && db_conditions_of(req, &conditions, &fault) &&
        !db_conditions_bind(&conditions))
        return slate_answer_problem(req, 428, "precondition-required", NULL,
                                    "This server changes a document only under a condition: send "
                                    "If-Match with the entity tag that you have read.");
    if (revision == 0)
        return slate_answer_problem(req, 412, "precondition-failed", NULL,
                                    "The condition does not hold: there is no document \"%s\".",
                                    slate_param(req, "id"));
    return slate_answer_problem(
        req, 412, "precondition-failed", NULL,
        "The condition does not hold: the document's entity tag is \"%llu\".",
        (unsigned long long)revision);
}

slate_result db_answer_copy(slate_request *req, int status, store_text json)
{
    const char *copy = mem_copy(slate_request_context(req), json.at, json.size);
    return copy ? slate_answer_bytes(req, status, "application/json", copy, json.size)
                : SLATE_ANSWERED;
}

slate_result db_answer_written(slate_request *req, int status, const char *id, uint64_t revision,
                               store_text document)
{
    db_set_etag(req, revision);
    if (field_prefers(slate_header(req, "Prefer"), "return", "representation")) {
        slate_set_header(req, "Preference-Applied", "return=representation");
        return db_answer_copy(req, status, document);
    }
    json_writer *w = slate_writer(req, 64);
    json_write_begin_object(w);
    json_write_literal_key(w, "id");
    json_write_string(w, id, strlen(id));
    json_write_literal_key(w, "revision");
    json_write_integer(w, (int64_t)revision);
    json_write_end_object(w);
    return slate_answer_written(req, status);
}
