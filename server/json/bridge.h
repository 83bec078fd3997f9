/* What the rest of server/json/ asks of bridge.c. */
#ifndef SLATE_JSON_BRIDGE_H
#define SLATE_JSON_BRIDGE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

/* json_loadb, left for good at the first allocation that the current context refuses: jansson's
 * scanner drops a character when its token buffer cannot grow, and then fails an assertion or goes
 * on with what lies behind the buffer. NULL with *ret_refused: that has happened, and what jansson
 * had allocated waits for the reset of the context. Without the hooks it is json_loadb. */
json_t *json_bridge_load(const char *text, size_t size, size_t flags, json_error_t *ret_error,
                         bool *ret_refused);

#endif
