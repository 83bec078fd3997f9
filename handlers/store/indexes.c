/* Reads declarations of indexes, at the start. */
#include "indexes.h"

#include <stdio.h>
#include <string.h>

#define NAME_MAX_SIZE 128

/* What a collection may be called. */
static bool is_name(store_text text)
{
    for (size_t i = 0; i < text.size; i++) {
        char c = text.at[i], lower = (char)(c | 0x20);
        if (!(lower >= 'a' && lower <= 'z') && !(c >= '0' && c <= '9') && !strchr("._~-", c))
            return false;
    }
    return text.size > 0 && text.size <= NAME_MAX_SIZE;
}

bool store_read_pointer(store_text pointer, char *room, store_path *ret_path)
{
    const char *at = pointer.at, *end = at + pointer.size;
    size_t count = 0;
    if (pointer.size == 0 || *at != '/')
        return false;
    while (at < end) { /* at a slash */
        if (count == STORE_PATH_MAX)
            return false;
        store_text *token = &ret_path->token[count++];
        token->at = room;
        for (at++; at < end && *at != '/'; at++) {
            char c = *at;
            if (c == '~') {
                if (++at == end || (*at != '0' && *at != '1'))
                    return false;
                c = *at == '0' ? '~' : '/';
            }
            *room++ = c;
        }
        token->size = (size_t)(room - token->at);
    }
    ret_path->count = count;
    return true;
}

static bool read_index(store_index *index, char *room)
{
    store_text text = index->declared;
    const char *colon = memchr(text.at, ':', text.size);
    if (!colon)
        return false;
    index->collection = (store_text){text.at, (size_t)(colon - text.at)};
    store_text pointer = {colon + 1, text.size - index->collection.size - 1};
    return is_name(index->collection) && store_read_pointer(pointer, room, &index->path);
}

bool store_read_indexes(mem_context *ctx, const char *list, store_index **ret_indexes,
                        size_t *ret_count, char error[STORE_ERROR_MAX])
{
    size_t count = 0, size = list ? strlen(list) : 0;
    const char *copy = size ? mem_copy_string(ctx, list, size) : NULL;
    char *room = mem_alloc(ctx, size);
    store_index *indexes = mem_alloc_array(ctx, STORE_INDEXES_MAX, sizeof *indexes);
    if ((size && !copy) || !room || !indexes) {
        (void)snprintf(error, STORE_ERROR_MAX, "There is no memory for the declared indexes.");
        return false;
    }
    for (const char *at = copy, *end; at; at = *end ? end + 1 : NULL) {
        end = strchrnul(at, ',');
        if (count == STORE_INDEXES_MAX) {
            (void)snprintf(error, STORE_ERROR_MAX, "More than %d indexes are declared.",
                           STORE_INDEXES_MAX);
            return false;
        }
        store_index *index = &indexes[count++];
        index->declared = (store_text){at, (size_t)(end - at)};
        if (!read_index(index, room + (at - copy))) {
            (void)snprintf(error, STORE_ERROR_MAX,
                           "An index is declared as COLLECTION:/JSON/POINTER of up to %d steps, "
                           "such as people:/address/city, and not as \"%.*s\".",
                           STORE_PATH_MAX, end - at < 60 ? (int)(end - at) : 60, at);
            return false;
        }
    }
    *ret_indexes = indexes;
    *ret_count = count;
    return true;
}
