/* Why a text was refused, and where: the cold half of reading (explain.c). */
#ifndef SLATE_JSON_EXPLAIN_H
#define SLATE_JSON_EXPLAIN_H

#include "json.h"

/* What a parser knows about a refusal and the text does not show. */
typedef struct json_suspect {
    enum {
        SUSPECT_NONE,
        SUSPECT_DUPLICATE, /* the key that ends at `end` has been there already */
        SUSPECT_MEMORY,    /* an allocation was refused */
        SUSPECT_SIZE       /* longer than the parser can take */
    } kind;
    size_t end; /* offset */
} json_suspect;

/* Finds the first fault: of the grammar of RFC 8259, nesting deeper than `depth` (at most
 * JSON_READ_DEPTH_MAX), or the suspect. Fills in `*ret_problem`; its status is JSON_READ_OK if
 * nothing is wrong. Allocates nothing. */
void json_explain(const char *text, size_t size, unsigned depth, json_suspect suspect,
                  json_read_problem *ret_problem);

#endif
