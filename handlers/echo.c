/* /echo: parses the body and writes it back, or only says that it is good. */
#include "builtin.h"
#include "field.h"

slate_result echo(slate_request *req)
{
    json_t *doc = slate_body_json(req);
    if (!doc)
        return SLATE_ANSWERED;
    if (field_prefers(slate_header(req, "Prefer"), "return", "minimal")) {
        slate_set_header(req, "Preference-Applied", "return=minimal");
        return slate_answer_empty(req, 204);
    }
    return slate_answer_json(req, 200, doc);
}
