/* The SQLite backend: opening and closing, sessions, and what running a statement takes. A file is in
 * WAL mode and every commit is on the disk before it is answered (synchronous = FULL); one thread
 * writes, and readers see the last commit. A database in memory is one connection, because connections
 * that share one in memory lock tables against each other; threads take turns with it. */
#include "sqlite.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../../server/clock.h"
#include "../../server/log.h"

#define SCHEME "sqlite"
#define IN_MEMORY ":memory:"
#define ANOTHER " --db sqlite:PATH names another file, --db off serves without one."

#define CACHE_KIB 1024                /* of pages, of all sessions that read together, */
#define CACHE_KIB_LEAST 64            /* … and of each at least so many */
#define WRITER_CACHE_KIB 16384        /* … that writes: it reads pages in order to change them */
#define HEAP_BYTES (64 * 1024 * 1024) /* of all sessions: beyond it, caches give pages back */
#define STATEMENTS_PER_LOOK \
    4000                   /* instructions of SQLite's machine between two looks at the clock */
#define OPEN_WAIT_MS 5000  /* for a lock of another program, at the start */
#define LOOK_EVERY_MS 1000 /* until a session that reads notices that its file is gone */

#define FOUR_NAMES "(?, ?, ?), (?, ?, ?), (?, ?, ?), (?, ?, ?)"
static_assert(STORE_READ_BATCH == 16, "as SQL_GET_MANY has it");

static const char *const statements[SQL_STATEMENTS] = {
    [SQL_BEGIN] = "BEGIN",
    [SQL_BEGIN_WRITING] = "BEGIN IMMEDIATE",
    [SQL_COMMIT] = "COMMIT",
    [SQL_ROLLBACK] = "ROLLBACK",
    [SQL_SAVEPOINT] = "SAVEPOINT one",
    [SQL_RELEASE] = "RELEASE one",
    [SQL_ROLLBACK_TO] = "ROLLBACK TO one",
    [SQL_GET] = "SELECT revision, modified, json FROM document WHERE collection = ? AND id = ?",
    [SQL_GET_MANY] = "SELECT revision, modified, json, wanted.column1"
                     " FROM (VALUES " FOUR_NAMES ", " FOUR_NAMES ", " FOUR_NAMES ", " FOUR_NAMES
                     ") AS wanted CROSS JOIN document"
                     " ON collection = wanted.column2 AND id = wanted.column3 LIMIT ?",
    [SQL_FIND] = "SELECT rowid, revision, json FROM document WHERE collection = ? AND id = ?",
    [SQL_INSERT] = "INSERT INTO document (collection, id, revision, modified, json)"
                   " VALUES (?, ?, ?, ?, ?)",
    [SQL_REPLACE] = "UPDATE document SET revision = ?, modified = ?, json = ? WHERE rowid = ?",
    [SQL_DELETE] = "DELETE FROM document WHERE rowid = ?",
    [SQL_CLEAR] = "DELETE FROM document WHERE collection = ?",
    [SQL_COLLECTIONS] = "SELECT name, documents, bytes FROM collection ORDER BY name",
    [SQL_COUNT] = "SELECT documents FROM collection WHERE name = ?",
    [SQL_ADD_TO_COUNT] = "INSERT INTO collection VALUES (?, ?, ?) ON CONFLICT (name) DO UPDATE"
                         " SET documents = documents + excluded.documents,"
                         " bytes = bytes + excluded.bytes",
    [SQL_DROP_COUNT] = "DELETE FROM collection WHERE name = ?",
    [SQL_DROP_EMPTY] = "DELETE FROM collection WHERE name = ? AND documents = 0",
    [SQL_LAST_REVISION] = "SELECT revision FROM counter",
    [SQL_SET_REVISION] = "UPDATE counter SET revision = ?",
    [SQL_FIND_KEY] = "SELECT fingerprint, remembered, revision FROM idempotency"
                     " WHERE key = ? AND expires > ?",
    [SQL_KEEP_KEY] = "INSERT OR REPLACE INTO idempotency VALUES (?, ?, ?, ?, ?)",
    [SQL_EXPIRE_KEYS] = "DELETE FROM idempotency WHERE key IN (SELECT key FROM idempotency"
                        " WHERE expires <= ? ORDER BY expires LIMIT ?)",
};

/* ---- Statements ---------------------------------------------------------------------------------- */

sqlite3_stmt *sqlite_prepared(sqlite_session *session, sqlite_statement which)
{
    if (!session->fixed[which])
        (void)sqlite3_prepare_v3(session->db, statements[which], -1, SQLITE_PREPARE_PERSISTENT,
                                 &session->fixed[which], NULL);
    return session->fixed[which];
}

int sqlite_finish(sqlite3_stmt *statement)
{
    int rc = sqlite3_step(statement);
    (void)sqlite3_reset(statement);
    sqlite3_clear_bindings(statement);
    return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

int sqlite_no_statement(sqlite_session *session)
{
    int rc = sqlite3_extended_errcode(session->db);
    return rc == SQLITE_OK ? SQLITE_NOMEM : rc;
}

int sqlite_run(sqlite_session *session, sqlite_statement which)
{
    sqlite3_stmt *statement = sqlite_prepared(session, which);
    return statement ? sqlite_finish(statement) : sqlite_no_statement(session);
}

int sqlite_begin(sqlite_session *session, sqlite_statement which)
{
    if (!sqlite_prepared(session, SQL_COMMIT) || !sqlite_prepared(session, SQL_ROLLBACK))
        return sqlite_no_statement(session);
    return sqlite_run(session, which);
}

bool sqlite_bind_text(sqlite3_stmt *statement, int at, store_text text)
{
    return sqlite3_bind_text64(statement, at, text.size ? text.at : "", text.size, SQLITE_STATIC,
                               SQLITE_UTF8) == SQLITE_OK;
}

bool sqlite_bind_bytes(sqlite3_stmt *statement, int at, store_text bytes)
{
    return sqlite3_bind_blob64(statement, at, bytes.size ? bytes.at : "", bytes.size,
                               SQLITE_STATIC) == SQLITE_OK;
}

bool sqlite_bind_integer(sqlite3_stmt *statement, int at, int64_t n)
{
    return sqlite3_bind_int64(statement, at, n) == SQLITE_OK;
}

bool sqlite_copy_column(store_op *op, sqlite3_stmt *statement, int column, store_text *ret_text)
{
    const void *bytes = sqlite3_column_blob(statement, column);
    size_t size = (size_t)sqlite3_column_bytes(statement, column);
    if (size > 0)
        *ret_text = store_op_copy(op, bytes, size);
    return size == 0 || ret_text->at;
}

/* ---- Failing --------------------------------------------------------------------------------------- */

store_status sqlite_explain(int rc, const char **ret_sentence)
{
    switch (rc & 0xff) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
    case SQLITE_PROTOCOL:
        *ret_sentence = "The database is locked by another program.";
        return STORE_BUSY;
    case SQLITE_INTERRUPT:
        *ret_sentence = "Reading took longer than the store's time limit.";
        return STORE_BUSY;
    case SQLITE_FULL:
        *ret_sentence = "There is no space left for the database.";
        return STORE_BUSY;
    case SQLITE_NOMEM:
        *ret_sentence = "There is no memory left for the store.";
        return STORE_BUSY;
    case SQLITE_READONLY:
    case SQLITE_PERM:
        if (rc == SQLITE_READONLY_DBMOVED) {
            *ret_sentence = "The database's file has been removed or replaced.";
            return STORE_BUSY;
        }
        *ret_sentence = "The database may not be written to.";
        return STORE_BUSY;
    case SQLITE_IOERR:
    case SQLITE_CANTOPEN:
        *ret_sentence = "The database's file cannot be read or written.";
        return STORE_BUSY;
    case SQLITE_TOOBIG:
        *ret_sentence = "This is longer than SQLite can hold.";
        return STORE_FAILED;
    default:
        *ret_sentence = "The database failed; the log says how.";
        return STORE_FAILED;
    }
}

void sqlite_note_failure(sqlite_session *session, int rc)
{
    int kind = rc & 0xff;
    session->broken |= rc == SQLITE_READONLY_DBMOVED || kind == SQLITE_IOERR ||
                       kind == SQLITE_CANTOPEN || kind == SQLITE_CORRUPT || kind == SQLITE_NOTADB ||
                       kind == SQLITE_PROTOCOL;
    if (kind == SQLITE_BUSY || kind == SQLITE_INTERRUPT || rc == SQLITE_READONLY_DBMOVED ||
        session->ailing)
        return; /* that it is gone is said when it is to be opened anew */
    session->ailing = true;
    log_error("store: %s: %s (SQLite's code %d, %s)", session->database->path,
              sqlite3_errmsg(session->db), rc, sqlite3_errstr(rc));
}

void sqlite_answer_failure(store_op *op, store_status status, const char *sentence)
{
    op->status = status;
    (void)snprintf(op->detail, sizeof op->detail, "%s", sentence);
}

/* ---- The file -------------------------------------------------------------------------------------- */

/* Whether the path still leads to the file that was opened at the start. */
static bool file_stays(const sqlite_database *database)
{
    struct stat file;
    return database->shared || (stat(database->path, &file) == 0 &&
                                file.st_ino == database->inode && file.st_dev == database->device);
}

int sqlite_look_for_file(sqlite_session *session, bool now)
{
    if (!now && clock_ms() - session->looked_ms < LOOK_EVERY_MS)
        return SQLITE_OK;
    session->looked_ms = clock_ms();
    return file_stays(session->database) ? SQLITE_OK : SQLITE_READONLY_DBMOVED;
}

/* ---- Sessions -------------------------------------------------------------------------------------- */

void sqlite_take_turn(sqlite_session *session)
{
    if (session->database->shared)
        pthread_mutex_lock(&session->database->turn);
}

void sqlite_end_turn(sqlite_session *session)
{
    if (session->database->shared)
        pthread_mutex_unlock(&session->database->turn);
}

void sqlite_roll_back(sqlite_session *session)
{
    if (!sqlite3_get_autocommit(session->db))
        (void)sqlite_run(session, SQL_ROLLBACK);
    session->broken |= !sqlite3_get_autocommit(session->db);
}

static bool session_alive(void *arg)
{
    const sqlite_session *session = arg;
    return session->database->shared || !session->broken;
}

static bool is_over(const sqlite_session *session)
{
    return (session->deadline_ms != 0 && clock_ms() >= session->deadline_ms) ||
           atomic_load_explicit(&session->database->hurried, memory_order_relaxed);
}

/* Another program holds the lock: waits a little, until the deadline. */
static int on_busy(void *arg, int times)
{
    const sqlite_session *session = arg;
    if (is_over(session))
        return 0;
    usleep(times < 10 ? 500 : 5000);
    return 1;
}

static int on_progress(void *arg)
{
    const sqlite_session *session = arg;
    return session->reading && is_over(session);
}

static int on_commit(void *arg, sqlite3 *db, const char *schema, int pages)
{
    sqlite_session *session = arg;
    (void)db;
    (void)schema;
    if (pages < session->wal_pages) /* it has begun anew */
        session->checkpoint_at = SQLITE_WAL_PAGES;
    session->wal_pages = pages;
    return SQLITE_OK;
}

static void session_end(sqlite_session *session)
{
    for (size_t i = 0; i < SQL_STATEMENTS; i++)
        sqlite3_finalize(session->fixed[i]);
    for (size_t i = 0; i < SQLITE_LISTS_KEPT; i++)
        sqlite3_finalize(session->lists[i]);
    (void)sqlite3_close(session->db); /* cannot be busy: every statement is finalized */
    mem_delete(session->memory);
}

static void session_close(void *arg)
{
    sqlite_session *session = arg;
    if (session && session != session->database->shared)
        session_end(session);
}

static unsigned cache_of_reader(const sqlite_database *database)
{
    unsigned kib = CACHE_KIB / database->readers;
    return kib > CACHE_KIB_LEAST ? kib : CACHE_KIB_LEAST;
}

/* The file is not mapped: a mapping counts as the process's memory, page by page as it is read, and a
 * file that somebody cuts short would be the process's end (SIGBUS). */
static bool set_up(sqlite_session *session, bool writes)
{
    char pragmas[160];
    (void)snprintf(pragmas, sizeof pragmas,
                   "PRAGMA synchronous = FULL; PRAGMA cache_size = -%u; PRAGMA mmap_size = 0",
                   writes ? WRITER_CACHE_KIB : cache_of_reader(session->database));
    sqlite3_extended_result_codes(session->db, 1);
    sqlite3_progress_handler(session->db, STATEMENTS_PER_LOOK, on_progress, session);
    sqlite3_wal_hook(session->db, on_commit, session);
    session->deadline_ms = clock_ms() + OPEN_WAIT_MS;
    return sqlite3_busy_handler(session->db, on_busy, session) == SQLITE_OK &&
           sqlite_add_functions(session->db) == SQLITE_OK &&
           sqlite3_exec(session->db, pragmas, NULL, NULL, NULL) == SQLITE_OK;
}

/* The errno for which a file cannot be opened to be written, or made; 0 if none is seen. SQLite's own
 * is that of its second attempt, which only reads, and misses a file that could not be made. */
static int why_not_opened(const char *path)
{
    if (faccessat(AT_FDCWD, path, R_OK | W_OK, AT_EACCESS) == 0)
        return 0;
    const char *slash = strrchr(path, '/');
    char folder[PATH_MAX] = ".";
    if (errno != ENOENT || (slash && slash - path >= PATH_MAX))
        return errno;
    if (slash) /* that of the root is its name */
        (void)snprintf(folder, sizeof folder, "%.*s", slash > path ? (int)(slash - path) : 1, path);
    return faccessat(AT_FDCWD, folder, W_OK | X_OK, AT_EACCESS) == 0 ? 0 : errno;
}

/* Opens the file, which is made only where that is said. */
static sqlite_session *session_begin(sqlite_database *database, int flags, bool writes,
                                     char error[STORE_ERROR_MAX])
{
    mem_context *memory = mem_heap_create(NULL, "store session");
    sqlite_session *session = memory ? mem_alloc_array(memory, 1, sizeof *session) : NULL;
    if (!session) {
        (void)snprintf(error, STORE_ERROR_MAX, "There is no memory for a session.");
        mem_delete(memory);
        return NULL;
    }
    session->memory = memory;
    session->database = database;
    session->checkpoint_at = SQLITE_WAL_PAGES;
    int rc = sqlite3_open_v2(database->path, &session->db,
                             SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | flags, NULL);
    if (rc == SQLITE_OK && set_up(session, writes))
        return session;
    int number = (rc & 0xff) == SQLITE_CANTOPEN ? why_not_opened(database->path) : 0;
    if (number == 0 && session->db)
        number = sqlite3_system_errno(session->db);
    (void)snprintf(error, STORE_ERROR_MAX, "%s cannot be opened: %s%s%s.%s", database->path,
                   session->db ? sqlite3_errmsg(session->db) : sqlite3_errstr(rc),
                   number ? ", " : "", number ? strerrordesc_np(number) : "",
                   flags & SQLITE_OPEN_CREATE ? ANOTHER : "");
    session_end(session);
    return NULL;
}

/* What the file is called and what is wrong with it is for the log, once for all sessions until one
 * can be opened; not for clients. */
static void *session_open(void *arg, bool writes, char error[STORE_ERROR_MAX])
{
    sqlite_database *database = arg;
    char why[STORE_ERROR_MAX] = "";
    if (database->shared)
        return database->shared;
    sqlite_session *session = NULL;
    if (file_stays(database))
        session = session_begin(database, 0, writes, why);
    else
        (void)snprintf(why, sizeof why, "%s has been removed or replaced.", database->path);
    if (session)
        atomic_store(&database->told, false);
    else if (!atomic_exchange(&database->told, true))
        log_warning("sqlite: %s", why);
    if (!session)
        (void)snprintf(error, STORE_ERROR_MAX, "The database's file cannot be opened.");
    return session;
}

/* ---- The database ---------------------------------------------------------------------------------- */

static void close_database(void *arg)
{
    sqlite_database *database = arg;
    if (database->shared)
        session_end(database->shared);
    pthread_mutex_destroy(&database->turn);
    mem_delete(database->memory);
}

static bool open_first(sqlite_database *database, char error[STORE_ERROR_MAX])
{
    sqlite_session *session = session_begin(database, SQLITE_OPEN_CREATE, true, error);
    if (!session)
        return false;
    if (!sqlite_make_schema(session->db, database, error)) {
        session_end(session);
        return false;
    }
    struct stat file;
    if (strcmp(database->path, IN_MEMORY) == 0) {
        database->shared = session;
        return true;
    }
    session_end(session);
    if (stat(database->path, &file) != 0) {
        (void)snprintf(error, STORE_ERROR_MAX, "%s is gone.", database->path);
        return false;
    }
    database->device = file.st_dev;
    database->inode = file.st_ino;
    return true;
}

static void *open_database(const store_settings *settings, char error[STORE_ERROR_MAX])
{
    const char *path = settings->uri + sizeof SCHEME; /* behind the colon */
    if (!*path) {
        (void)snprintf(error, STORE_ERROR_MAX,
                       "sqlite: needs the path of a file behind it, or :memory:.");
        return NULL;
    }
    mem_context *memory = mem_heap_create(NULL, "store database");
    sqlite_database *database = memory ? mem_alloc_array(memory, 1, sizeof *database) : NULL;
    if (!database || !(path = mem_copy_string(memory, path, strlen(path)))) {
        (void)snprintf(error, STORE_ERROR_MAX, "There is no memory for the database.");
        mem_delete(memory);
        return NULL;
    }
    database->memory = memory;
    database->path = path;
    database->readers = settings->threads ? settings->threads : 1;
    pthread_mutex_init(&database->turn, NULL);
    sqlite3_soft_heap_limit64(HEAP_BYTES);
    if (!sqlite_read_indexes(database, settings->indexes, error) || !open_first(database, error)) {
        close_database(database);
        return NULL;
    }
    return database;
}

static void hurry(void *arg)
{
    sqlite_database *database = arg;
    atomic_store(&database->hurried, true);
}

static double file_size(const char *path, const char *suffix)
{
    char name[4096];
    struct stat file;
    int length = snprintf(name, sizeof name, "%s%s", path, suffix);
    return length > 0 && (size_t)length < sizeof name && stat(name, &file) == 0
               ? (double)file.st_size
               : 0;
}

static void figures(void *arg, slate_emit_figure *emit, void *emit_arg)
{
    const sqlite_database *database = arg;
    emit(emit_arg, "sqlite_memory_bytes", "Memory that SQLite holds.", false,
         (double)sqlite3_memory_used());
    emit(emit_arg, "sqlite_memory_peak_bytes", "The most memory that SQLite has held.", false,
         (double)sqlite3_memory_highwater(0));
    emit(emit_arg, "file_bytes", "Size of the database's file.", false,
         file_size(database->path, ""));
    emit(emit_arg, "wal_bytes", "Size of the database's write-ahead log.", false,
         file_size(database->path, "-wal"));
}

const store_backend store_sqlite = {
    .scheme = SCHEME,
    .writers = 1,
    .batch = 256,
    .open = open_database,
    .close = close_database,
    .hurry = hurry,
    .session_open = session_open,
    .session_close = session_close,
    .read = sqlite_read,
    .write = sqlite_write,
    .tidy = sqlite_tidy,
    .session_alive = session_alive,
    .figures = figures,
};
