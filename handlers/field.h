/* Header fields that are lists: Prefer and Accept. */
#ifndef SLATE_FIELD_H
#define SLATE_FIELD_H

#include <stdbool.h>

/* Whether a Prefer header (RFC 7240; NULL: there is none) asks for name=value. The first of that name
 * counts. */
bool field_prefers(const char *prefer, const char *name, const char *value);

/* How much an Accept header (RFC 9110, section 12.5.1; NULL: there is none) wants a media type, in
 * thousandths: by the most specific range that it falls under. 0: not at all. */
unsigned field_quality(const char *accept, const char *media_type);

#endif
