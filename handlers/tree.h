/* Measuring, comparing and copying JSON trees. All recurse as deep as the tree is nested, which the
 * caller bounds. */
#ifndef SLATE_TREE_H
#define SLATE_TREE_H

#include "../server/slate.h"

/* Levels of nesting: 0 for a scalar, 1 for []. */
unsigned tree_depth(json_t *value);

/* Equality as RFC 6902 section 4.6 has it: unlike json_equal, numbers are equal if their values are,
 * so that 1 equals 1.0. */
bool tree_equal(json_t *a, json_t *b);

typedef enum {
    TREE_COPIED = 0,
    TREE_TOO_MANY_NODES,
    TREE_TOO_MANY_BYTES,
    TREE_NO_MEMORY
} tree_result;

/* What may still be copied. */
typedef struct tree_allowance {
    size_t nodes; /* values of any kind */
    size_t bytes; /* of keys and strings */
} tree_allowance;

/* Makes a new tree, a reference of the caller's, and takes it off the allowance. Nothing is made if
 * that does not suffice. */
tree_result tree_copy(json_t *value, tree_allowance *left, json_t **ret_copy);

#endif
