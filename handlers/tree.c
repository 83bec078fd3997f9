/* Measuring, comparing and copying JSON trees, through jansson's public API. */
#include "tree.h"

#include <math.h>
#include <string.h>

static unsigned greater(unsigned a, unsigned b)
{
    return a > b ? a : b;
}

unsigned tree_depth(json_t *value)
{
    unsigned below = 0;
    if (json_is_array(value)) {
        size_t count = json_array_size(value);
        for (size_t i = 0; i < count; i++)
            below = greater(below, tree_depth(json_array_get(value, i)));
    } else if (json_is_object(value)) {
        for (void *i = json_object_iter(value); i; i = json_object_iter_next(value, i))
            below = greater(below, tree_depth(json_object_iter_value(i)));
    } else {
        return 0;
    }
    return below + 1;
}

/* ---- Equality -------------------------------------------------------------------------------- */

static bool equal_numbers(const json_t *a, const json_t *b)
{
    if (json_is_integer(a) && json_is_integer(b))
        return json_integer_value(a) == json_integer_value(b);
    if (json_is_real(a) && json_is_real(b))
        return json_real_value(a) == json_real_value(b);
    json_int_t integer = json_integer_value(json_is_integer(a) ? a : b);
    double real = json_real_value(json_is_real(a) ? a : b);
    /* Both bounds are exact as doubles; a whole real between them is exact as an integer. */
    return real >= -0x1p63 && real < 0x1p63 && real == trunc(real) && (json_int_t)real == integer;
}

static bool equal_arrays(json_t *a, json_t *b)
{
    size_t count = json_array_size(a);
    if (count != json_array_size(b))
        return false;
    for (size_t i = 0; i < count; i++) {
        if (!tree_equal(json_array_get(a, i), json_array_get(b, i)))
            return false;
    }
    return true;
}

static bool equal_objects(json_t *a, json_t *b)
{
    if (json_object_size(a) != json_object_size(b))
        return false;
    for (void *i = json_object_iter(a); i; i = json_object_iter_next(a, i)) {
        json_t *other = json_object_getn(b, json_object_iter_key(i), json_object_iter_key_len(i));
        if (!other || !tree_equal(json_object_iter_value(i), other))
            return false;
    }
    return true;
}

static bool equal_strings(const json_t *a, const json_t *b)
{
    size_t length = json_string_length(a);
    return length == json_string_length(b) &&
           memcmp(json_string_value(a), json_string_value(b), length) == 0;
}

bool tree_equal(json_t *a, json_t *b)
{
    if (json_is_number(a) && json_is_number(b))
        return equal_numbers(a, b);
    if (json_typeof(a) != json_typeof(b))
        return false;
    switch (json_typeof(a)) {
    case JSON_OBJECT:
        return equal_objects(a, b);
    case JSON_ARRAY:
        return equal_arrays(a, b);
    case JSON_STRING:
        return equal_strings(a, b);
    default:
        return true; /* true, false and null have no other value */
    }
}

/* ---- Copying --------------------------------------------------------------------------------- */

static tree_result take_bytes(tree_allowance *left, size_t bytes)
{
    if (bytes > left->bytes)
        return TREE_TOO_MANY_BYTES;
    left->bytes -= bytes;
    return TREE_COPIED;
}

static tree_result copy_elements(json_t *array, tree_allowance *left, json_t *target)
{
    size_t count = json_array_size(array);
    for (size_t i = 0; i < count; i++) {
        json_t *element;
        tree_result result = tree_copy(json_array_get(array, i), left, &element);
        if (result != TREE_COPIED)
            return result;
        if (json_array_append_new(target, element) != 0)
            return TREE_NO_MEMORY;
    }
    return TREE_COPIED;
}

static tree_result copy_members(json_t *object, tree_allowance *left, json_t *target)
{
    for (void *i = json_object_iter(object); i; i = json_object_iter_next(object, i)) {
        const char *key = json_object_iter_key(i);
        size_t length = json_object_iter_key_len(i);
        json_t *member;
        tree_result result = take_bytes(left, length);
        if (result == TREE_COPIED)
            result = tree_copy(json_object_iter_value(i), left, &member);
        if (result != TREE_COPIED)
            return result;
        if (json_object_setn_new_nocheck(target, key, length, member) != 0)
            return TREE_NO_MEMORY;
    }
    return TREE_COPIED;
}

tree_result tree_copy(json_t *value, tree_allowance *left, json_t **ret_copy)
{
    json_t *copy = NULL;
    tree_result result = TREE_COPIED;
    if (left->nodes == 0)
        return TREE_TOO_MANY_NODES;
    left->nodes--;

    switch (json_typeof(value)) {
    case JSON_OBJECT:
        copy = json_object();
        result = copy ? copy_members(value, left, copy) : TREE_NO_MEMORY;
        break;
    case JSON_ARRAY:
        copy = json_array();
        result = copy ? copy_elements(value, left, copy) : TREE_NO_MEMORY;
        break;
    case JSON_STRING:
        result = take_bytes(left, json_string_length(value));
        if (result == TREE_COPIED)
            copy = json_stringn_nocheck(json_string_value(value), json_string_length(value));
        break;
    case JSON_INTEGER:
        copy = json_integer(json_integer_value(value));
        break;
    case JSON_REAL:
        copy = json_real(json_real_value(value));
        break;
    case JSON_TRUE:
    case JSON_FALSE:
    case JSON_NULL:
        copy = value; /* jansson has one of each */
        break;
    }
    if (result == TREE_COPIED && !copy)
        result = TREE_NO_MEMORY;
    if (result == TREE_COPIED)
        *ret_copy = copy;
    else
        json_decref(copy);
    return result;
}
