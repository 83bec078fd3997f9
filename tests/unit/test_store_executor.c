/* The executor of a store (handlers/store/store.c) over a backend that does what the test says: it
 * stops at a gate, loses its sessions, or does not open any. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "../../server/clock.h"
#include "store_waits.h"

#define GRACE_MS 250 /* of the executor: how long operations wait for a session to come back */

/* ---- The backend --------------------------------------------------------------------------------- */

static struct {
    pthread_mutex_t lock; /* guards all below */
    pthread_cond_t changed;
    bool shut;        /* the gate, which readers and writers pass */
    unsigned at_gate; /* sessions that stand there */
    bool refuses;     /* to open sessions */
    bool dies;        /* each session, after what it does next */
    unsigned sessions, opened;
    size_t batches[200], batch_count; /* sizes */
    unsigned tidied;
} fake = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

struct session {
    bool alive, writes;
};

static void pass_gate(void)
{
    pthread_mutex_lock(&fake.lock);
    fake.at_gate++;
    pthread_cond_broadcast(&fake.changed);
    while (fake.shut)
        pthread_cond_wait(&fake.changed, &fake.lock);
    fake.at_gate--;
    pthread_mutex_unlock(&fake.lock);
}

static void set(bool *flag, bool value)
{
    pthread_mutex_lock(&fake.lock);
    *flag = value;
    pthread_cond_broadcast(&fake.changed);
    pthread_mutex_unlock(&fake.lock);
}

/* Blocks until so many sessions stand at the gate. */
static void await_gate(unsigned count)
{
    pthread_mutex_lock(&fake.lock);
    while (fake.at_gate < count)
        pthread_cond_wait(&fake.changed, &fake.lock);
    pthread_mutex_unlock(&fake.lock);
}

static void *fake_open(const store_settings *settings, char error[STORE_ERROR_MAX])
{
    (void)snprintf(error, STORE_ERROR_MAX, "It is bad.");
    return strstr(settings->uri, "bad") ? NULL : &fake;
}

static void fake_close(void *database)
{
    assert_ptr_equal(database, &fake);
}

static void *fake_session_open(void *database, bool writes, char error[STORE_ERROR_MAX])
{
    assert_ptr_equal(database, &fake);
    pthread_mutex_lock(&fake.lock);
    bool refuses = fake.refuses;
    fake.opened++;
    fake.sessions += !refuses;
    pthread_cond_broadcast(&fake.changed);
    pthread_mutex_unlock(&fake.lock);
    if (refuses) {
        snprintf(error, STORE_ERROR_MAX, "Nobody is at home.");
        return NULL;
    }
    struct session *session = malloc(sizeof *session);
    assert_non_null(session);
    *session = (struct session){.alive = true, .writes = writes};
    return session;
}

static void fake_session_close(void *session)
{
    pthread_mutex_lock(&fake.lock);
    fake.sessions--;
    pthread_mutex_unlock(&fake.lock);
    free(session);
}

static void do_one(struct session *session, store_op *op)
{
    op->bytes = store_op_copy(op, op->id.at, op->id.size);
    op->status = op->bytes.at ? STORE_OK : STORE_BUSY;
    pthread_mutex_lock(&fake.lock);
    session->alive = !fake.dies;
    pthread_mutex_unlock(&fake.lock);
}

static void do_batch(struct session *session, store_op *const ops[], size_t count)
{
    pthread_mutex_lock(&fake.lock);
    if (fake.batch_count < sizeof fake.batches / sizeof *fake.batches)
        fake.batches[fake.batch_count++] = count;
    pthread_mutex_unlock(&fake.lock);
    pass_gate();
    for (size_t i = 0; i < count; i++)
        do_one(session, ops[i]);
}

static void fake_read(void *session, store_op *const ops[], size_t count)
{
    assert_false(((struct session *)session)->writes);
    for (size_t i = 0; i < count; i++)
        assert_true(count == 1 || ops[i]->kind == STORE_GET);
    do_batch(session, ops, count);
}

static void fake_write(void *session, store_op *const ops[], size_t count)
{
    assert_true(((struct session *)session)->writes);
    do_batch(session, ops, count);
}

static void fake_tidy(void *session)
{
    assert_true(((struct session *)session)->writes);
    pthread_mutex_lock(&fake.lock);
    fake.tidied++;
    pthread_mutex_unlock(&fake.lock);
}

static bool fake_session_alive(void *session)
{
    return ((struct session *)session)->alive;
}

static void fake_figures(void *database, slate_emit_figure *emit, void *arg)
{
    (void)database;
    emit(arg, "fake", "Of the backend.", true, 7);
}

#define FAKE(name, writing)                                                              \
    {                                                                                    \
        .scheme = (name), .writers = (writing), .batch = 8, .open = fake_open,           \
        .close = fake_close, .session_open = fake_session_open,                          \
        .session_close = fake_session_close, .read = fake_read, .write = fake_write,     \
        .tidy = fake_tidy, .session_alive = fake_session_alive, .figures = fake_figures, \
    }

const store_backend store_sqlite = FAKE("sqlite", 1);
const store_backend store_postgresql = FAKE("postgresql", 100);

/* ---- What the tests share ------------------------------------------------------------------------ */

static store *open_store(const char *uri, unsigned threads)
{
    pthread_mutex_lock(&fake.lock);
    fake.shut = fake.refuses = fake.dies = false;
    fake.opened = fake.tidied = 0;
    fake.batch_count = 0;
    pthread_mutex_unlock(&fake.lock);
    const store_settings settings = {.uri = uri, .threads = threads, .timeout_ms = 60000};
    store *s = store_open(&settings);
    pthread_mutex_lock(&fake.lock);
    while (s && fake.sessions <= threads) /* one more at least writes */
        pthread_cond_wait(&fake.changed, &fake.lock);
    pthread_mutex_unlock(&fake.lock);
    return s;
}

static void close_store(store *s)
{
    store_close(s);
    assert_int_equal(fake.sessions, 0);
}

/* What the continuation saw. */
static struct seen {
    unsigned times;
    store_status status;
    char detail[200];
    char bytes[40];
} seen;

static slate_result look(slate_request *req, void *arg, slate_wake_reason why)
{
    const store_op *op = arg;
    (void)req;
    (void)why;
    seen.times++;
    seen.status = op->status;
    memcpy(seen.detail, op->detail, sizeof seen.detail);
    memset(seen.bytes, 0, sizeof seen.bytes);
    if (op->bytes.size > 0 && op->bytes.size < sizeof seen.bytes)
        memcpy(seen.bytes, op->bytes.at, op->bytes.size);
    return SLATE_ANSWERED;
}

static store_op *make_op(store_kind kind, const char *id)
{
    store_op *op = store_op_create(op_home(), kind);
    assert_non_null(op);
    op->id = store_op_copy(op, id, strlen(id));
    assert_non_null(op->id.at);
    return op;
}

static store_op *submit(store *s, slate_request *req, store_kind kind, const char *id)
{
    store_op *op = make_op(kind, id);
    assert_int_equal(store_submit(s, op, req, look), SLATE_SUSPENDED);
    return op;
}

/* Waits for the answer, looks at it and lets the operation go. */
static store_status take_answer(slate_request *req, size_t which, store_op *op)
{
    await_wake(req, which);
    go_on(req, which, SLATE_WOKEN);
    assert_int_equal(wakes_of(req, which), 1);
    store_op_release(op);
    return seen.status;
}

static void await_one_wake_of_each(slate_request *req)
{
    for (size_t i = 0; i < req->count; i++) {
        await_wake(req, i);
        assert_int_equal(wakes_of(req, i), 1);
    }
}

/* ---- Answers --------------------------------------------------------------------------------------- */

static void an_operation_is_done_and_answered(void **state)
{
    (void)state;
    store *s = open_store("sqlite:x", 2);
    slate_request req = REQUEST;
    store_op *op = submit(s, &req, STORE_GET, "apple");
    assert_int_equal(req.waits[0].within_ms, 60000);
    assert_int_equal(take_answer(&req, 0, op), STORE_OK);
    assert_string_equal(seen.bytes, "apple");
    assert_false(req.changed);
    op = submit(s, &req, STORE_PUT, "pear");
    assert_int_equal(take_answer(&req, 1, op), STORE_OK);
    assert_string_equal(seen.bytes, "pear");
    assert_true(req.changed);
    close_store(s);
}

static void writes_that_queue_during_a_batch_are_the_next_batch(void **state)
{
    (void)state;
    store *s = open_store("sqlite:x", 4);
    slate_request req = REQUEST;
    store_op *ops[12];
    set(&fake.shut, true);
    ops[0] = submit(s, &req, STORE_PUT, "first");
    await_gate(1);
    for (size_t i = 1; i < 12; i++)
        ops[i] = submit(s, &req, i % 2 ? STORE_PUT : STORE_DELETE, "more");
    set(&fake.shut, false);
    for (size_t i = 0; i < 12; i++)
        assert_int_equal(take_answer(&req, i, ops[i]), STORE_OK);
    close_store(s);
    assert_int_equal(fake.batch_count, 3);
    assert_int_equal(fake.batches[0], 1);
    assert_int_equal(fake.batches[1], 8); /* what the backend takes at the most */
    assert_int_equal(fake.batches[2], 3);
    assert_int_equal(fake.tidied, 3);
}

static void a_batch_is_bounded_by_its_documents(void **state)
{
    (void)state;
    store *s = open_store("sqlite:x", 1);
    slate_request req = REQUEST;
    store_op *ops[5];
    set(&fake.shut, true);
    ops[0] = submit(s, &req, STORE_PUT, "first");
    await_gate(1);
    for (size_t i = 1; i < 5; i++) {
        ops[i] = make_op(STORE_INSERT, "many");
        ops[i]->count = 5;
        assert_int_equal(store_submit(s, ops[i], &req, look), SLATE_SUSPENDED);
    }
    set(&fake.shut, false);
    for (size_t i = 0; i < 5; i++)
        assert_int_equal(take_answer(&req, i, ops[i]), STORE_OK);
    close_store(s);
    assert_int_equal(fake.batch_count, 3);
    assert_int_equal(fake.batches[1], 2); /* ten documents are no less than eight */
    assert_int_equal(fake.batches[2], 2);
}

/* One thread reads: the first is being read while the others queue. */
static void gets_are_read_together_and_lists_alone(void **state)
{
    static const store_kind kinds[] = {STORE_GET, STORE_GET,  STORE_GET, STORE_LIST,
                                       STORE_GET, STORE_LIST, STORE_GET};
    static const size_t expected[] = {1, 2, 1, 1, 1, 1};
    (void)state;
    store *s = open_store("sqlite:x", 1);
    slate_request req = REQUEST;
    store_op *ops[7];
    set(&fake.shut, true);
    for (size_t i = 0; i < 7; i++) {
        ops[i] = submit(s, &req, kinds[i], "x");
        if (i == 0)
            await_gate(1);
    }
    set(&fake.shut, false);
    for (size_t i = 0; i < 7; i++)
        assert_int_equal(take_answer(&req, i, ops[i]), STORE_OK);
    close_store(s);
    assert_int_equal(fake.batch_count, 6);
    for (size_t i = 0; i < 6; i++)
        assert_int_equal(fake.batches[i], expected[i]);
}

static void as_many_threads_write_as_the_backend_allows(void **state)
{
    (void)state;
    store *s = open_store("postgresql://x", 3);
    slate_request req = REQUEST;
    store_op *ops[3];
    set(&fake.shut, true);
    for (unsigned i = 0; i < 3; i++) {
        ops[i] = submit(s, &req, STORE_PUT, "x");
        await_gate(i + 1);
    }
    set(&fake.shut, false);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(take_answer(&req, i, ops[i]), STORE_OK);
    close_store(s);
}

static void reads_do_not_wait_for_writes(void **state)
{
    (void)state;
    store *s = open_store("sqlite:x", 2);
    slate_request req = REQUEST;
    set(&fake.shut, true);
    store_op *write = submit(s, &req, STORE_PUT, "w"), *one = submit(s, &req, STORE_GET, "r");
    store_op *other = submit(s, &req, STORE_LIST, "r"); /* never together with a GET */
    await_gate(3);
    set(&fake.shut, false);
    assert_int_equal(take_answer(&req, 1, one), STORE_OK);
    assert_int_equal(take_answer(&req, 2, other), STORE_OK);
    assert_int_equal(take_answer(&req, 0, write), STORE_OK);
    close_store(s);
}

static void no_memory_for_a_wait_leaves_nothing_behind(void **state)
{
    (void)state;
    store *s = open_store("sqlite:x", 1);
    slate_request req = REQUEST;
    req.refuses = true;
    store_op *op = make_op(STORE_PUT, "x");
    assert_int_equal(store_submit(s, op, &req, look), SLATE_ANSWERED);
    store_op_release(op);
    close_store(s);
    assert_int_equal(fake.batch_count, 0);
}

static void a_producer_waits_without_a_continuation(void **state)
{
    (void)state;
    store *s = open_store("sqlite:x", 1);
    slate_request req = REQUEST;
    store_op *op = make_op(STORE_LIST, "x");
    assert_int_equal(store_submit(s, op, &req, NULL), SLATE_SUSPENDED);
    assert_null(req.waits[0].then);
    await_wake(&req, 0);
    assert_int_equal(op->status, STORE_OK);
    store_op_release(op);
    close_store(s);
}

/* ---- Giving up ----------------------------------------------------------------------------------- */

static void what_memory_is_refused_to_says_so(void **state)
{
    static const char id[10000] = "a";
    slate_request req = REQUEST;
    mem_total totals[3] = {{.limit = 50000}, {.limit = 20000}, {.limit = 50000}};
    (void)state;
    store *s = open_store("sqlite:x", 1);
    for (size_t i = 0; i < 3; i++) { /* the copy does not fit into its own, or into the total */
        store_op *op = store_op_create(op_home(), i < 2 ? STORE_GET : STORE_PUT);
        assert_non_null(op);
        mem_budget_init(&op->budget, i == 1 ? 40000 : 20000, &totals[i]);
        op->id = store_op_copy(op, id, sizeof id);
        assert_non_null(op->id.at);
        assert_int_equal(totals[i].used, op->budget.used);
        assert_int_equal(store_submit(s, op, &req, look), SLATE_SUSPENDED);
        await_wake(&req, i);
        go_on(&req, i, SLATE_WOKEN);
        assert_int_equal(seen.status, STORE_NO_MEMORY);
        assert_int_equal(op->budget.refused, i == 1 ? MEM_OVER_TOTAL : MEM_OVER_LIMIT);
        store_op_release(op);
    }
    assert_false(req.changed);
    close_store(s);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(totals[i].used, 0);
}

static void operations_may_share_their_time(void **state)
{
    slate_request req = REQUEST;
    (void)state;
    store *s = open_store("sqlite:x", 1);
    store_op *first = submit(s, &req, STORE_GET, "a");
    assert_int_equal(req.waits[0].within_ms, 60000);
    int64_t until_ms = first->until_ms;
    assert_true(until_ms > clock_ms() && until_ms <= clock_ms() + 60000);
    assert_int_equal(take_answer(&req, 0, first), STORE_OK);

    const int64_t left_ms[] = {30000, 0, -30000};
    for (size_t i = 0; i < 3; i++) {
        store_op *op = make_op(STORE_PUT, "a");
        op->until_ms = clock_ms() + left_ms[i];
        assert_int_equal(store_submit(s, op, &req, look), SLATE_SUSPENDED);
        assert_true(req.waits[i + 1].within_ms <= (i == 0 ? 30000 : 0));
        assert_int_equal(take_answer(&req, i + 1, op), i == 0 ? STORE_OK : STORE_BUSY);
    }
    close_store(s);
}

static void what_has_not_begun_in_time_is_never_done(void **state)
{
    (void)state;
    store *s = open_store("sqlite:x", 1);
    slate_request req = REQUEST;
    set(&fake.shut, true);
    store_op *first = submit(s, &req, STORE_PUT, "first");
    await_gate(1);
    store_op *late = submit(s, &req, STORE_PUT, "late");
    go_on(&req, 1, SLATE_TIMED_OUT);
    assert_int_equal(seen.status, STORE_BUSY);
    assert_true(strlen(seen.detail) > 0);
    assert_false(req.changed);
    store_op_release(late);
    set(&fake.shut, false);
    assert_int_equal(take_answer(&req, 0, first), STORE_OK);
    await_one_wake_of_each(&req);
    close_store(s);
    assert_int_equal(fake.batch_count, 1);
}

static void a_write_that_has_begun_is_unknown_at_its_limit(void **state)
{
    (void)state;
    store *s = open_store("sqlite:x", 1);
    slate_request req = REQUEST;
    set(&fake.shut, true);
    store_op *write = submit(s, &req, STORE_PUT, "write");
    await_gate(1);
    go_on(&req, 0, SLATE_TIMED_OUT);
    assert_int_equal(seen.status, STORE_UNKNOWN);
    assert_true(req.changed);
    assert_int_equal(wakes_of(&req, 0), 0);
    set(&fake.shut, false);
    await_wake(&req, 0);
    assert_int_equal(write->status, STORE_UNKNOWN); /* what is answered later is dropped */
    assert_null(write->bytes.at);
    store_op_release(write);
    close_store(s);
}

static void a_read_that_has_begun_is_busy_at_its_limit(void **state)
{
    (void)state;
    store *s = open_store("sqlite:x", 1);
    slate_request req = REQUEST;
    set(&fake.shut, true);
    store_op *read = submit(s, &req, STORE_LIST, "read");
    await_gate(1);
    go_on(&req, 0, SLATE_TIMED_OUT);
    assert_int_equal(seen.status, STORE_BUSY);
    store_op_release(read);
    set(&fake.shut, false);
    await_one_wake_of_each(&req);
    close_store(s);
}

static void an_answer_that_comes_with_the_limit_counts(void **state)
{
    (void)state;
    store *s = open_store("sqlite:x", 1);
    slate_request req = REQUEST;
    store_op *op = submit(s, &req, STORE_PUT, "apple");
    await_wake(&req, 0);
    go_on(&req, 0, SLATE_TIMED_OUT);
    assert_int_equal(seen.status, STORE_OK);
    assert_string_equal(seen.bytes, "apple");
    store_op_release(op);
    close_store(s);
}

static void a_request_may_end_while_it_waits(void **state)
{
    (void)state;
    store *s = open_store("sqlite:x", 1);
    slate_request req = REQUEST;
    set(&fake.shut, true);
    store_op *running = submit(s, &req, STORE_PUT, "running");
    await_gate(1);
    store_op *queued = submit(s, &req, STORE_PUT, "queued");
    store_op_release(running);
    store_op_release(queued);
    set(&fake.shut, false);
    await_one_wake_of_each(&req);
    close_store(s);
    assert_int_equal(fake.batch_count, 1); /* nobody waits for the other: it is not done */
}

static void an_operation_may_be_released_unsubmitted(void **state)
{
    (void)state;
    store_op_release(make_op(STORE_GET, "x"));
    store_op_release(NULL);
}

static void more_than_the_queue_holds_is_refused_at_once(void **state)
{
    enum { MANY = 10000 };
    (void)state;
    store *s = open_store("sqlite:x", 1);
    slate_request req = REQUEST, *filler = calloc(1, sizeof *filler);
    store_op **ops = calloc(MANY, sizeof *ops);
    assert_non_null(filler);
    assert_non_null(ops);
    pthread_mutex_init(&filler->lock, NULL);
    pthread_cond_init(&filler->woken, NULL);
    set(&fake.shut, true);
    store_op *first = submit(s, &req, STORE_GET, "first");
    await_gate(1);
    for (size_t i = 0; i < MANY; i++) {
        filler->count = 0; /* they share one wait, whose wakes are counted */
        ops[i] = submit(s, filler, STORE_GET, "x");
    }
    store_op *last = submit(s, &req, STORE_GET, "last");
    assert_int_equal(wakes_of(&req, 1), 1);
    assert_int_equal(take_answer(&req, 1, last), STORE_BUSY);
    assert_non_null(strstr(seen.detail, "10000"));
    for (size_t i = 0; i < MANY; i++)
        store_op_release(ops[i]);
    set(&fake.shut, false);
    assert_int_equal(take_answer(&req, 0, first), STORE_OK);
    close_store(s);
    assert_int_equal(filler->waits[0].wakes, MANY);
    free(ops);
    free(filler);
}

/* ---- Sessions ------------------------------------------------------------------------------------ */

static void a_dead_session_is_replaced(void **state)
{
    (void)state;
    store *s = open_store("sqlite:x", 1);
    slate_request req = REQUEST;
    set(&fake.dies, true);
    store_op *op = submit(s, &req, STORE_GET, "x");
    assert_int_equal(take_answer(&req, 0, op), STORE_OK);
    op = submit(s, &req, STORE_GET, "y");
    assert_int_equal(take_answer(&req, 1, op), STORE_OK);
    close_store(s);
    assert_true(fake.opened >= 3); /* one to write, two to read */
}

static void without_sessions_operations_are_refused_until_there_are_some(void **state)
{
    const char *reason = NULL;
    (void)state;
    store *s = open_store("sqlite:x", 1);
    slate_request req = REQUEST;
    assert_true(store_ready(s, &reason));
    set(&fake.refuses, true);
    set(&fake.dies, true);
    int64_t begin = clock_ms();
    store_op *op = submit(s, &req, STORE_GET, "x");
    assert_int_equal(take_answer(&req, 0, op), STORE_OK);
    op = submit(s, &req, STORE_GET, "y"); /* waits for the grace */
    assert_int_equal(take_answer(&req, 1, op), STORE_BUSY);
    assert_true(clock_ms() - begin >= GRACE_MS);
    assert_string_equal(seen.detail, "Nobody is at home.");
    assert_false(store_ready(s, &reason));
    assert_non_null(reason);
    op = submit(s, &req, STORE_GET, "z"); /* not at all */
    assert_int_equal(wakes_of(&req, 2), 1);
    assert_int_equal(take_answer(&req, 2, op), STORE_BUSY);
    set(&fake.dies, false);
    set(&fake.refuses, false);
    while (!store_ready(s, &reason))
        usleep(1000);
    op = submit(s, &req, STORE_GET, "back");
    assert_int_equal(take_answer(&req, 3, op), STORE_OK);
    close_store(s);
}

static void a_short_loss_is_waited_out(void **state)
{
    (void)state;
    store *s = open_store("sqlite:x", 1);
    slate_request req = REQUEST;
    set(&fake.dies, true);
    set(&fake.refuses, true);
    int64_t begin = clock_ms();
    store_op *op = submit(s, &req, STORE_GET, "x");
    assert_int_equal(take_answer(&req, 0, op), STORE_OK);
    set(&fake.dies, false);
    op = submit(s, &req, STORE_GET, "y");
    set(&fake.refuses, false);
    store_status status = take_answer(&req, 1, op);
    if (clock_ms() - begin < GRACE_MS) /* or else it was not short */
        assert_int_equal(status, STORE_OK);
    close_store(s);
}

/* ---- Opening and closing ------------------------------------------------------------------------- */

static void closing_does_what_is_queued(void **state)
{
    (void)state;
    store *s = open_store("sqlite:x", 1);
    slate_request req = REQUEST;
    store_op *ops[20];
    for (size_t i = 0; i < 20; i++)
        ops[i] = submit(s, &req, i % 3 ? STORE_PUT : STORE_GET, "x");
    store_close(s);
    for (size_t i = 0; i < 20; i++) {
        assert_int_equal(wakes_of(&req, i), 1);
        assert_int_equal(ops[i]->status, STORE_OK);
        store_op_release(ops[i]);
    }
}

static void closing_without_sessions_answers_what_is_queued(void **state)
{
    (void)state;
    store *s = open_store("sqlite:x", 1);
    slate_request req = REQUEST;
    set(&fake.dies, true);
    set(&fake.refuses, true);
    store_op *op = submit(s, &req, STORE_GET, "x");
    assert_int_equal(take_answer(&req, 0, op), STORE_OK);
    op = submit(s, &req, STORE_GET, "y");
    store_close(s);
    assert_int_equal(wakes_of(&req, 1), 1);
    assert_int_equal(op->status, STORE_BUSY);
    store_op_release(op);
}

static void an_unknown_address_is_refused(void **state)
{
    (void)state;
    assert_null(open_store("mysql:x", 1));
    assert_null(open_store("sqlitex", 1));
    assert_null(open_store("sqlite:bad", 1));
    store_close(NULL);
}

/* ---- Figures --------------------------------------------------------------------------------------- */

struct figure {
    const char *name;
    double value;
    bool found, counter;
};

static void take_figure(void *arg, const char *name, const char *help, bool counter, double value)
{
    struct figure *wanted = arg;
    assert_true(strlen(help) > 0);
    if (strcmp(name, wanted->name) == 0) {
        wanted->found = true;
        wanted->counter = counter;
        wanted->value = value;
    }
}

static double figure_of(store *s, const char *name)
{
    struct figure wanted = {.name = name};
    store_figures(s, take_figure, &wanted);
    assert_true(wanted.found);
    /* All but lengths only grow, so that rates can be made of them. */
    assert_int_equal(wanted.counter, strncmp(name, "queued_", 7) != 0);
    return wanted.value;
}

static void figures_count_what_happens(void **state)
{
    (void)state;
    store *s = open_store("sqlite:x", 1);
    slate_request req = REQUEST;
    set(&fake.shut, true);
    store_op *ops[4];
    ops[0] = submit(s, &req, STORE_PUT, "a");
    await_gate(1);
    for (size_t i = 1; i < 4; i++)
        ops[i] = submit(s, &req, STORE_PUT, "b");
    assert_int_equal(figure_of(s, "queued_writes"), 3);
    assert_int_equal(figure_of(s, "queued_reads"), 0);
    set(&fake.shut, false);
    for (size_t i = 0; i < 4; i++)
        take_answer(&req, i, ops[i]);
    ops[0] = submit(s, &req, STORE_GET, "a");
    take_answer(&req, 4, ops[0]);
    assert_int_equal(figure_of(s, "puts"), 4);
    assert_int_equal(figure_of(s, "gets"), 1);
    assert_int_equal(figure_of(s, "batches"), 2);
    assert_int_equal(figure_of(s, "batch_operations"), 4);
    assert_int_equal(figure_of(s, "busy"), 0);
    assert_int_equal(figure_of(s, "fake"), 7);
    close_store(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_operation_is_done_and_answered),
        cmocka_unit_test(writes_that_queue_during_a_batch_are_the_next_batch),
        cmocka_unit_test(a_batch_is_bounded_by_its_documents),
        cmocka_unit_test(gets_are_read_together_and_lists_alone),
        cmocka_unit_test(as_many_threads_write_as_the_backend_allows),
        cmocka_unit_test(reads_do_not_wait_for_writes),
        cmocka_unit_test(no_memory_for_a_wait_leaves_nothing_behind),
        cmocka_unit_test(a_producer_waits_without_a_continuation),
        cmocka_unit_test(operations_may_share_their_time),
        cmocka_unit_test(what_memory_is_refused_to_says_so),
        cmocka_unit_test(what_has_not_begun_in_time_is_never_done),
        cmocka_unit_test(a_write_that_has_begun_is_unknown_at_its_limit),
        cmocka_unit_test(a_read_that_has_begun_is_busy_at_its_limit),
        cmocka_unit_test(an_answer_that_comes_with_the_limit_counts),
        cmocka_unit_test(a_request_may_end_while_it_waits),
        cmocka_unit_test(an_operation_may_be_released_unsubmitted),
        cmocka_unit_test(more_than_the_queue_holds_is_refused_at_once),
        cmocka_unit_test(a_dead_session_is_replaced),
        cmocka_unit_test(without_sessions_operations_are_refused_until_there_are_some),
        cmocka_unit_test(a_short_loss_is_waited_out),
        cmocka_unit_test(closing_does_what_is_queued),
        cmocka_unit_test(closing_without_sessions_answers_what_is_queued),
        cmocka_unit_test(an_unknown_address_is_refused),
        cmocka_unit_test(figures_count_what_happens),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
