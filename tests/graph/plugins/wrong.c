/* wrong.c: plugins with mistakes, one at a time: -DNO_ENTRY, -DOLD_ENTRY, -DOLD_CLASS, -DBAD_TABLE,
 * -DCRASH=how in its constructor, and of a newer detrgraph: -DNEW_ENTRY, -DNEW_CLASS, -DNEW_PORTS.
 */
#include <detrgraph/plugin.h>

#include <stdlib.h>

#ifdef CRASH
__attribute__((constructor)) static void crash(void)
{
    CRASH;
}
#endif

static const dg_port ports[] = {
#ifdef BAD_TABLE
    DG_OUT("out", "f[b]", "a type that is none"),
#else
    DG_OUT("out", "f[]", "a number"),
#endif
    { 0 },
};

static const dg_node_class wrong = {
    DG_NODE_CLASS,
    .name = "wrong",
    .brief = "Wrong.",
    .ports = ports,
#ifdef OLD_CLASS
    .size = 8,
#elif defined(NEW_CLASS)
    .size = sizeof(dg_node_class) + 16,
#elif defined(NEW_PORTS)
    .port_size = sizeof(dg_port) + 8,
#endif
};

#ifdef NO_ENTRY
DG_PUBLIC extern const dg_node_class *const nothing;
const dg_node_class *const nothing = &wrong;
#elif defined(NEW_ENTRY)
DG_PUBLIC extern const dg_plugin dg_plugin_v2;
static const dg_node_class *const classes[] = { &wrong, 0 };
const dg_plugin dg_plugin_v2 = { sizeof(dg_plugin), "wrong", "1", classes };
#elif defined(OLD_ENTRY)
DG_PUBLIC extern const dg_plugin dg_plugin_v1;
static const dg_node_class *const classes[] = { &wrong, 0 };
const dg_plugin dg_plugin_v1 = { sizeof(dg_plugin) - 8, "wrong", "1", classes };
#else
DG_PLUGIN("wrong", "1", &wrong);
#endif
