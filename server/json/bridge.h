/* What the rest of server/json/ asks of bridge.c. */
#ifndef SLATE_JSON_BRIDGE_H
#define SLATE_JSON_BRIDGE_H

#include <stdbool.h>

/* Between these two, the first allocation of jansson's that is refused on this thread makes all later
 * ones fail. Its parser needs that to be safe: it drops a character when its token buffer cannot
 * grow, be it the quote that ends a string, and would go on with what lies behind the buffer.
 * Without the hooks they do nothing. */
void json_bridge_begin_reading(void);
/* Returns whether an allocation was refused. */
bool json_bridge_end_reading(void);

#endif
