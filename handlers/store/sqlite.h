/* What the files of the SQLite backend share. A session is a connection of one store thread; a
 * database in memory has one session that all threads take turns with. */
#ifndef SLATE_SQLITE_H
#define SLATE_SQLITE_H

#include <pthread.h>
#include <sqlite3.h>
#include <stdatomic.h>
#include <sys/stat.h>

#include "indexes.h"
#include "store_value.h"

/* An index that the command line declares. Its texts are SQL made of that declaration only. */
typedef struct sqlite_index {
    const store_index *declared;
    const char *name;     /* "by people:/age", a quoted identifier */
    const char *key;      /* slate_key(json, '/age') */
    const char *only_for; /* collection = 'people' */
} sqlite_index;

typedef struct sqlite_session sqlite_session;

typedef struct sqlite_database {
    mem_context *memory; /* of what is made at the start */
    const char *path;
    sqlite_index *indexes; /* constant once it is open */
    size_t index_count;
    unsigned readers; /* sessions that read, at the most */
    dev_t device;     /* of the file that was opened at the start; not in memory */
    ino_t inode;
    atomic_bool told;       /* the log says why no session can be opened */
    atomic_bool hurried;    /* nothing waits any longer */
    sqlite_session *shared; /* in memory: the one session; else NULL */
    pthread_mutex_t turn;   /* in memory: guards it, from one operation or batch to its end */
} sqlite_database;

typedef enum {
    SQL_BEGIN,
    SQL_BEGIN_WRITING,
    SQL_COMMIT,
    SQL_ROLLBACK,
    SQL_SAVEPOINT,
    SQL_RELEASE,
    SQL_ROLLBACK_TO,
    SQL_GET,
    SQL_GET_MANY,
    SQL_FIND,
    SQL_INSERT,
    SQL_REPLACE,
    SQL_DELETE,
    SQL_CLEAR,
    SQL_COLLECTIONS,
    SQL_COUNT,
    SQL_ADD_TO_COUNT,
    SQL_DROP_COUNT,
    SQL_DROP_EMPTY,
    SQL_LAST_REVISION,
    SQL_SET_REVISION,
    SQL_FIND_KEY,
    SQL_KEEP_KEY,
    SQL_EXPIRE_KEYS,
    SQL_STATEMENTS
} sqlite_statement;

#define SQLITE_LISTS_KEPT 16

struct sqlite_session {
    sqlite_database *database;
    mem_context *memory; /* of this struct */
    sqlite3 *db;
    sqlite3_stmt *fixed[SQL_STATEMENTS];
    sqlite3_stmt *lists[SQLITE_LISTS_KEPT]; /* of lists, the last used first */
    int64_t deadline_ms;                    /* of what is done now; 0: none */
    bool reading;                           /* what is done now is ended at the deadline */
    bool broken;                            /* of no more use */
    bool ailing;                            /* its last operation failed, which has been logged */
    int wal_pages;                          /* of the log, after the last commit */
    int checkpoint_at;                      /* when it has so many, it is copied into the file */
    int64_t looked_ms;                      /* when the file was last looked for */
    int64_t expired_ms;                     /* when keys were last looked through */
};

/* sqlite.c. Ready to be bound; NULL: no memory, or the schema is not ours. */
sqlite3_stmt *sqlite_prepared(sqlite_session *session, sqlite_statement which);
/* SQLite's code for that. */
int sqlite_no_statement(sqlite_session *session);
bool sqlite_bind_text(sqlite3_stmt *statement, int at, store_text text);
bool sqlite_bind_bytes(sqlite3_stmt *statement, int at, store_text bytes);
bool sqlite_bind_integer(sqlite3_stmt *statement, int at, int64_t n);
/* Steps one that returns no rows, and lets go of what is bound. Returns SQLite's code. */
int sqlite_finish(sqlite3_stmt *statement);
/* The same of one to which nothing is bound. */
int sqlite_run(sqlite_session *session, sqlite_statement which);
/* Begins a transaction, once there is what ends it: that must not fail for want of memory then. */
int sqlite_begin(sqlite_session *session, sqlite_statement which);
/* Ends a transaction that is still open; if that fails too, the session is given up. */
void sqlite_roll_back(sqlite_session *session);
/* Copies a column into the operation's memory. false: no memory. */
bool sqlite_copy_column(store_op *op, sqlite3_stmt *statement, int column, store_text *ret_text);
/* What SQLite's code means to the one who asked. */
store_status sqlite_explain(int rc, const char **ret_sentence);
/* Judges a failure: whether the session is of use after it, and whether it is news. */
void sqlite_note_failure(sqlite_session *session, int rc);
void sqlite_answer_failure(store_op *op, store_status status, const char *sentence);
/* SQLite's code if the path no longer leads to the file that was opened; a file without a name can be
 * written to, and what is written goes with it. Looks at once, or if it has not for a while. */
int sqlite_look_for_file(sqlite_session *session, bool now);
/* In memory, all threads have the same session. */
void sqlite_take_turn(sqlite_session *session);
void sqlite_end_turn(sqlite_session *session);
/* After so many pages more, the log is copied into the file. */
#define SQLITE_WAL_PAGES 4000

/* sqlite_read.c, sqlite_write.c: of the backend's table. */
void sqlite_read(void *session, store_op *const ops[], size_t count);
void sqlite_write(void *session, store_op *const ops[], size_t count);
void sqlite_tidy(void *session);

/* sqlite_schema.c. Takes the declared indexes from their list, into the database. */
bool sqlite_read_indexes(sqlite_database *database, const char *list, char error[STORE_ERROR_MAX]);
/* Makes or migrates the schema, and makes the declared indexes; refuses files that are not ours. */
bool sqlite_make_schema(sqlite3 *db, const sqlite_database *database, char error[STORE_ERROR_MAX]);

/* sqlite_list.c. The SQL functions that compare values; SQLite's code. */
int sqlite_add_functions(sqlite3 *db);
/* Answers a LIST; SQLite's code if that fails. */
int sqlite_list(sqlite_session *session, store_op *op);

#endif
