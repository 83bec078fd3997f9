/* What the rest of server/json/ asks of bridge.c. */
#ifndef SLATE_JSON_BRIDGE_H
#define SLATE_JSON_BRIDGE_H

#include <stdbool.h>

/* Whether an allocation of jansson's was refused on this thread since the last call. jansson does
 * not always say so itself: it drops characters when its token buffer cannot grow. Always false
 * while the hooks are not installed. */
bool json_bridge_take_refusal(void);

#endif
