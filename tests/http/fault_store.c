/* SQLite with faults that a test aims. SQLite's calls for memory come through its own hook, and count
 * only while a backend's function runs, on whichever of the store's threads: requests come one at a
 * time here. The linker puts a backend of our own between the executor and SQLite's (--wrap). */
#include <pthread.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "../../handlers/store/sqlite.h"
#include "fault.h"

/* Calls until one is refused, or 0; NULL: the store does not work. */
static __thread uint64_t *left;

static sqlite3_mem_methods real;

static bool strikes(void)
{
    if (!left || *left == 0 || --*left > 0)
        return false;
    if (aim->opening)
        aim->opened++;
    else
        count_struck(1);
    return true;
}

static void *faulty_malloc(int size)
{
    return strikes() ? NULL : real.xMalloc(size);
}

static void *faulty_realloc(void *p, int size)
{
    return strikes() ? NULL : real.xRealloc(p, size);
}

/* SQLite calls these, since the program comes before libraries: nothing here is meant to last. */
int fsync(int file)
{
    (void)file;
    return 0;
}

int fdatasync(int file)
{
    return fsync(file);
}

/* ---- The backend -------------------------------------------------------------------------------- */

extern const store_backend __real_store_sqlite;
store_backend __wrap_store_sqlite;

/* What is prepared or read already needs no memory any more: it is to be done anew. Only the schema
 * is there, whether it has been changed or not, so that every try makes the same calls. */
static void forget(sqlite_session *session)
{
    for (size_t i = 0; i < SQL_STATEMENTS; i++) {
        sqlite3_finalize(session->fixed[i]);
        session->fixed[i] = NULL;
    }
    for (size_t i = 0; i < SQLITE_LISTS_KEPT; i++) {
        sqlite3_finalize(session->lists[i]);
        session->lists[i] = NULL;
    }
    (void)sqlite3_exec(session->db, "PRAGMA writable_schema = RESET; SELECT * FROM counter", NULL,
                       NULL, NULL);
    sqlite3_db_release_memory(session->db);
}

typedef void work(void *session, store_op *const ops[], size_t count);

static void faulty_work(work *real_work, void *session, store_op *const ops[], size_t count)
{
    if (aim->sqlite) {
        forget(session);
        left = &aim->left;
    }
    real_work(session, ops, count);
    left = NULL;
}

static void faulty_read(void *session, store_op *const ops[], size_t count)
{
    faulty_work(__real_store_sqlite.read, session, ops, count);
}

static void faulty_write(void *session, store_op *const ops[], size_t count)
{
    faulty_work(__real_store_sqlite.write, session, ops, count);
}

static void remove_file(const char *path)
{
    static const char *const suffixes[] = {"", "-wal", "-shm"};
    char name[4096];
    for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++) {
        snprintf(name, sizeof name, "%s%s", path, suffixes[i]);
        unlink(name);
    }
}

static void *faulty_open(const store_settings *settings, char error[STORE_ERROR_MAX])
{
    for (uint64_t k = 1;; k++) {
        uint64_t calls = aim->opening ? k : 0;
        left = &calls;
        void *database = __real_store_sqlite.open(settings, error);
        left = NULL;
        if (!aim->opening || calls > 0) /* it has gone without a refusal */
            return database;
        if (!database) /* the next try finds what this one has left */
            continue;
        __real_store_sqlite.close(database); /* it did without that memory */
        if (aim->opening == OPENING_NEW)
            remove_file(settings->uri + sizeof "sqlite");
    }
}

/* Threads open theirs at the same time. */
static pthread_mutex_t one_at_a_time = PTHREAD_MUTEX_INITIALIZER;

static void *faulty_session_open(void *database, bool writes, char error[STORE_ERROR_MAX])
{
    pthread_mutex_lock(&one_at_a_time);
    aim->sessions++;
    void *session = NULL;
    for (uint64_t k = 1;; k++) {
        uint64_t calls = aim->opening ? k : 0;
        left = &calls;
        session = __real_store_sqlite.session_open(database, writes, error);
        left = NULL;
        if (!aim->opening || calls > 0)
            break;
        __real_store_sqlite.session_close(session);
    }
    pthread_mutex_unlock(&one_at_a_time);
    return session;
}

/* Before main, and so before SQLite is used. */
static __attribute__((constructor)) void take_place(void)
{
    static sqlite3_mem_methods faulty;
    sqlite3_config(SQLITE_CONFIG_GETMALLOC, &real);
    faulty = real;
    faulty.xMalloc = faulty_malloc;
    faulty.xRealloc = faulty_realloc;
    sqlite3_config(SQLITE_CONFIG_MALLOC, &faulty);
    sqlite3_config(SQLITE_CONFIG_LOOKASIDE, 0, 0); /* small ones are calls, too */

    memcpy(&__wrap_store_sqlite, &__real_store_sqlite, sizeof __wrap_store_sqlite);
    __wrap_store_sqlite.read = faulty_read;
    __wrap_store_sqlite.write = faulty_write;
    __wrap_store_sqlite.open = faulty_open;
    __wrap_store_sqlite.session_open = faulty_session_open;
}
