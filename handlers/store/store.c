/* The executor: two queues of operations, for reading and for writing, and the threads that work them
 * off, each with a session of the backend. A writing thread takes all that has queued while its last
 * batch was made durable, and writes it as one transaction. Workers' threads submit and are resumed;
 * what they share with the store's threads is in a queue, under its lock. */
#include "store.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "../../server/clock.h"
#include "../../server/log.h"

#define QUEUE_MAX 10000 /* operations waiting in one queue */
/* How long nobody may have had a session until operations are refused at once. */
#define GRACE_MS 250
#define RETRY_FIRST_MS 50
#define RETRY_LAST_MS 1000
/* How often a thread without work looks whether its session is alive. */
#define LOOK_MS 1000
#define THREADS_MAX 256u

static const store_backend *const backends[] = {&store_sqlite, &store_postgresql};

#define KINDS (STORE_CLEAR + 1)

/* `state` of an operation. It changes under its queue's lock. */
enum {
    NEW,
    QUEUED,
    CANCELLED, /* its owner gave up before it began: it never begins */
    RUNNING,
    ABANDONED, /* its owner gave up after it began: what it answers is dropped */
    DONE
};

/* Everything in it is guarded by `lock`. */
struct store_queue {
    pthread_mutex_t lock;
    pthread_cond_t work; /* there is an operation, or the end */
    pthread_cond_t end;  /* wakes those who wait to try again */
    store_op *first, **last;
    size_t length;
    unsigned sleeping; /* threads that wait for `work` */
    unsigned sessions; /* threads that have one */
    int64_t lost_ms;   /* when the last of them was lost */
    bool down;         /* nobody has had one for GRACE_MS */
    bool closing;
    char why[STORE_ERROR_MAX];
    uint64_t operations[KINDS], busy, refused, batches;
};

struct thread {
    pthread_t id;
    store *store;
    struct store_queue *queue;
    bool writes;
    void *session;     /* NULL: lost, or not yet opened */
    store_op **taken;  /* of the batch: the operations, */
    store_op *running; /* … the copies that the backend works on, */
    store_op **asked;  /* … and pointers to them */
    size_t capacity;
};

struct store {
    mem_context *memory; /* of the store itself: until it is closed */
    const store_backend *backend;
    void *database;
    unsigned timeout_ms;
    struct store_queue reads, writes;
    struct thread *threads;
    size_t thread_count;
};

static bool is_writing(store_kind kind)
{
    return kind >= STORE_PUT;
}

/* ---- Operations ------------------------------------------------------------------------------ */

/* In an arena, the struct and most of what an operation holds are in one block. */
store_op *store_op_create(mem_context *home, store_kind kind)
{
    if (!home)
        return NULL;
    size_t room = mem_room(home) > sizeof(store_op) ? mem_room(home) - sizeof(store_op) : 0;
    store_op *op = mem_alloc(home, sizeof *op + room);
    if (!op) {
        mem_delete(home);
        return NULL;
    }
    *op = (store_op){.kind = kind, .memory = &op->own, .home = home, .state = NEW, .references = 1};
    mem_child_init(&op->own, home, "what a store operation holds", op->room, room);
    mem_set_budget(&op->own, &op->budget);
    return op;
}

/* Ends one reference; the last takes the operation along, on whichever thread. */
static void drop(store_op *op)
{
    if (__atomic_sub_fetch(&op->references, 1, __ATOMIC_ACQ_REL) == 0)
        mem_delete(op->home);
}

static int state_of(const store_op *op)
{
    return __atomic_load_n(&op->state, __ATOMIC_ACQUIRE);
}

static void set_state(store_op *op, int state)
{
    __atomic_store_n(&op->state, state, __ATOMIC_RELEASE);
}

/* Its owner waits no longer. Returns the state that was found. */
static int give_up(store_op *op)
{
    pthread_mutex_lock(&op->queue->lock);
    int found = state_of(op);
    if (found == QUEUED)
        set_state(op, CANCELLED);
    else if (found == RUNNING)
        set_state(op, ABANDONED);
    pthread_mutex_unlock(&op->queue->lock);
    return found;
}

void store_op_release(store_op *op)
{
    if (!op)
        return;
    int state = state_of(op);
    if (state == QUEUED || state == RUNNING)
        give_up(op);
    drop(op);
}

store_text store_op_copy(store_op *op, const void *bytes, size_t size)
{
    return (store_text){mem_copy(op->memory, bytes, size), size};
}

__attribute__((format(printf, 3, 4))) static void answer(store_op *op, store_status status,
                                                         const char *format, ...)
{
    va_list args;
    va_start(args, format);
    op->status = status;
    (void)vsnprintf(op->detail, sizeof op->detail, format, args);
    va_end(args);
}

/* ---- Submitting: on a worker's thread ----------------------------------------------------------- */

/* The time was over. Unless the answer has come at the same moment, it never will. */
static void time_out(store_op *op)
{
    switch (give_up(op)) {
    case QUEUED:
        answer(op, STORE_BUSY,
               "The store had no time for this within its limit; nothing was done.");
        break;
    case RUNNING:
        if (is_writing(op->kind))
            answer(op, STORE_UNKNOWN,
                   "The store was still writing at its time limit; whether it was written is "
                   "unknown.");
        else
            answer(op, STORE_BUSY, "The store was still reading at its time limit.");
        break;
    default:
        break;
    }
}

static slate_result resume(slate_request *req, void *arg, slate_wake_reason why)
{
    store_op *op = arg;
    if (why == SLATE_TIMED_OUT)
        time_out(op);
    if (is_writing(op->kind) && (op->status == STORE_OK || op->status == STORE_UNKNOWN))
        slate_changed(req);
    return op->then(req, op, why);
}

/* false: refused, and the answer says why. */
static bool enqueue(struct store_queue *q, store_op *op)
{
    bool taken = false, wake = false;
    pthread_mutex_lock(&q->lock);
    if (q->down) {
        answer(op, STORE_BUSY, "%s", q->why);
    } else if (q->length >= QUEUE_MAX) {
        answer(op, STORE_BUSY, "%d operations are waiting for the store already.", QUEUE_MAX);
    } else {
        op->references++; /* the store's own; nobody else knows the operation yet */
        set_state(op, QUEUED);
        *q->last = op;
        q->last = &op->next;
        q->length++;
        taken = true;
        wake = q->sleeping > 0;
    }
    q->refused += !taken;
    pthread_mutex_unlock(&q->lock);
    if (wake)
        pthread_cond_signal(&q->work);
    return taken;
}

slate_result store_submit(store *s, store_op *op, slate_request *req, slate_continuation *then)
{
    assert(op->state == NEW);
    op->queue = is_writing(op->kind) ? &s->writes : &s->reads;
    op->then = then;
    op->next = NULL;
    int64_t now = clock_ms();
    if (op->until_ms == 0)
        op->until_ms = now + s->timeout_ms;
    /* A little before the wait ends, so that a backend that looks at it can say more than nothing. */
    op->deadline_ms = op->until_ms - s->timeout_ms / 10;
    unsigned within_ms = op->until_ms > now ? (unsigned)(op->until_ms - now) : 0;
    slate_wait *wait = slate_wait_begin(req, within_ms, then ? resume : NULL, op);
    if (!wait)
        return SLATE_ANSWERED;
    op->wait = wait;
    if (!enqueue(op->queue, op))
        slate_wake(wait);
    return SLATE_SUSPENDED;
}

/* ---- Working: on a store thread ------------------------------------------------------------------ */

/* What an operation counts in a batch: a batch is bounded by the documents in it. */
static size_t weight(const store_op *op, size_t capacity)
{
    return op->kind == STORE_CLEAR ? capacity : op->count > 1 ? op->count : 1;
}

static store_op *pop(struct store_queue *q)
{
    store_op *op = q->first;
    q->first = op->next;
    if (!q->first)
        q->last = &q->first;
    q->length--;
    return op;
}

/* Whether `op` may be worked on with the operations taken before. Of GETs each thread takes its share,
 * and what takes longer is read alone. */
static bool fits(const struct thread *t, const store_op *op, size_t count, size_t share)
{
    if (t->writes || count == 0)
        return true;
    return op->kind == STORE_GET && t->taken[0]->kind == STORE_GET && count < share;
}

static struct timespec after(unsigned ms)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    t.tv_sec += ms / 1000;
    t.tv_nsec += (long)(ms % 1000) * 1000000;
    if (t.tv_nsec >= 1000000000) {
        t.tv_sec++;
        t.tv_nsec -= 1000000000;
    }
    return t;
}

/* Waits for work, or without any until it is time to look at the session. The lock is held. */
static void await_work(struct store_queue *q)
{
    struct timespec until = after(LOOK_MS);
    q->sleeping++;
    while (!q->first && !q->closing &&
           pthread_cond_timedwait(&q->work, &q->lock, &until) != ETIMEDOUT)
        continue;
    q->sleeping--;
}

/* Takes a batch, which may have nothing in it, and copies it for the backend. The wait of one that was
 * cancelled is ended all the same, behind the others: `*ret_cancelled` of them. false: it is the end. */
static bool take(struct thread *t, size_t *ret_count, size_t *ret_cancelled)
{
    struct store_queue *q = t->queue;
    size_t count = 0, cancelled = 0, load = 0;
    pthread_mutex_lock(&q->lock);
    if (!q->first && !q->closing)
        await_work(q);
    bool go_on = q->first || !q->closing;
    size_t share = q->length / (q->sessions ? q->sessions : 1) + 1;
    while (q->first && count + cancelled < t->capacity && load < t->capacity &&
           fits(t, q->first, count, share)) {
        store_op *op = pop(q);
        if (state_of(op) == CANCELLED) {
            cancelled++;
            t->taken[t->capacity - cancelled] = op;
            continue;
        }
        set_state(op, RUNNING);
        load += weight(op, t->capacity);
        t->taken[count] = op;
        t->running[count++] = *op;
    }
    pthread_mutex_unlock(&q->lock);
    *ret_count = count;
    *ret_cancelled = cancelled;
    return go_on;
}

/* What is answered lies in one piece. */
#define ANSWER_AT offsetof(store_op, status)
#define ANSWER_SIZE (offsetof(store_op, memory) - ANSWER_AT)
static_assert(ANSWER_AT > offsetof(store_op, until_ms) &&
                  offsetof(store_op, memory) > offsetof(store_op, bytes),
              "the answer is between what is asked and what is the executor's own");

/* Hands the answers over to those who still wait for them. */
static void publish(struct thread *t, size_t count)
{
    struct store_queue *q = t->queue;
    pthread_mutex_lock(&q->lock);
    for (size_t i = 0; i < count; i++) {
        store_op *op = t->taken[i];
        q->operations[op->kind]++;
        q->busy += t->running[i].status == STORE_BUSY;
        if (state_of(op) != RUNNING)
            continue;
        memcpy((char *)op + ANSWER_AT, (const char *)&t->running[i] + ANSWER_AT, ANSWER_SIZE);
        set_state(op, DONE);
    }
    q->batches += count > 0;
    pthread_mutex_unlock(&q->lock);
}

static void wake(store_op *const ops[], size_t count)
{
    for (size_t i = 0; i < count; i++) {
        slate_wait *wait = ops[i]->wait;
        drop(ops[i]); /* first, so that it is most often its owner who ends it, where it was made */
        slate_wake(wait);
    }
}

/* The backend says what it could not do; the budget, why. */
static void explain(struct thread *t, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        store_op *copy = &t->running[i];
        if (t->taken[i]->budget.refused != MEM_GRANTED &&
            (copy->status == STORE_BUSY || copy->status == STORE_FAILED))
            answer(copy, STORE_NO_MEMORY, "There is no memory for this.");
    }
}

/* Those whose time is over are answered, the others are asked of the backend. */
static void work(struct thread *t, size_t count)
{
    const store_backend *backend = t->store->backend;
    int64_t now = clock_ms();
    size_t asked = 0;
    for (size_t i = 0; i < count; i++) {
        if (t->running[i].deadline_ms <= now)
            answer(&t->running[i], STORE_BUSY, "The store had no time for this within its limit.");
        else
            t->asked[asked++] = &t->running[i];
    }
    if (asked && t->writes)
        backend->write(t->session, t->asked, asked);
    else if (asked)
        backend->read(t->session, t->asked, asked);
    explain(t, count);
}

/* Answers all that waits; the lock is held, and given back in between. */
static void refuse_all(struct store_queue *q)
{
    while (q->first) {
        store_op *op = pop(q);
        if (state_of(op) == QUEUED) {
            answer(op, STORE_BUSY, "%s", q->why);
            set_state(op, DONE);
            q->busy++;
        }
        pthread_mutex_unlock(&q->lock);
        wake(&op, 1);
        pthread_mutex_lock(&q->lock);
    }
}

/* After a session could not be opened: waits before the next try. false: it is the end. */
static bool back_off(struct store_queue *q, unsigned ms, const char *why)
{
    struct timespec until = after(ms);
    pthread_mutex_lock(&q->lock);
    (void)snprintf(q->why, sizeof q->why, "%s", why);
    if (q->sessions == 0 && clock_ms() - q->lost_ms >= GRACE_MS) {
        if (!q->down)
            log_warning("store: %s", why);
        q->down = true;
        refuse_all(q);
    }
    while (!q->closing && pthread_cond_timedwait(&q->end, &q->lock, &until) != ETIMEDOUT)
        continue;
    bool go_on = !q->closing;
    if (!go_on && q->sessions == 0)
        refuse_all(q);
    pthread_mutex_unlock(&q->lock);
    return go_on;
}

/* false: it is the end. */
static bool have_session(struct thread *t)
{
    struct store_queue *q = t->queue;
    char error[STORE_ERROR_MAX] = "";
    for (unsigned wait = RETRY_FIRST_MS; !t->session;
         wait = wait > RETRY_LAST_MS / 2 ? RETRY_LAST_MS : wait * 2) {
        t->session = t->store->backend->session_open(t->store->database, t->writes, error);
        if (!t->session && !back_off(q, wait, error))
            return false;
        if (!t->session)
            continue;
        pthread_mutex_lock(&q->lock);
        q->sessions++;
        if (q->down)
            log_info("store: it can be reached again");
        q->down = false;
        pthread_mutex_unlock(&q->lock);
    }
    return true;
}

static void end_session(struct thread *t)
{
    t->store->backend->session_close(t->session);
    t->session = NULL;
    pthread_mutex_lock(&t->queue->lock);
    if (--t->queue->sessions == 0)
        t->queue->lost_ms = clock_ms();
    pthread_mutex_unlock(&t->queue->lock);
}

static void *thread_main(void *arg)
{
    struct thread *t = arg;
    const store_backend *backend = t->store->backend;
    (void)pthread_setname_np(pthread_self(), t->writes ? "store writer" : "store reader");
    /* One that is woken does not take the processor from the worker that woke it, which is about to
     * submit more: where processors are short, batches form. */
    if (sched_setscheduler(0, SCHED_BATCH, &(struct sched_param){.sched_priority = 0}) != 0)
        log_debug("store: its threads are not SCHED_BATCH: %s", strerror(errno));
    size_t count, cancelled;
    while (have_session(t) && take(t, &count, &cancelled)) {
        work(t, count);
        publish(t, count);
        wake(t->taken, count);
        wake(t->taken + t->capacity - cancelled, cancelled);
        if (count && t->writes && backend->tidy)
            backend->tidy(t->session);
        if (!backend->session_alive(t->session))
            end_session(t);
    }
    if (t->session)
        end_session(t);
    return NULL;
}

/* ---- The store ----------------------------------------------------------------------------------- */

static const store_backend *find_backend(const char *uri)
{
    if (strncmp(uri, "postgres:", 9) == 0) /* as PostgreSQL's own programs allow */
        return &store_postgresql;
    for (size_t i = 0; i < sizeof backends / sizeof *backends; i++) {
        size_t length = strlen(backends[i]->scheme);
        if (strncmp(uri, backends[i]->scheme, length) == 0 && uri[length] == ':')
            return backends[i];
    }
    return NULL;
}

static void queue_init(struct store_queue *q)
{
    pthread_condattr_t monotonic;
    /* None of these can fail with these arguments on Linux. */
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&q->lock, NULL);
    pthread_cond_init(&q->work, &monotonic);
    pthread_cond_init(&q->end, &monotonic);
    pthread_condattr_destroy(&monotonic);
    q->last = &q->first;
    q->lost_ms = clock_ms();
}

static void queue_end(struct store_queue *q)
{
    pthread_cond_destroy(&q->end);
    pthread_cond_destroy(&q->work);
    pthread_mutex_destroy(&q->lock);
}

static void queue_close(struct store_queue *q)
{
    pthread_mutex_lock(&q->lock);
    q->closing = true;
    pthread_cond_broadcast(&q->work);
    pthread_cond_broadcast(&q->end);
    pthread_mutex_unlock(&q->lock);
}

/* Signals are for the program's own threads. */
static bool start_thread(struct thread *t)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&t->id, NULL, thread_main, t);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error == 0;
}

static bool add_thread(store *s, bool writes)
{
    struct thread *t = &s->threads[s->thread_count];
    *t = (struct thread){.store = s,
                         .queue = writes ? &s->writes : &s->reads,
                         .writes = writes,
                         .capacity = writes ? s->backend->batch : STORE_READ_BATCH};
    t->taken = mem_alloc_array(s->memory, t->capacity, sizeof *t->taken);
    t->asked = mem_alloc_array(s->memory, t->capacity, sizeof *t->asked);
    t->running = mem_alloc_array(s->memory, t->capacity, sizeof *t->running);
    if (!t->taken || !t->asked || !t->running || !start_thread(t))
        return false;
    s->thread_count++;
    return true;
}

static bool start_threads(store *s, unsigned readers)
{
    unsigned writers = s->backend->writers < readers ? s->backend->writers : readers;
    s->threads = mem_alloc_array(s->memory, readers + writers, sizeof *s->threads);
    if (!s->threads)
        return false;
    for (unsigned i = 0; i < readers + writers; i++) {
        if (!add_thread(s, i < writers))
            return false;
    }
    return true;
}

void store_close(store *s)
{
    if (!s)
        return;
    queue_close(&s->reads);
    queue_close(&s->writes);
    if (s->backend->hurry)
        s->backend->hurry(s->database);
    for (size_t i = 0; i < s->thread_count; i++)
        pthread_join(s->threads[i].id, NULL);
    s->backend->close(s->database);
    queue_end(&s->reads);
    queue_end(&s->writes);
    mem_delete(s->memory);
}

store *store_open(const store_settings *settings)
{
    char error[STORE_ERROR_MAX] = "";
    const store_backend *backend = find_backend(settings->uri);
    if (!backend) {
        log_error("store: the address must begin with sqlite: or postgresql:");
        return NULL;
    }
    mem_context *memory = mem_heap_create(NULL, "store");
    store *s = memory ? mem_alloc_array(memory, 1, sizeof *s) : NULL;
    if (!s) {
        log_error("store: no memory");
        mem_delete(memory);
        return NULL;
    }
    s->memory = memory;
    s->backend = backend;
    s->timeout_ms = settings->timeout_ms;
    s->database = backend->open(settings, error);
    if (!s->database) {
        log_error("store: %s", error);
        mem_delete(memory);
        return NULL;
    }
    queue_init(&s->reads);
    queue_init(&s->writes);
    unsigned readers = settings->threads < THREADS_MAX ? settings->threads : THREADS_MAX;
    if (!start_threads(s, readers ? readers : 1)) {
        log_error("store: its threads cannot be started");
        store_close(s);
        return NULL;
    }
    return s;
}

/* ---- What others may see: from any thread -------------------------------------------------------- */

static bool is_down(struct store_queue *q)
{
    pthread_mutex_lock(&q->lock);
    bool down = q->down;
    pthread_mutex_unlock(&q->lock);
    return down;
}

bool store_ready(store *s, const char **ret_reason)
{
    if (!is_down(&s->reads) && !is_down(&s->writes))
        return true;
    *ret_reason = "the store cannot be reached";
    return false;
}

void store_figures(store *s, slate_emit_figure *emit, void *arg)
{
    static const char *const kinds[KINDS][2] = {
        [STORE_GET] = {"gets", "Documents asked for."},
        [STORE_LIST] = {"lists", "Lists asked for."},
        [STORE_COLLECTIONS] = {"collections", "Lists of collections asked for."},
        [STORE_PUT] = {"puts", "Documents to be put."},
        [STORE_DELETE] = {"deletes", "Documents to be deleted."},
        [STORE_INSERT] = {"inserts", "Insertions, of one document or many."},
        [STORE_CLEAR] = {"clears", "Collections to be removed."},
    };
    struct store_queue *queues[] = {&s->reads, &s->writes};
    uint64_t operations[KINDS] = {0}, busy = 0, writes = 0, batches = 0;
    size_t length[2];
    for (size_t i = 0; i < 2; i++) {
        struct store_queue *q = queues[i];
        pthread_mutex_lock(&q->lock);
        for (size_t kind = 0; kind < KINDS; kind++)
            operations[kind] += q->operations[kind];
        busy += q->busy + q->refused;
        length[i] = q->length;
        batches = q->batches; /* in the end: those of the writers */
        pthread_mutex_unlock(&q->lock);
    }
    for (size_t kind = 0; kind < KINDS; kind++) {
        emit(arg, kinds[kind][0], kinds[kind][1], true, (double)operations[kind]);
        writes += is_writing((store_kind)kind) ? operations[kind] : 0;
    }
    emit(arg, "queued_reads", "Operations that wait for a reading thread.", false,
         (double)length[0]);
    emit(arg, "queued_writes", "Operations that wait for a writing thread.", false,
         (double)length[1]);
    emit(arg, "busy", "Operations answered with busy.", true, (double)busy);
    emit(arg, "batches", "Transactions of the writing threads.", true, (double)batches);
    emit(arg, "batch_operations", "Operations in those transactions.", true, (double)writes);
    s->backend->figures(s->database, emit, arg);
}
