/* Problems (RFC 9457): the slugs of our own types and their titles, and the phrases of statuses
 * (RFC 9110). A type without a row has its status's phrase for a title. */
#include <string.h>

#include "internal.h"

static const struct {
    const char *slug, *title;
} problems[] = {
    {"bad-request", "The request is malformed"},
    {"not-found", "No such resource"},
    {"method-not-allowed", "The method is not possible here"},
    {"media-type", "The body's media type is not accepted"},
    {"expectation", "The expectation cannot be met"},
    {"body-too-large", "The body is too large"},
    {"request-memory", "The request needs too much memory"},
    {"overloaded", "The server is short of memory"},
    {"transfer-coding", "The transfer coding is not known"},
    {"json-syntax", "The body is not JSON"},
    {"json-duplicate-key", "An object has the same key twice"},
    {"json-refused", "The JSON is valid, but refused"},
    {"json-value", "The answer cannot be expressed in JSON"},
    {"transfer-body", "The body is not a transfer"},
    {"transform-body", "The body is not a document and a patch"},
    {"patch-malformed", "The patch is malformed"},
    {"patch-test-failed", "A test of the patch failed"},
    {"patch-impossible", "The patch does not fit the document"},
    {"patch-limit", "The patch goes beyond a limit"},
    {"db-name", "The name of a collection or document is not allowed"},
    {"db-query", "A parameter of the list is wrong"},
    {"db-cursor", "The list cannot be continued"},
    {"not-acceptable", "No acceptable form of the answer"},
    {"document-not-found", "No such document"},
    {"document-too-large", "The document is too large"},
    {"collection-not-found", "No such collection"},
    {"etag-syntax", "An entity tag is malformed"},
    {"precondition-failed", "The precondition does not hold"},
    {"precondition-required", "A precondition is required"},
    {"bulk-empty", "There is nothing to insert"},
    {"bulk-too-large", "There are too many documents in one request"},
    {"id-exists", "The id is taken"},
    {"no-randomness", "The system gave no random numbers"},
    {"idempotency-key", "The Idempotency-Key is malformed"},
    {"idempotency-key-reused", "The Idempotency-Key belongs to another request"},
    {"store-off", "There is no document store"},
    {"store-busy", "The document store is busy"},
    {"outcome-unknown", "The outcome of the write is not known"},
    {"store-failed", "The document store failed"},
    {"no-answer", "The handler failed"},
};

static const struct {
    int status;
    const char *phrase;
} phrases[] = {
    {200, "OK"},
    {201, "Created"},
    {202, "Accepted"},
    {204, "No Content"},
    {304, "Not Modified"},
    {400, "Bad Request"},
    {401, "Unauthorized"},
    {403, "Forbidden"},
    {404, "Not Found"},
    {405, "Method Not Allowed"},
    {406, "Not Acceptable"},
    {408, "Request Timeout"},
    {409, "Conflict"},
    {412, "Precondition Failed"},
    {413, "Content Too Large"},
    {415, "Unsupported Media Type"},
    {417, "Expectation Failed"},
    {422, "Unprocessable Content"},
    {428, "Precondition Required"},
    {429, "Too Many Requests"},
    {500, "Internal Server Error"},
    {501, "Not Implemented"},
    {503, "Service Unavailable"},
    {507, "Insufficient Storage"},
};

const char *status_phrase(int status)
{
    for (size_t i = 0; i < sizeof phrases / sizeof *phrases; i++)
        if (phrases[i].status == status)
            return phrases[i].phrase;
    return "Unknown";
}

const char *problem_title(const char *slug, int status)
{
    for (size_t i = 0; i < sizeof problems / sizeof *problems; i++)
        if (strcmp(problems[i].slug, slug) == 0)
            return problems[i].title;
    return status_phrase(status);
}
