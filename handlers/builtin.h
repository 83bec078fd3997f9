/* The built-in API: the modules of the program, and the handlers that need nothing kept. */
#ifndef SLATE_BUILTIN_H
#define SLATE_BUILTIN_H

#include "../server/slate.h"

extern const slate_module builtin_module;           /* the handlers below */
extern const slate_module *const builtin_modules[]; /* all of the program, ended by NULL */

/* basic.c: TechEmpower's two smallest answers. */
slate_handler basic_json, basic_plaintext;
/* echo.c: the body, parsed and written again. */
slate_handler echo;
/* plugins/transfer.c: a transfer of money, answered with a receipt. */
slate_handler transfer;
/* transform.c: {"doc": …, "patch": …}, answered with the changed document. */
slate_handler transform_patch, transform_merge;

#endif
