/* A plugin that is wrong in the way that the build says (-DPLUGIN_…), for test_plugins.py. */
#include <slate/slate.h>

/* In some of them nobody asks for what follows. */
#pragma GCC diagnostic ignored "-Wunused-const-variable"
#pragma GCC diagnostic ignored "-Wunused-function"

#if defined PLUGIN_NEWER || defined PLUGIN_SYMBOL
slate_result slate_nothing_has_this(slate_request *req);
#else
#define slate_nothing_has_this(req) slate_answer_empty(req, 204)
#endif

static slate_result nothing(slate_request *req)
{
    return slate_nothing_has_this(req);
}

#if defined PLUGIN_ROUTE
#define PATH "/echo"
#elif defined PLUGIN_PATTERN
#define PATH "/leases/{other}"
#else
#define PATH "/wrong"
#endif

static const slate_route routes[] = {
#ifndef PLUGIN_UNROUTED
#ifndef PLUGIN_MUTE
    {.path = PATH, .on = {[SLATE_GET] = nothing, [SLATE_POST] = nothing}, .summary = "Wrong."},
#else
    {.path = PATH},
#endif
#endif
    {.path = NULL},
};

static bool start(const struct options *opts)
{
    (void)opts;
#ifdef PLUGIN_UNSTARTABLE
    return false;
#else
    return true;
#endif
}

#if defined PLUGIN_UNNAMED
#define NAME NULL
#elif defined PLUGIN_MISNAMED
#define NAME "Wrong-name"
#elif defined PLUGIN_PROGRAM
#define NAME "builtin"
#else
#define NAME "wrong"
#endif

static const slate_module module = {.name = NAME, .routes = routes, .start = start};

#ifdef PLUGIN_OWN_JANSSON
json_t *json_object(void)
{
    return NULL;
}
#endif

#if defined PLUGIN_NEWER
#define ABI (SLATE_ABI + 1)
#elif defined PLUGIN_OLDER
#define ABI (SLATE_ABI - 1)
#else
#define ABI SLATE_ABI
#endif

#if defined PLUGIN_JANSSON
#define JANSSON (JANSSON_VERSION_HEX + 0x100)
#elif defined PLUGIN_JANSSON_2
#define JANSSON (JANSSON_VERSION_HEX - 0x10000)
#else
#define JANSSON JANSSON_VERSION_HEX
#endif

#ifdef PLUGIN_ASAN
#define ASAN !MEM_ASAN
#else
#define ASAN MEM_ASAN
#endif

#if defined PLUGIN_LAYOUT
#define LAYOUT                                                              \
    {                                                                       \
        sizeof(slate_plugin), sizeof(slate_module), sizeof(slate_route) + 8 \
    }
#else
#define LAYOUT SLATE_LAYOUT
#endif

#ifdef PLUGIN_NO_MODULE
#define MODULE NULL
#else
#define MODULE &module
#endif

/* What SLATE_PLUGIN makes, but for what is wrong. */
#ifdef PLUGIN_NO_RECORD
const slate_module *not_the_record(void);
const slate_module *not_the_record(void)
{
    return &module;
}
#else
extern const slate_plugin slate_plugin_record;
const slate_plugin slate_plugin_record = {ABI, JANSSON, ASAN, LAYOUT, MODULE};
#endif
