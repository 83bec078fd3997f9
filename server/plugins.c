/* Plugins: shared objects whose module joins those of the program. Each is checked before its module is
 * used (its constructors, if it has any, have run by then), so that what was built against another slate
 * is refused with a line instead of going wrong in the middle of a request. The main thread loads them before anything listens. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "internal.h"
#include "log.h"

#define RECORD "slate_plugin_record"
#define NAME_MAX_LENGTH 32 /* of a module: it is part of the names of metrics */

static const slate_module *const *all_modules;

const slate_module *const *slate_modules(void)
{
    return all_modules;
}

/* ---- Whether it fits -------------------------------------------------------------------------- */

static bool refuse(const char *file, const char *format, ...) __attribute__((format(printf, 2, 3)));
static bool refuse(const char *file, const char *format, ...)
{
    char why[1024];
    va_list args;
    va_start(args, format);
    int length = vsnprintf(why, sizeof why, format, args);
    va_end(args);
    log_error("Plugin %.512s %s", file, length > 0 ? why : "is refused.");
    return false;
}

static bool check_abi(const char *file, unsigned abi)
{
    if (abi == SLATE_ABI)
        return true;
    return refuse(file,
                  "was built against ABI %u of slate.h, and this is slate %s with ABI %u: build it "
                  "again with this slate's headers%s.",
                  abi, slate_version, SLATE_ABI, abi > SLATE_ABI ? ", or take a newer slate" : "");
}

static bool check_jansson(const char *file, void *object, unsigned built)
{
    int major = (int)(built >> 16), minor = (int)(built >> 8 & 0xff), micro = (int)(built & 0xff);
    if (major != JANSSON_MAJOR_VERSION || jansson_version_cmp(major, minor, micro) < 0)
        return refuse(file,
                      "was built against jansson %d.%d.%d, and this slate runs with %s: build it "
                      "again with that one's header.",
                      major, minor, micro, jansson_version_str());
    const void *its = dlsym(object, "json_object");
    if (its && its != dlsym(RTLD_DEFAULT, "json_object"))
        return refuse(file, "brings a jansson of its own, whose trees slate cannot read: link it "
                            "with -ljansson, or with no jansson at all.");
    return true;
}

static bool is_token(const char *name)
{
    size_t length = strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_");
    return length > 0 && length <= NAME_MAX_LENGTH && name[length] == '\0';
}

/* Whether the figures of a module of that name could be taken for the program's: slate_NAME_… */
static bool is_family(const char *name)
{
    static const char *const families[] = {"access", "block",  "build",   "connections",
                                           "live",   "malloc", "requests"};
    for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
        size_t length = strlen(families[i]);
        if (strncmp(name, families[i], length) == 0 &&
            (name[length] == '_' || name[length] == '\0'))
            return true;
    }
    return false;
}

static bool check_module(const server *s, const char *file, const slate_module *module)
{
    if (!module || !module->name || !is_token(module->name))
        return refuse(file, "has no module with a name of 1 to %d letters (a to z), digits and _.",
                      NAME_MAX_LENGTH);
    if (is_family(module->name))
        return refuse(file, "has a module \"%s\", and slate's own metrics begin with slate_%s.",
                      module->name, module->name);
    if (!module->routes || !module->routes->path)
        return refuse(file, "has a module \"%s\" without a route.", module->name);
    for (const slate_module *const *at = s->modules; *at; at++) {
        if (strcmp((*at)->name, module->name) != 0)
            continue;
        const char *where = "the program";
        for (unsigned i = 0; i < s->plugin_count; i++)
            if (s->plugins[i].module == *at)
                where = s->plugins[i].file;
        return refuse(file, "has a module \"%s\", and so has %.512s: a name belongs to one.",
                      module->name, where);
    }
    return true;
}

static bool check_record(const char *file, void *object, const slate_plugin *record)
{
    static const slate_plugin own = {.layout = SLATE_LAYOUT};
    if (!check_abi(file, record->abi))
        return false;
    if (memcmp(record->layout, own.layout, sizeof own.layout) != 0)
        return refuse(file,
                      "was built against another slate.h with the same ABI %u: its structs differ; "
                      "build it again with this slate's headers.",
                      SLATE_ABI);
    if (record->asan != MEM_ASAN)
        return refuse(file, "was built %s AddressSanitizer, and this slate %s: build both alike.",
                      record->asan ? "with" : "without", MEM_ASAN ? "with it" : "without it");
    return check_jansson(file, object, record->jansson);
}

/* ---- Loading ---------------------------------------------------------------------------------- */

/* Whether every part of the file that would be mapped is there: of one that was cut short, the first
 * touch behind its end would be the process's. */
static bool is_whole(int fd, const ElfW(Ehdr) * header)
{
    struct stat about;
    if (fstat(fd, &about) != 0)
        return false;
    uint64_t size = (uint64_t)about.st_size;
    for (unsigned i = 0; i < header->e_phnum; i++) {
        ElfW(Phdr) part;
        off_t at = (off_t)(header->e_phoff + (uint64_t)i * sizeof part);
        if (pread(fd, &part, sizeof part, at) != (ssize_t)sizeof part ||
            (part.p_type == PT_LOAD &&
             (part.p_filesz > size || part.p_offset > size - part.p_filesz)))
            return false;
    }
    return true;
}

/* What dlopen says of any other file is of little help. */
static bool check_object(int fd, const char *file)
{
    ElfW(Ehdr) header, own;
    int program = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    bool known = program >= 0 && read(program, &own, sizeof own) == (ssize_t)sizeof own;
    if (program >= 0)
        close(program);
    ssize_t size = read(fd, &header, sizeof header);
    if (size < 0)
        return refuse(file, "cannot be read: %s.", strerror(errno));
    if (size != (ssize_t)sizeof header || memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 ||
        header.e_phentsize != sizeof(ElfW(Phdr)))
        return refuse(file, "is not a shared object.");
    if (known &&
        (header.e_ident[EI_CLASS] != own.e_ident[EI_CLASS] ||
         header.e_ident[EI_DATA] != own.e_ident[EI_DATA] || header.e_machine != own.e_machine))
        return refuse(file, "was built for another kind of machine.");
    return is_whole(fd, &header) || refuse(file, "is not whole: it has been cut short.");
}

static bool is_object(const char *file, const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return refuse(file, "cannot be read: %s.", strerror(errno));
    bool fits = check_object(fd, file);
    close(fd);
    return fits;
}

/* The system's words, without the path. */
static bool refuse_unloaded(const char *file, const char *path, const char *said)
{
    size_t length = strlen(path);
    if (strncmp(said, path, length) == 0 && said[length] == ':')
        said += length + 1 + strspn(said + length + 1, " ");
    const char *more =
        strstr(said, "undefined symbol")
            ? "; build it again with this slate's headers, and link what else it needs"
            : "";
    return refuse(file, "cannot be loaded: %s%s.", said, more);
}

/* NULL: one line has been logged. */
static void *open_object(const char *file, const char *path)
{
    void *object = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (object)
        return object;
    char said[512];
    const char *error = dlerror();
    snprintf(said, sizeof said, "%s", error ? error : "no reason is given");
    /* A function that only another ABI has is best explained by that. */
    void *lazy = dlopen(path, RTLD_LAZY | RTLD_LOCAL);
    const slate_plugin *record = lazy ? dlsym(lazy, RECORD) : NULL;
    if (!record || check_abi(file, record->abi))
        refuse_unloaded(file, path, said);
    return NULL;
}

/* NULL: one line has been logged. */
static const slate_module *load(const server *s, const char *file)
{
    char path[PATH_MAX]; /* with a slash, so that it is not looked for among the libraries */
    if (!realpath(file, path)) {
        refuse(file, "cannot be read: %s.", strerror(errno));
        return NULL;
    }
    void *object = is_object(file, path) ? open_object(file, path) : NULL;
    if (!object)
        return NULL;
    const slate_plugin *record = dlsym(object, RECORD);
    if (!record) {
        refuse(file, "is a shared object, but no plugin of slate: it has no SLATE_PLUGIN.");
        return NULL;
    }
    bool fits = check_record(file, object, record) && check_module(s, file, record->module);
    return fits ? record->module : NULL;
}

static bool no_memory(void)
{
    log_error("The plugins could not be loaded: out of memory.");
    return false;
}

/* Makes room behind the modules of the program. */
static bool join(server *s)
{
    size_t count = 0;
    while (s->modules[count])
        count++;
    s->joined = calloc(count + PLUGINS_MAX + 1, sizeof *s->joined);
    if (!s->joined)
        return no_memory();
    memcpy(s->joined, s->modules, count * sizeof *s->modules);
    all_modules = s->modules = s->joined;
    return true;
}

static bool add(server *s, const char *name, size_t length)
{
    plugin *added = &s->plugins[s->plugin_count];
    added->file = strndup(name, length);
    if (!added->file)
        return no_memory();
    added->module = load(s, added->file);
    if (!added->module) {
        free(added->file);
        return false;
    }
    const slate_module **end = s->joined;
    while (*end)
        end++;
    *end = added->module;
    s->plugin_count++;
    return true;
}

bool plugins_load(server *s, const slate_module *const program[])
{
    all_modules = s->modules = program;
    if (!s->opts.plugin)
        return true;
    if (!join(s))
        return false;
    for (const char *at = s->opts.plugin; *at != '\0';) {
        size_t length = strcspn(at, ",");
        if (!add(s, at, length))
            return false;
        at += length + (at[length] == ',');
    }
    return true;
}

void plugins_log(const server *s)
{
    for (unsigned i = 0; i < s->plugin_count; i++)
        log_info("Plugin %s brings the module \"%s\".", s->plugins[i].file,
                 s->plugins[i].module->name);
}

void plugins_free(server *s)
{
    while (s->plugin_count > 0)
        free(s->plugins[--s->plugin_count].file);
    free(s->joined);
}
