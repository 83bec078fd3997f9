/* JSON Merge Patch (RFC 7396), in place: what the patch brings is moved, not copied. */
#include "merge.h"

/* Makes `patch` what it would be after merging into nothing: without null members. Arrays are values
 * like any other, and stay as they are. */
static void strip_nulls(json_t *patch)
{
    void *member = json_object_iter(patch); /* NULL: empty, or no object */
    while (member) {
        const char *key = json_object_iter_key(member);
        size_t length = json_object_iter_key_len(member);
        json_t *value = json_object_iter_value(member);
        member = json_object_iter_next(patch, member);
        if (json_is_null(value))
            json_object_deln(patch, key, length);
        else
            strip_nulls(value);
    }
}

/* Both are objects. */
static bool merge_objects(json_t *target, json_t *patch)
{
    for (void *member = json_object_iter(patch); member;
         member = json_object_iter_next(patch, member)) {
        const char *key = json_object_iter_key(member);
        size_t length = json_object_iter_key_len(member);
        json_t *value = json_object_iter_value(member);
        json_t *old = json_object_getn(target, key, length);

        if (json_is_null(value)) {
            if (old)
                json_object_deln(target, key, length);
        } else if (json_is_object(old) && json_is_object(value)) {
            if (!merge_objects(old, value))
                return false;
        } else {
            /* Shared with the patch for the time being; nothing looks at it there again. */
            strip_nulls(value);
            if (json_object_setn_nocheck(target, key, length, value) != 0)
                return false;
        }
    }
    return true;
}

bool merge_apply(json_t *holder, const char *key, json_t *patch)
{
    json_t *target = json_object_get(holder, key);
    if (json_is_object(target) && json_is_object(patch))
        return merge_objects(target, patch);
    strip_nulls(patch);
    return json_object_set_nocheck(holder, key, patch) == 0;
}
