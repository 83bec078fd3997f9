/* A transfer of money in, a receipt out. What a small handler of a real service does: it checks each
 * member of a document, and answers without building another. The program serves it as POST /transfer
 * (handlers/builtin.c); built alone it is a plugin, which serves POST /transfers. */
#include <slate/slate.h>

#include <stdlib.h>
#include <string.h>
#include <time.h>

slate_handler transfer;

/* ---- What the body must hold ----------------------------------------------------------------- */

/* In the order in which they are looked for: an object before what is inside. */
enum {
    BODY,
    FROM,
    FROM_ID,
    FROM_FIRST_NAME,
    FROM_LAST_NAME,
    FROM_ADDRESS,
    FROM_STREET,
    FROM_CITY,
    FROM_STATE,
    FROM_ZIP,
    FROM_EMAIL,
    TO,
    TO_ID,
    TO_FIRST_NAME,
    TO_LAST_NAME,
    TO_ADDRESS,
    TO_STREET,
    TO_CITY,
    TO_STATE,
    TO_ZIP,
    TO_EMAIL,
    AMOUNT,
    SEND_ON,
    MEMBERS
};

#define MEMBER(inside, way, name, type)                    \
    {                                                      \
        inside, type, way "/" name, name, sizeof(name) - 1 \
    }

static const struct {
    unsigned inside;
    json_type type;
    const char *pointer, *name;
    size_t length; /* of the name */
} members[MEMBERS] = {
    [BODY] = {BODY, JSON_OBJECT, "", NULL, 0},
    [FROM] = MEMBER(BODY, "", "from", JSON_OBJECT),
    [FROM_ID] = MEMBER(FROM, "/from", "id", JSON_INTEGER),
    [FROM_FIRST_NAME] = MEMBER(FROM, "/from", "firstName", JSON_STRING),
    [FROM_LAST_NAME] = MEMBER(FROM, "/from", "lastName", JSON_STRING),
    [FROM_ADDRESS] = MEMBER(FROM, "/from", "address", JSON_OBJECT),
    [FROM_STREET] = MEMBER(FROM_ADDRESS, "/from/address", "street", JSON_STRING),
    [FROM_CITY] = MEMBER(FROM_ADDRESS, "/from/address", "city", JSON_STRING),
    [FROM_STATE] = MEMBER(FROM_ADDRESS, "/from/address", "state", JSON_STRING),
    [FROM_ZIP] = MEMBER(FROM_ADDRESS, "/from/address", "zip", JSON_STRING),
    [FROM_EMAIL] = MEMBER(FROM, "/from", "email", JSON_STRING),
    [TO] = MEMBER(BODY, "", "to", JSON_OBJECT),
    [TO_ID] = MEMBER(TO, "/to", "id", JSON_INTEGER),
    [TO_FIRST_NAME] = MEMBER(TO, "/to", "firstName", JSON_STRING),
    [TO_LAST_NAME] = MEMBER(TO, "/to", "lastName", JSON_STRING),
    [TO_ADDRESS] = MEMBER(TO, "/to", "address", JSON_OBJECT),
    [TO_STREET] = MEMBER(TO_ADDRESS, "/to/address", "street", JSON_STRING),
    [TO_CITY] = MEMBER(TO_ADDRESS, "/to/address", "city", JSON_STRING),
    [TO_STATE] = MEMBER(TO_ADDRESS, "/to/address", "state", JSON_STRING),
    [TO_ZIP] = MEMBER(TO_ADDRESS, "/to/address", "zip", JSON_STRING),
    [TO_EMAIL] = MEMBER(TO, "/to", "email", JSON_STRING),
    [AMOUNT] = MEMBER(BODY, "", "amount", JSON_INTEGER),
    [SEND_ON] = MEMBER(BODY, "", "sendOn", JSON_STRING),
};

static void answer_fault(slate_request *req, unsigned at_fault, const json_t *found)
{
    static const char *const types[] = {
        [JSON_OBJECT] = "an object",   [JSON_ARRAY] = "an array", [JSON_STRING] = "a string",
        [JSON_INTEGER] = "an integer", [JSON_REAL] = "a real",    [JSON_TRUE] = "true",
        [JSON_FALSE] = "false",        [JSON_NULL] = "null",
    };
    const char *pointer = members[at_fault].pointer;
    slate_answer_problem(req, 422, "transfer-body", &(slate_where){.json_pointer = pointer},
                         "%s must be %s, but it is %s.", *pointer ? pointer : "The body",
                         types[members[at_fault].type],
                         found ? types[json_typeof(found)] : "missing");
}

/* false: a problem has been answered. */
static bool find_members(slate_request *req, const json_t *body, const json_t *ret_found[MEMBERS])
{
    ret_found[BODY] = body;
    for (unsigned i = BODY; i < MEMBERS; i++) {
        if (i != BODY)
            ret_found[i] =
                json_object_getn(ret_found[members[i].inside], members[i].name, members[i].length);
        if (!ret_found[i] || json_typeof(ret_found[i]) != members[i].type) {
            answer_fault(req, i, ret_found[i]);
            return false;
        }
    }
    return true;
}

/* ---- The receipt ----------------------------------------------------------------------------- */

/* Writes strings as one, with `between` between them. */
static void write_joined(slate_request *req, json_writer *w, const json_t *const *strings,
                         size_t count, const char *between)
{
    size_t gap = strlen(between), length = 0;
    for (size_t i = 0; i < count; i++)
        length += json_string_length(strings[i]) + gap;
    char *text = mem_alloc_aligned(slate_scratch_context(req), length, 1), *at = text;
    if (!text) { /* the budget is marked: this answer is not sent */
        json_write_null(w);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        memcpy(at, json_string_value(strings[i]), json_string_length(strings[i]));
        at += json_string_length(strings[i]);
        memcpy(at, between, gap);
        at += gap;
    }
    json_write_string(w, text, length - gap);
}

/* The last two digits of `n`, and what stands behind them. */
static char *put_pair(char *at, int n, char behind)
{
    *at++ = (char)('0' + n / 10 % 10);
    *at++ = (char)('0' + n % 10);
    *at++ = behind;
    return at;
}

/* As RFC 3339 has it: 2026-03-14T10:26:53+01:00. strftime would take as long as the rest of the
 * receipt. */
static void write_now(json_writer *w)
{
    char text[32], *at = text;
    struct tm local;
    time_t now = time(NULL);
    if (!localtime_r(&now, &local)) {
        json_write_null(w);
        return;
    }
    int year = local.tm_year + 1900, offset = (int)(local.tm_gmtoff / 60);
    at = put_pair(at, year / 100, '\0') - 1;
    at = put_pair(at, year, '-');
    at = put_pair(at, local.tm_mon + 1, '-');
    at = put_pair(at, local.tm_mday, 'T');
    at = put_pair(at, local.tm_hour, ':');
    at = put_pair(at, local.tm_min, ':');
    at = put_pair(at, local.tm_sec, offset < 0 ? '-' : '+');
    at = put_pair(at, abs(offset) / 60, ':');
    at = put_pair(at, abs(offset) % 60, '\0') - 1;
    json_write_string(w, text, (size_t)(at - text));
}

slate_result transfer(slate_request *req)
{
    const json_t *found[MEMBERS];
    json_t *body = slate_body_json(req);
    if (!body || !find_members(req, body, found))
        return SLATE_ANSWERED;

    json_writer *w = slate_writer(req, 512);
    json_write_begin_object(w);
    json_write_literal_key(w, "from_account");
    write_joined(req, w, &found[FROM_FIRST_NAME], 2, " ");
    json_write_literal_key(w, "to_account");
    write_joined(req, w, &found[TO_FIRST_NAME], 2, " ");
    json_write_literal_key(w, "to_address");
    write_joined(req, w, &found[TO_STREET], 4, ", ");
    json_write_literal_key(w, "created_on");
    write_now(w);
    json_write_literal_key(w, "amount");
    json_write_integer(w, json_integer_value(found[AMOUNT]));
    json_write_end_object(w);
    return slate_answer_written(req, 200);
}

/* ---- As a plugin ------------------------------------------------------------------------------ */

#ifndef TRANSFER_BUILTIN
static const slate_route routes[] = {
    {.path = "/transfers",
     .on[SLATE_POST] = transfer,
     .consumes[SLATE_POST] = "application/json",
     .summary = "Takes a transfer of money and answers with a receipt."},
    {.path = NULL},
};

static const slate_module module = {.name = "transfer", .routes = routes};
SLATE_PLUGIN(module);
#endif
