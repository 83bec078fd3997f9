/* The statements of the PostgreSQL backend that do not depend on what is asked: prepared once on each
 * connection. Each checks its condition itself, on the row as it is when it is locked, so that they are
 * right whoever else writes. A revision is drawn from the sequence after the row has been locked: a
 * document's revisions grow. */
#include "postgresql.h"

/* Not rounded: a date of modification must not lie in the future. */
#define NOW "floor(extract(epoch FROM clock_timestamp()))::bigint"
#define REVISION "nextval('slate_revision')"

/* `made` is the revision at which the document came into being: the same as its revision when a PUT
 * has made it. */
#define PUT_NEW                                                                         \
    "INSERT INTO slate_documents AS d (collection, id, revision, made, modified, body)" \
    " SELECT $1, $2, r, r, " NOW ", $3 FROM " REVISION " AS r ON CONFLICT (collection, id) DO "
#define PUT_OVER "UPDATE SET revision = " REVISION ", modified = " NOW ", body = excluded.body"
#define PUT_OLD                                                                              \
    "UPDATE slate_documents AS d SET revision = " REVISION ", modified = " NOW ", body = $3" \
    " WHERE collection = $1 AND id = $2"
#define PUT_RESULT " RETURNING revision, revision = made"
#define DELETE "DELETE FROM slate_documents WHERE collection = $1 AND id = $2"

/* What an insertion is of, and the place of the first document whose id is taken, by one that is
 * stored or by one before it. If an id is taken at the same moment, the statement fails. */
#define INSERT_INPUT                                                                             \
    "WITH input AS (SELECT id, body, place FROM unnest($2::text[], $3::text[])"                  \
    " WITH ORDINALITY AS i (id, body, place)),"                                                  \
    " taken AS (SELECT min(place) AS place FROM ("                                               \
    "SELECT place FROM input JOIN slate_documents AS d ON d.collection = $1 AND d.id = input.id" \
    " UNION ALL SELECT place FROM (SELECT place, row_number() OVER (PARTITION BY id"             \
    " ORDER BY place) AS nth FROM input) AS counted WHERE nth > 1) AS t),"                       \
    " drawn AS MATERIALIZED (SELECT " REVISION " AS revision"                                    \
    " WHERE (SELECT place FROM taken) IS NULL),"
#define INSERT_MADE(source)                                                                  \
    " made AS (INSERT INTO slate_documents (collection, id, revision, made, modified, body)" \
    " SELECT $1::text, id, revision, revision, " NOW ", body FROM input, " source            \
    " ORDER BY id COLLATE \"C\")"                                                            \
    " SELECT (SELECT place FROM taken), (SELECT revision FROM " source ")"

#define TEXT_OF(x) #x
#define NUMBER_TEXT(macro) TEXT_OF(macro)

const char *const pg_sql[PG_STATEMENTS] = {
    [PG_GET] = "SELECT body, revision, modified FROM slate_documents"
               " WHERE collection = $1 AND id = $2",
    [PG_COLLECTIONS] = "SELECT collection, count(*), sum(octet_length(body))"
                       " FROM slate_documents GROUP BY collection ORDER BY collection",
    [PG_PUT] = PUT_NEW PUT_OVER PUT_RESULT,
    [PG_PUT_ABSENT] = PUT_NEW "NOTHING" PUT_RESULT,
    [PG_PUT_PRESENT] = PUT_OLD PUT_RESULT,
    [PG_PUT_ONE_OF] = PUT_OLD " AND d.revision = ANY ($4::bigint[])" PUT_RESULT,
    [PG_PUT_NONE_OF] = PUT_NEW PUT_OVER " WHERE d.revision <> ALL ($4::bigint[])" PUT_RESULT,
    [PG_DELETE] = DELETE " RETURNING revision",
    [PG_DELETE_ONE_OF] = DELETE " AND revision = ANY ($3::bigint[]) RETURNING revision",
    [PG_DELETE_NONE_OF] = DELETE " AND revision <> ALL ($3::bigint[]) RETURNING revision",
    [PG_LOOK] = "SELECT revision FROM slate_documents WHERE collection = $1 AND id = $2",
    [PG_INSERT] = INSERT_INPUT INSERT_MADE("drawn"),
    [PG_INSERT_KEYED] = INSERT_INPUT
    " claimed AS (INSERT INTO slate_answers (key, fingerprint, revision, answer)"
    " SELECT $4, $5::bytea, revision, $6::bytea FROM drawn ON CONFLICT DO NOTHING RETURNING revision)," INSERT_MADE(
        "claimed"),
    [PG_RECALL] = "SELECT fingerprint, answer, revision::text FROM slate_answers WHERE key = $1",
    [PG_CLEAR] = "DELETE FROM slate_documents WHERE collection = $1",
    /* Those that another process is at already are left to it. */
    [PG_FORGET] = "DELETE FROM slate_answers WHERE key IN (SELECT key FROM slate_answers"
                  " WHERE since < now() - interval '1 day' ORDER BY since"
                  " LIMIT " NUMBER_TEXT(PG_FORGET_MAX) " FOR UPDATE SKIP LOCKED)",
};
