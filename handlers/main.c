/* The program: the server with the built-in API. */
#include "builtin.h"

int main(int argc, char **argv)
{
    return slate_main(argc, argv, builtin_modules);
}
