/* Writing to PostgreSQL: a batch is one round, and so one transaction. Whether an operation may be done
 * is for its own statement to decide, so that no operation stops another; only what cannot be foreseen
 * (somebody else took an id at the same moment, a lock that is not given) fails the round, and then each
 * is tried alone. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "../../server/clock.h"
#include "postgresql.h"
#include "store_value.h"

/* ---- What is asked ------------------------------------------------------------------------------ */

static bool is_conditional(const store_op *op)
{
    return op->condition.is != STORE_ANY;
}

static void add_name(pg_arguments *a, const store_op *op)
{
    pg_add_bytes(a, op->collection);
    pg_add_bytes(a, op->id);
}

static void add_condition(pg_arguments *a, const store_op *op)
{
    if (op->condition.is == STORE_ONE_OF || op->condition.is == STORE_NONE_OF)
        pg_add_revisions(a, op->condition.revisions, op->condition.count);
}

/* The revision that stands against a condition. */
static void queue_look(pg_link *link, const store_op *op)
{
    pg_arguments a = {.link = link};
    add_name(&a, op);
    pg_queue(link, PG_LOOK, &a, false);
}

static void queue_put(pg_link *link, const store_op *op)
{
    static const pg_statement statements[] = {
        [STORE_ANY] = PG_PUT,
        [STORE_PRESENT] = PG_PUT_PRESENT,
        [STORE_ABSENT] = PG_PUT_ABSENT,
        [STORE_ONE_OF] = PG_PUT_ONE_OF,
        [STORE_NONE_OF] = PG_PUT_NONE_OF,
    };
    pg_arguments a = {.link = link};
    add_name(&a, op);
    pg_add_bytes(&a, op->documents[0].json);
    add_condition(&a, op);
    pg_queue(link, statements[op->condition.is], &a, false);
    if (is_conditional(op))
        queue_look(link, op);
}

static void queue_delete(pg_link *link, const store_op *op)
{
    static const pg_statement statements[] = {
        [STORE_ANY] = PG_DELETE,
        [STORE_PRESENT] = PG_DELETE,
        [STORE_ONE_OF] = PG_DELETE_ONE_OF,
        [STORE_NONE_OF] = PG_DELETE_NONE_OF,
    };
    pg_arguments a = {.link = link};
    add_name(&a, op);
    add_condition(&a, op);
    if (op->condition.is != STORE_ABSENT) /* nothing can be there to delete */
        pg_queue(link, statements[op->condition.is], &a, false);
    if (is_conditional(op))
        queue_look(link, op);
}

static void queue_insert(pg_link *link, const store_op *op)
{
    pg_arguments a = {.link = link}, key = {.link = link};
    store_text *ids = mem_alloc_array(link->memory, op->count, sizeof *ids);
    store_text *bodies = mem_alloc_array(link->memory, op->count, sizeof *bodies);
    if (!ids || !bodies) {
        pg_no_memory(link);
        return;
    }
    for (size_t i = 0; i < op->count; i++) {
        ids[i] = op->documents[i].id;
        bodies[i] = op->documents[i].json;
    }
    pg_add_bytes(&a, op->collection);
    pg_add_texts(&a, ids, op->count);
    pg_add_texts(&a, bodies, op->count);
    if (op->key.size == 0) {
        pg_queue(link, PG_INSERT, &a, false);
        return;
    }
    pg_add_bytes(&a, op->key);
    pg_add_bytes(&a, op->fingerprint);
    pg_add_bytes(&a, op->remember);
    pg_queue(link, PG_INSERT_KEYED, &a, false);
    pg_add_bytes(&key, op->key);
    pg_queue(link, PG_RECALL, &key, true);
}

static void queue_clear(pg_link *link, const store_op *op)
{
    pg_arguments a = {.link = link};
    pg_add_bytes(&a, op->collection);
    pg_queue(link, PG_CLEAR, &a, false);
}

static void queue(pg_link *link, const store_op *op)
{
    if (op->kind == STORE_PUT)
        queue_put(link, op);
    else if (op->kind == STORE_DELETE)
        queue_delete(link, op);
    else if (op->kind == STORE_INSERT)
        queue_insert(link, op);
    else
        queue_clear(link, op);
}

/* ---- What came of it. false: others were in the way, and it is to be tried again ------------------ */

static bool holds(const store_condition *condition, uint64_t stored)
{
    bool found = false;
    for (size_t i = 0; i < condition->count; i++)
        found |= condition->revisions[i] == stored;
    switch (condition->is) {
    case STORE_PRESENT:
        return stored != 0;
    case STORE_ABSENT:
        return stored == 0;
    case STORE_ONE_OF:
        return stored != 0 && found;
    case STORE_NONE_OF:
        return stored == 0 || !found;
    default:
        return true;
    }
}

/* The revision of the only row, or 0. */
static uint64_t take_revision(pg_link *link)
{
    PGresult *rows = pg_rows(link);
    uint64_t revision = rows && PQntuples(rows) > 0 ? pg_number(rows, 0, 0) : 0;
    PQclear(rows);
    return revision;
}

static void answer_precondition(store_op *op, uint64_t stored)
{
    op->revision = stored;
    pg_answer(op, STORE_PRECONDITION, "The condition does not hold of the stored document.");
}

static bool take_put(pg_link *link, store_op *op)
{
    PGresult *rows = pg_rows(link);
    bool done = rows && PQntuples(rows) > 0;
    if (done) {
        op->revision = pg_number(rows, 0, 0);
        op->created = pg_value(rows, 0, 1).at[0] == 't';
    }
    PQclear(rows);
    uint64_t stored = is_conditional(op) ? take_revision(link) : 0;
    if (!done && holds(&op->condition, stored))
        return false;
    if (!done)
        answer_precondition(op, stored);
    return true;
}

static bool take_delete(pg_link *link, store_op *op)
{
    op->revision = op->condition.is != STORE_ABSENT ? take_revision(link) : 0;
    uint64_t stored = is_conditional(op) ? take_revision(link) : 0;
    if (op->revision != 0)
        return true;
    bool held = holds(&op->condition, stored);
    if (held && stored != 0)
        return false;
    if (held)
        pg_answer(op, STORE_NOT_FOUND, "There is no document of that id.");
    else
        answer_precondition(op, stored);
    return true;
}

/* What the key remembers; whoever has made it. false: nothing. */
static bool take_remembered(pg_link *link, store_op *op)
{
    PGresult *rows = pg_rows(link);
    bool found = rows && PQntuples(rows) > 0;
    if (found) {
        store_text fingerprint = pg_value(rows, 0, 0), answer = pg_value(rows, 0, 1);
        bool same = store_same_text(fingerprint, op->fingerprint);
        op->revision = pg_number(rows, 0, 2);
        op->bytes = same ? store_op_copy(op, answer.at, answer.size) : (store_text){NULL, 0};
        if (!same)
            pg_answer(op, STORE_KEY_REUSED, "The key was used before, for another request.");
        else if (op->bytes.at)
            pg_answer(op, STORE_REPLAYED, "The request was answered before.");
        else
            pg_answer(op, STORE_BUSY, "There is no memory for so long an answer.");
    }
    PQclear(rows);
    return found;
}

static bool take_insert(pg_link *link, store_op *op)
{
    PGresult *rows = pg_rows(link);
    uint64_t place = rows ? pg_number(rows, 0, 0) : 0; /* from 1; 0: none is taken */
    uint64_t revision = rows ? pg_number(rows, 0, 1) : 0;
    PQclear(rows);
    if (op->key.size > 0 && revision != 0)
        PQclear(pg_rows(link)); /* remembered just now */
    else if (op->key.size > 0 && take_remembered(link, op))
        return true;
    op->revision = revision;
    if (revision == 0 && place == 0)
        return false;
    if (revision == 0) {
        op->index = (size_t)place - 1;
        pg_answer(op, STORE_EXISTS, "There is a document of that id already.");
    }
    return true;
}

static bool take_clear(pg_link *link, store_op *op)
{
    PGresult *rows = pg_rows(link);
    op->affected = rows ? strtoull(PQcmdTuples(rows), NULL, 10) : 0;
    PQclear(rows);
    return true;
}

static bool take(pg_link *link, store_op *op)
{
    op->status = STORE_OK;
    op->detail[0] = '\0';
    if (op->kind == STORE_PUT)
        return take_put(link, op);
    if (op->kind == STORE_DELETE)
        return take_delete(link, op);
    return op->kind == STORE_INSERT ? take_insert(link, op) : take_clear(link, op);
}

/* ---- Rounds ---------------------------------------------------------------------------------------- */

/* `again[i]`: that operation is to be tried once more. false: none of them is written, or perhaps all,
 * and the error says which. */
static bool run(pg_link *link, store_op *const ops[], size_t count, bool again[])
{
    pg_begin(link);
    for (size_t i = 0; i < count; i++)
        queue(link, ops[i]);
    pg_send(link);
    for (size_t i = 0; i < count; i++)
        again[i] = !take(link, ops[i]);
    bool done = pg_end(link);
    mem_reset(link->memory);
    return done;
}

/* Until it is done, is not to be done, or was tried often enough. */
static void run_alone(pg_link *link, store_op *op)
{
    bool again = true;
    unsigned tries = 0;
    for (; again && tries < PG_TRIES && !pg_drop_late(op); tries++) {
        if (tries > 0)
            pg_pause(link, tries);
        if (!run(link, &op, 1, &again)) {
            pg_answer_error(link, op);
            if (!pg_is_transient(&link->error))
                return;
            again = true;
        }
    }
    if (again && tries > 0)
        pg_answer(op, STORE_BUSY, "Other writers were in the way until the time was over.");
}

static int compare(store_text a, store_text b)
{
    int order = memcmp(a.at, b.at, a.size < b.size ? a.size : b.size);
    return order ? order : (a.size > b.size) - (a.size < b.size);
}

/* Documents in the order of their names, then what inserts; nothing goes past the removal of a whole
 * collection. */
static bool is_behind(const store_op *a, const store_op *b)
{
    if (a->kind == STORE_CLEAR || b->kind == STORE_CLEAR)
        return false;
    if (a->kind == STORE_INSERT || b->kind == STORE_INSERT)
        return b->kind != STORE_INSERT;
    int order = compare(a->collection, b->collection);
    return order ? order > 0 : compare(a->id, b->id) > 0;
}

/* Rows are locked in one order by all, so that two batches seldom wait for each other. */
static void sort(store_op *const ops[], size_t count, store_op *sorted[])
{
    for (size_t i = 0; i < count; i++) {
        size_t at = i;
        for (; at > 0 && is_behind(sorted[at - 1], ops[i]); at--)
            sorted[at] = sorted[at - 1];
        sorted[at] = ops[i];
    }
}

void pg_write(pg_link *link, store_op *const ops[], size_t count)
{
    store_op *sorted[PG_BATCH];
    bool again[PG_BATCH];
    assert(count <= PG_BATCH);
    sort(ops, count, sorted);
    bool done = count > 1 && run(link, sorted, count, again);
    if (count > 1 && !done && link->broken) {
        for (size_t i = 0; i < count; i++)
            pg_answer_error(link, sorted[i]);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        if (!done || again[i])
            run_alone(link, sorted[i]);
    }
}
