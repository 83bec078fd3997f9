/* JSON Patch (RFC 6902), in place. The whole patch is checked first, so that a malformed one changes
 * nothing; then its operations are applied one by one. The document stays a tree all along: a value
 * is moved into it or copied, never shared, so that no operation can change two places or make a
 * cycle. Recursion is bounded by PATCH_DEPTH_MAX, which every insertion keeps. */
#include "patch.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "pointer.h"
#include "tree.h"

#define SNIPPET_MAX 80  /* bytes of a pointer that are shown in a sentence */
#define MEASURES_MAX 64 /* times that moves may have the whole document measured */

typedef enum { ADD, REMOVE, REPLACE, MOVE, COPY, TEST, KINDS } kind;

static const struct {
    const char *name;
    bool from, value; /* members needed besides op and path */
} kinds[KINDS] = {
    [ADD] = {"add", .value = true},  [REMOVE] = {"remove"},
    [MOVE] = {"move", .from = true}, [REPLACE] = {"replace", .value = true},
    [COPY] = {"copy", .from = true}, [TEST] = {"test", .value = true},
};

typedef struct operation {
    size_t index;
    kind kind; /* KINDS: not known yet */
    pointer path, from;
    json_t *object; /* borrowed from the patch */
} operation;

typedef struct run {
    mem_context *ctx;
    patch_problem *problem;
    json_t *holder;
    pointer_token root;  /* the holder's member that is the document */
    tree_allowance left; /* for copies */
    unsigned depth;      /* the document is nested no deeper */
    unsigned measures;   /* left */
    const operation *now;
} run;

/* Where a value stands or shall stand. */
typedef struct place {
    json_t *parent;
    pointer_token token;
} place;

/* ---- Problems -------------------------------------------------------------------------------- */

/* Fills in the problem: that operation, or (NULL) the whole patch; `member` of it may be NULL.
 * Always false, so that it can be returned. */
static __attribute__((format(printf, 5, 6))) bool fail(patch_problem *problem, patch_status status,
                                                       const operation *op, const char *member,
                                                       const char *format, ...)
{
    char *at = problem->detail, *end = at + sizeof problem->detail;
    problem->status = status;
    if (op) {
        bool known = op->kind < KINDS;
        snprintf(problem->pointer, sizeof problem->pointer, "/%zu%s%s", op->index,
                 member ? "/" : "", member ? member : "");
        at += snprintf(at, (size_t)(end - at), "Operation %zu%s%s%s: ", op->index,
                       known ? " (" : "", known ? kinds[op->kind].name : "", known ? ")" : "");
    }
    va_list args;
    va_start(args, format);
    vsnprintf(at, (size_t)(end - at), format, args);
    va_end(args);
    return false;
}

static bool no_memory(const run *r)
{
    return fail(r->problem, PATCH_MEMORY, r->now, NULL, "there is not enough memory.");
}

static bool over_limit(const run *r, size_t limit, const char *what)
{
    r->problem->limit = limit;
    return fail(r->problem, PATCH_LIMIT, r->now, NULL, "%s; the limit is %zu.", what, limit);
}

/* For "%.*s": as much of the pointer as is shown, not cut within a UTF-8 character. */
static int shown(pointer p)
{
    size_t length = (size_t)(p.end - p.at);
    if (length > SNIPPET_MAX) {
        length = SNIPPET_MAX;
        while (length > 0 && ((unsigned char)p.at[length] & 0xC0) == 0x80)
            length--;
    }
    return (int)length;
}

static bool no_place(const run *r, const char *member, pointer p)
{
    return fail(r->problem, PATCH_IMPOSSIBLE, r->now, member, "the document has no place \"%.*s\".",
                shown(p), p.at);
}

/* ---- Checking the patch ----------------------------------------------------------------------- */

static kind kind_named(const json_t *name)
{
    kind k = 0;
    while (k < KINDS && !(json_is_string(name) && /* lengths too: a name may contain NUL */
                          strlen(kinds[k].name) == json_string_length(name) &&
                          strcmp(kinds[k].name, json_string_value(name)) == 0))
        k++;
    return k;
}

static bool parse_pointer(const operation *op, const char *member, pointer *ret_pointer,
                          patch_problem *problem)
{
    const json_t *value = json_object_get(op->object, member);
    if (!json_is_string(value))
        return fail(problem, PATCH_MALFORMED, op, member,
                    "\"%s\" must be a string, a JSON Pointer.", member);
    const char *text = json_string_value(value);
    pointer p = {text, text + json_string_length(value)};
    if (!pointer_valid(p))
        return fail(
            problem, PATCH_MALFORMED, op, member,
            "\"%.*s\" is no JSON Pointer; that is empty or starts with '/', and has '~' only "
            "in ~0 and ~1.",
            shown(p), text);
    *ret_pointer = p;
    return true;
}

static bool parse_operation(operation *op, patch_problem *problem)
{
    if (!json_is_object(op->object))
        return fail(problem, PATCH_MALFORMED, op, NULL, "it must be an object.");
    op->kind = kind_named(json_object_get(op->object, "op"));
    if (op->kind == KINDS)
        return fail(problem, PATCH_MALFORMED, op, "op",
                    "\"op\" must be \"add\", \"remove\", \"replace\", \"move\", \"copy\" or "
                    "\"test\".");
    if (!parse_pointer(op, "path", &op->path, problem))
        return false;
    if (kinds[op->kind].from && !parse_pointer(op, "from", &op->from, problem))
        return false;
    if (kinds[op->kind].value && !json_object_get(op->object, "value"))
        return fail(problem, PATCH_MALFORMED, op, "value", "it must have a \"value\".");
    return true;
}

/* ---- Places ----------------------------------------------------------------------------------- */

/* Walks to the parent of what `p` names; that itself need not exist. */
static bool find(run *r, const char *member, pointer p, place *ret_place)
{
    place at = {r->holder, r->root};
    pointer rest = p;
    while (rest.at < rest.end) {
        at.parent = pointer_get(at.parent, at.token);
        if (!at.parent)
            return no_place(r, member, p);
        if (!pointer_next(&rest, r->ctx, &at.token))
            return no_memory(r);
    }
    *ret_place = at;
    return true;
}

/* The same for a value that must exist; it is borrowed. NULL: failed. */
static json_t *find_value(run *r, const char *member, pointer p, place *ret_place)
{
    if (!find(r, member, p, ret_place))
        return NULL;
    json_t *value = pointer_get(ret_place->parent, ret_place->token);
    if (!value)
        no_place(r, member, p);
    return value;
}

/* Takes the value at a place, where there is one, out of the document. */
static void take_out(place at)
{
    size_t index;
    if (json_is_object(at.parent))
        json_object_deln(at.parent, at.token.text, at.token.length);
    else if (pointer_index(at.token, &index))
        json_array_remove(at.parent, index);
}

/* Puts `value`, a reference that it takes, where the operation's path says: a new or changed member,
 * or a new element that moves the later ones up. */
static bool put_in(run *r, json_t *value)
{
    pointer path = r->now->path;
    place at;
    size_t index;
    if (!find(r, "path", path, &at)) {
        json_decref(value);
        return false;
    }
    if (json_is_array(at.parent)) {
        if (at.token.length == 1 && *at.token.text == '-')
            return json_array_append_new(at.parent, value) == 0 || no_memory(r);
        if (pointer_index(at.token, &index) && index <= json_array_size(at.parent))
            return json_array_insert_new(at.parent, index, value) == 0 || no_memory(r);
    } else if (json_is_object(at.parent)) {
        if (!memchr(at.token.text, '\0', at.token.length))
            return json_object_setn_new_nocheck(at.parent, at.token.text, at.token.length, value) ==
                       0 ||
                   no_memory(r);
        json_decref(value);
        return fail(r->problem, PATCH_IMPOSSIBLE, r->now, "path",
                    "a key must not contain \\u0000.");
    }
    json_decref(value);
    return no_place(r, "path", path);
}

/* ---- Operations ------------------------------------------------------------------------------- */

/* The operation's value, taken out of the patch: a reference of the caller's. */
static json_t *take_value(const operation *op)
{
    json_t *value = json_incref(json_object_get(op->object, "value"));
    json_object_del(op->object, "value");
    return value;
}

/* Whether a value nested `depth` deep may stand at the operation's path. */
static bool check_depth(run *r, unsigned depth)
{
    size_t above = pointer_depth(r->now->path);
    if (above > PATCH_DEPTH_MAX || depth > PATCH_DEPTH_MAX - above)
        return over_limit(r, PATCH_DEPTH_MAX, "the document becomes nested too deep");
    if (r->depth < above + depth)
        r->depth = (unsigned)above + depth;
    return true;
}

static bool apply_add(run *r)
{
    json_t *value = json_object_get(r->now->object, "value");
    return check_depth(r, tree_depth(value)) && put_in(r, take_value(r->now));
}

static bool apply_remove(run *r)
{
    place at;
    if (!find_value(r, "path", r->now->path, &at))
        return false;
    if (at.parent == r->holder)
        return fail(r->problem, PATCH_IMPOSSIBLE, r->now, "path",
                    "the document as a whole cannot be removed.");
    take_out(at);
    return true;
}

static bool apply_replace(run *r)
{
    json_t *value = json_object_get(r->now->object, "value");
    place at;
    size_t index;
    if (!find_value(r, "path", r->now->path, &at) || !check_depth(r, tree_depth(value)))
        return false;
    value = take_value(r->now);
    if (json_is_array(at.parent) && pointer_index(at.token, &index))
        return json_array_set_new(at.parent, index, value) == 0 || no_memory(r);
    return json_object_setn_new_nocheck(at.parent, at.token.text, at.token.length, value) == 0 ||
           no_memory(r);
}

/* Measuring what is moved at every move would make a thousand moves of a large value expensive. It is
 * nested no deeper than the whole document is below `from`; only if that is too much is it measured,
 * and the document with it, for the moves that follow. */
static bool check_depth_of_move(run *r, json_t *value)
{
    size_t from = pointer_depth(r->now->from), to = pointer_depth(r->now->path);
    unsigned depth = r->depth > from ? r->depth - (unsigned)from : 0;
    if (to + depth > PATCH_DEPTH_MAX && r->measures > 0) {
        r->measures--;
        r->depth = tree_depth(pointer_get(r->holder, r->root));
        depth = tree_depth(value);
    }
    return check_depth(r, depth);
}

static bool apply_move(run *r)
{
    pointer from = r->now->from, to = r->now->path;
    place at;
    json_t *value = find_value(r, "from", from, &at);
    if (!value)
        return false;
    if (pointer_is_prefix(from, to)) {
        if (pointer_is_prefix(to, from))
            return true; /* to where it is */
        return fail(r->problem, PATCH_IMPOSSIBLE, r->now, "path",
                    "a value cannot be moved into itself.");
    }
    if (!check_depth_of_move(r, value))
        return false;
    json_incref(value);
    take_out(at);
    return put_in(r, value);
}

static bool apply_copy(run *r)
{
    place at;
    json_t *copy = NULL, *value = find_value(r, "from", r->now->from, &at);
    if (!value || !check_depth(r, tree_depth(value)))
        return false;
    switch (tree_copy(value, &r->left, &copy)) {
    case TREE_COPIED:
        return put_in(r, copy);
    case TREE_TOO_MANY_NODES:
        return over_limit(r, PATCH_COPIED_NODES_MAX, "too many values are copied by this patch");
    case TREE_TOO_MANY_BYTES:
        return over_limit(r, PATCH_COPIED_BYTES_MAX, "too many bytes are copied by this patch");
    case TREE_NO_MEMORY:
        break;
    }
    return no_memory(r);
}

static bool apply_test(run *r)
{
    pointer path = r->now->path;
    place at;
    json_t *value = find_value(r, "path", path, &at);
    if (!value)
        return false;
    if (tree_equal(value, json_object_get(r->now->object, "value")))
        return true;
    return fail(r->problem, PATCH_TEST_FAILED, r->now, "value",
                "the document has another value at \"%.*s\".", shown(path), path.at);
}

static bool (*const apply[KINDS])(run *r) = {
    [ADD] = apply_add,   [REMOVE] = apply_remove, [REPLACE] = apply_replace,
    [MOVE] = apply_move, [COPY] = apply_copy,     [TEST] = apply_test,
};

bool patch_apply(mem_context *ctx, json_t *holder, const char *key, json_t *patch,
                 patch_problem *ret_problem)
{
    run r = {
        .ctx = ctx,
        .problem = ret_problem,
        .holder = holder,
        .root = {key, strlen(key)},
        .left = {PATCH_COPIED_NODES_MAX, PATCH_COPIED_BYTES_MAX},
        .depth = PATCH_DEPTH_MAX, /* not measured yet */
        .measures = MEASURES_MAX,
    };
    size_t count = json_array_size(patch);

    *ret_problem = (patch_problem){.status = PATCH_DONE};
    if (!json_is_array(patch))
        return fail(ret_problem, PATCH_MALFORMED, NULL, NULL, "A JSON Patch must be an array.");
    if (count > PATCH_OPERATIONS_MAX) {
        ret_problem->limit = PATCH_OPERATIONS_MAX;
        return fail(ret_problem, PATCH_LIMIT, NULL, NULL,
                    "The patch has %zu operations; the limit is %d.", count, PATCH_OPERATIONS_MAX);
    }
    operation *operations = mem_alloc_array(ctx, count, sizeof *operations);
    if (!operations)
        return no_memory(&r);

    for (size_t i = 0; i < count; i++) {
        operations[i] = (operation){.index = i, .kind = KINDS, .object = json_array_get(patch, i)};
        if (!parse_operation(&operations[i], ret_problem))
            return false;
    }
    for (size_t i = 0; i < count; i++) {
        r.now = &operations[i];
        if (!apply[r.now->kind](&r))
            return false;
    }
    return true;
}

slate_result patch_answer(slate_request *req, const patch_problem *problem, const char *at)
{
    static const struct {
        int status;
        const char *type;
    } answers[] = {
        [PATCH_MALFORMED] = {400, "patch-malformed"},
        [PATCH_TEST_FAILED] = {409, "patch-test-failed"},
        [PATCH_IMPOSSIBLE] = {422, "patch-impossible"},
        [PATCH_LIMIT] = {422, "patch-limit"},
    };
    if (problem->status == PATCH_MEMORY)
        return slate_answer_no_memory(req);
    slate_where where = {
        .json_pointer = mem_printf(slate_request_context(req), NULL, "%s%s", at, problem->pointer),
        .limit = problem->limit,
    };
    return slate_answer_problem(req, answers[problem->status].status, answers[problem->status].type,
                                &where, "%s", problem->detail);
}
