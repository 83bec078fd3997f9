/* Preconditions: reading and checking them; on a worker's thread. */
#include "condition.h"

#include <string.h>

#include "../date.h"
#include "db.h"

/* ---- Reading ---------------------------------------------------------------------------------- */

/* The revision that an opaque tag names: decimal, as it is printed. */
static uint64_t read_revision(const char *at, const char *end)
{
    uint64_t revision = 0;
    if (at == end || *at == '0')
        return 0;
    for (; at < end; at++) {
        if (*at < '0' || *at > '9' || __builtin_mul_overflow(revision, 10, &revision) ||
            __builtin_add_overflow(revision, (uint64_t)(*at - '0'), &revision))
            return 0;
    }
    return revision;
}

/* One entity tag (section 8.8.3). Returns what is behind it; NULL: there is none. */
static const char *read_etag(const char *at, db_etag *ret_etag)
{
    bool weak = at[0] == 'W' && at[1] == '/';
    at += weak ? 2 : 0;
    if (*at != '"')
        return NULL;
    const char *start = ++at;
    while ((unsigned char)*at >= 0x21 && *at != '"' && *at != 0x7f)
        at++;
    if (*at != '"')
        return NULL;
    *ret_etag = (db_etag){read_revision(start, at), weak};
    return at + 1;
}

static const char *skip_space(const char *at)
{
    return at + strspn(at, " \t");
}

static bool malformed(const char *name, const char *value, db_fault *fault)
{
    return db_fail(fault,
                   "%s is \"%.100s\"; it must be * or a list of entity tags in quotes, as in "
                   "\"17\", \"18\" or W/\"17\".",
                   name, value);
}

static bool read_etags(mem_context *ctx, const char *name, const char *value, db_etags *etags,
                       db_fault *fault)
{
    if (!value)
        return true;
    const char *at = skip_space(value);
    etags->given = true;
    if (*at == '*' && *skip_space(at + 1) == '\0') {
        etags->any = true;
        return true;
    }
    size_t most = 1;
    for (const char *comma = at; (comma = strchr(comma, ',')); comma++)
        most++;
    if (!(etags->tags = mem_alloc_array(ctx, most, sizeof *etags->tags)))
        return db_fail_memory(fault);
    while (*at) {
        if (*at != ',') { /* elements of a list may be empty */
            db_etag *tag = &etags->tags[etags->count];
            at = read_etag(at, tag);
            if (!at)
                return malformed(name, value, fault);
            etags->count++;
        }
        at = skip_space(at);
        if (*at != ',' && *at != '\0')
            return malformed(name, value, fault);
        at = skip_space(at + (*at == ','));
    }
    return etags->count > 0 || malformed(name, value, fault);
}

bool db_conditions_read(mem_context *ctx, const char *match, const char *none_match,
                        const char *modified, const char *unmodified, db_conditions *ret_conditions,
                        db_fault *fault)
{
    db_conditions c = {0};
    if (!read_etags(ctx, "If-Match", match, &c.match, fault) ||
        !read_etags(ctx, "If-None-Match", none_match, &c.none_match, fault))
        return false;
    c.has_modified = modified && !none_match && date_read(modified, &c.modified_since);
    c.has_unmodified = unmodified && !match && date_read(unmodified, &c.unmodified_since);
    *ret_conditions = c;
    return true;
}

bool db_conditions_of(slate_request *req, db_conditions *ret_conditions, db_fault *fault)
{
    return db_conditions_read(slate_scratch_context(req), slate_header(req, "If-Match"),
                              slate_header(req, "If-None-Match"),
                              slate_header(req, "If-Modified-Since"),
                              slate_header(req, "If-Unmodified-Since"), ret_conditions, fault);
}

/* As for a document, but a collection is always there, and has neither entity tag nor date. */
bool db_collection_proceeds(slate_request *req)
{
    db_conditions c;
    db_fault fault = {.limit = 0};
    if (!db_conditions_of(req, &c, &fault)) {
        db_answer_fault(req, "etag-syntax", &fault);
        return false;
    }
    if (c.match.given && !c.match.any) {
        slate_answer_problem(req, 412, "precondition-failed", NULL,
                             "The condition does not hold: a collection has no entity tag; "
                             "If-Match can only be *.");
        return false;
    }
    if (!c.none_match.any)
        return true;
    if (slate_request_method(req) == SLATE_GET)
        slate_answer_empty(req, 304);
    else
        slate_answer_problem(req, 412, "precondition-failed", NULL,
                             "The condition does not hold: a collection is always there.");
    return false;
}

/* ---- Checking ---------------------------------------------------------------------------------- */

/* Whether one of them is the tag of that revision; `weakly` as section 8.8.3.2 has it. */
static bool etags_match(const db_etags *etags, uint64_t revision, bool weakly)
{
    if (revision == 0)
        return false;
    if (etags->any)
        return true;
    for (size_t i = 0; i < etags->count; i++)
        if (etags->tags[i].revision == revision && (weakly || !etags->tags[i].weak))
            return true;
    return false;
}

bool db_conditions_bind(const db_conditions *c)
{
    return c->match.given || c->none_match.given || c->has_unmodified;
}

db_verdict db_conditions_check(const db_conditions *c, uint64_t revision, int64_t modified,
                               bool reading)
{
    if (c->match.given && !etags_match(&c->match, revision, false))
        return DB_PRECONDITION_FAILED;
    if (c->has_unmodified && revision != 0 && modified > c->unmodified_since)
        return DB_PRECONDITION_FAILED; /* section 13.1.4: ignored where there is no date */
    if (c->none_match.given && etags_match(&c->none_match, revision, true))
        return reading ? DB_NOT_MODIFIED : DB_PRECONDITION_FAILED;
    if (c->has_modified && reading && revision != 0 && modified <= c->modified_since)
        return DB_NOT_MODIFIED;
    return DB_PROCEED;
}

/* The revisions among them. */
static bool list_revisions(const db_etags *etags, bool weakly, mem_context *ctx,
                           store_condition *condition, db_fault *fault)
{
    uint64_t *revisions = mem_alloc_array(ctx, etags->count, sizeof *revisions);
    if (!revisions)
        return db_fail_memory(fault);
    for (size_t i = 0; i < etags->count; i++)
        if (etags->tags[i].revision != 0 && (weakly || !etags->tags[i].weak))
            revisions[condition->count++] = etags->tags[i].revision;
    condition->revisions = revisions;
    return true;
}

bool db_conditions_for_store(const db_conditions *c, mem_context *ctx,
                             store_condition *ret_condition, db_fault *fault)
{
    store_condition condition = {.is = STORE_ANY};
    if (c->has_unmodified || (c->match.given && c->none_match.given))
        return false;
    if (c->match.given)
        condition.is = c->match.any ? STORE_PRESENT : STORE_ONE_OF;
    else if (c->none_match.given)
        condition.is = c->none_match.any ? STORE_ABSENT : STORE_NONE_OF;
    if (condition.is == STORE_ONE_OF && !list_revisions(&c->match, false, ctx, &condition, fault))
        return false;
    if (condition.is == STORE_NONE_OF &&
        !list_revisions(&c->none_match, true, ctx, &condition, fault))
        return false;
    *ret_condition = condition;
    return true;
}
