/* /json and /plaintext: the smallest answers there are, so that what remains is the server. */
#include "builtin.h"

static const char greeting[] = "Hello, World!";

slate_result basic_json(slate_request *req)
{
    json_writer *w = slate_writer(req, 32);
    json_write_begin_object(w);
    json_write_literal_key(w, "message");
    json_write_string(w, greeting, sizeof greeting - 1);
    json_write_end_object(w);
    return slate_answer_written(req, 200);
}

slate_result basic_plaintext(slate_request *req)
{
    return slate_answer_bytes(req, 200, "text/plain", greeting, sizeof greeting - 1);
}
