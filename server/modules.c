/* Modules: what the program is made of, and what their routes share. The main thread starts and stops
 * them; the admin listener's asks whether they are ready. */
#include "internal.h"

bool modules_start(server *s)
{
    for (const slate_module *module; (module = s->modules[s->modules_started]);
         s->modules_started++) {
        if (module->start && !module->start(&s->opts))
            return false;
    }
    return true;
}

void modules_stop(server *s)
{
    while (s->modules_started > 0) {
        const slate_module *module = s->modules[--s->modules_started];
        if (module->stop)
            module->stop();
    }
}

bool modules_ready(server *s,
                   void (*visit)(void *arg, const slate_module *module, const char *reason),
                   void *arg)
{
    bool all = true;
    for (const slate_module *const *at = s->modules; *at; at++) {
        if (!(*at)->ready)
            continue;
        const char *reason = "It is not ready.";
        bool ready = (*at)->ready(&reason);
        visit(arg, *at, ready ? NULL : reason);
        all &= ready;
    }
    return all;
}
