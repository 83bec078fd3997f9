/* A program outside the tree, against the installed library: splits a text into words that die
 * together. */
#include <slate/blocks.h>
#include <slate/mem.h>

#include <stdio.h>
#include <string.h>

int main(void)
{
    mem_depot *depot = mem_depot_create();
    mem_blocks *blocks = depot ? mem_blocks_create(depot, 64 * 1024) : NULL;
    mem_context *words = blocks ? mem_arena_create(NULL, "words", blocks) : NULL;
    if (!words)
        return 1;

    const char *text = "what dies together lives together";
    for (size_t length; *text != '\0'; text += length + (text[length] == ' ')) {
        length = strcspn(text, " ");
        char *word = mem_copy_string(words, text, length);
        if (!word)
            return 1;
        printf("%s\n", word);
    }
    fprintf(stderr, "%zu bytes\n", mem_get_stats(words).used);

    mem_delete(words); /* every word at once */
    mem_blocks_delete(blocks);
    mem_depot_delete(depot);
    return 0;
}
