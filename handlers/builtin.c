/* What the program is made of: the document API, its description, and the routes here. */
#include "builtin.h"
#include "db/db.h"
#include "openapi.h"

static const slate_route routes[] = {
    {.path = "/json",
     .on[SLATE_GET] = basic_json,
     .summary = "Says hello in JSON, written without a tree."},
    {.path = "/plaintext",
     .on[SLATE_GET] = basic_plaintext,
     .summary = "Says hello in plain text, from constant memory."},
    {.path = "/echo",
     .on[SLATE_POST] = echo,
     .consumes[SLATE_POST] = "application/json",
     .summary = "Parses the body and writes it back; with Prefer: return=minimal only checks it."},
    {.path = "/transfer",
     .on[SLATE_POST] = transfer,
     .consumes[SLATE_POST] = "application/json",
     .summary = "Takes a transfer of money and answers with a receipt."},
    {.path = "/transform/patch",
     .on[SLATE_POST] = transform_patch,
     .consumes[SLATE_POST] = "application/json",
     .summary = "Applies a JSON Patch (RFC 6902) to a document."},
    {.path = "/transform/merge",
     .on[SLATE_POST] = transform_merge,
     .consumes[SLATE_POST] = "application/json",
     .summary = "Applies a JSON Merge Patch (RFC 7396) to a document."},
    {.path = NULL},
};

const slate_module builtin_module = {.name = "builtin", .routes = routes};

const slate_module *const builtin_modules[] = {&builtin_module, &db_module, &openapi_module, NULL};
