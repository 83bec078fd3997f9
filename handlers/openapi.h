/* The OpenAPI description of the program's routes. */
#ifndef SLATE_OPENAPI_H
#define SLATE_OPENAPI_H

#include "../server/slate.h"

extern const slate_module openapi_module;

/* openapi.json, which is compiled into the program: what the route tables do not say. */
extern const char openapi_text[];
extern const size_t openapi_text_size;

#define OPENAPI_ERROR_MAX 200

/* Joins the description with the routes of the modules (ended by NULL): a path gets its summary and
 * its parameters, an operation the media types of its body, and the document the program's version.
 * An operation that is described but has no route, or the other way round, is an error. Works on
 * jansson's heap: no context may be current. NULL: `error` is a sentence. The result is a new
 * reference. */
json_t *openapi_build(const char *text, size_t size, const slate_module *const modules[],
                      char error[static OPENAPI_ERROR_MAX]);

/* Adds the routes of a module that openapi.json does not describe, a plugin's, as far as its table
 * does: paths, summaries, methods, parameters, media types of bodies; the module is their tag. false:
 * `error` is a sentence. Works on jansson's heap, too. */
bool openapi_add(json_t *document, const slate_module *module,
                 char error[static OPENAPI_ERROR_MAX]);

#endif
