/* The document API: what its handlers share. They run on workers' threads; the settings are made
 * before the first request and only read after that. */
#ifndef SLATE_DB_H
#define SLATE_DB_H

#include "../../server/slate.h"
#include "../store/store.h"
#include "fault.h"

extern const slate_module db_module;

typedef struct db_settings {
    store *store;              /* NULL: --db off */
    bool require_precondition; /* --require-precondition */
    unsigned json_depth;       /* of a document */
    size_t document_limit;     /* bytes of a stored document */
    size_t page_bytes;         /* after so many a list ends early */
} db_settings;
extern db_settings db;

/* ---- Handlers, by file ------------------------------------------------------------------------- */

slate_handler db_collections, db_get; /* db_get.c */
slate_handler db_list;                /* db_list.c */
slate_handler db_put, db_delete;      /* db_put.c */
slate_handler db_clear;               /* db_clear.c */
slate_handler db_patch;               /* db_patch.c */
slate_handler db_insert;              /* db_insert.c */

/* ---- Operations (db.c) --------------------------------------------------------------------------- */

/* A new operation on the collection and document that the path names, the caller's to release. NULL:
 * a problem has been answered. */
store_op *db_new_op(slate_request *req, store_kind kind);
/* The same, released when the request ends. */
store_op *db_begin(slate_request *req, store_kind kind);
/* Writes a document as it is stored, into the operation's memory. false: a problem has been answered,
 * about that place of the body (NULL: it is the whole body). */
bool db_store_json(slate_request *req, store_op *op, const json_t *tree, const slate_where *place,
                   store_text *ret_json);

/* ---- Answers (db.c) ----------------------------------------------------------------------------- */

/* For a status that a handler has no answer of its own for. */
slate_result db_answer_status(slate_request *req, const store_op *op);
slate_result db_answer_fault(slate_request *req, const char *type, const db_fault *fault);
slate_result db_answer_not_found(slate_request *req);
/* 412, or 428 if the request had no condition of its own. `revision`: the stored one, 0: none. */
slate_result db_answer_precondition(slate_request *req, uint64_t revision);
/* A copy of bytes of the store's. */
slate_result db_answer_copy(slate_request *req, int status, store_text json);
/* {"id": …, "revision": …}, or the document with Prefer: return=representation; with its ETag. */
slate_result db_answer_written(slate_request *req, int status, const char *id, uint64_t revision,
                               store_text document);
bool db_set_etag(slate_request *req, uint64_t revision);
bool db_set_location(slate_request *req, const char *id);

/* ---- Writing what has been read (db_guard.c) ------------------------------------------------------ */

/* A write that needs the stored document: it is read, and written only if it is still the one that was
 * read; if not, that begins anew. */
typedef struct db_guard {
    store_kind kind; /* PUT or DELETE */
    bool creates;    /* a document that is not there is no problem */
    /* Fills in the document; `read` is what is stored, its status OK or NOT_FOUND. NULL: there is
     * nothing to fill in. false: a problem has been answered. */
    bool (*make)(slate_request *req, const store_op *read, store_op *write);
    slate_result (*done)(slate_request *req, const store_op *write); /* written */
} db_guard;

/* `guard` is static data. Checks every precondition of the request. */
slate_result db_guard_write(slate_request *req, const db_guard *guard);

#endif
