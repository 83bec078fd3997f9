/* The program: the server with the built-in API. */
#include "builtin.h"

int main(int argc, char **argv)
{
    static const slate_module *const modules[] = {&builtin_module, NULL};
    return slate_main(argc, argv, modules);
}
