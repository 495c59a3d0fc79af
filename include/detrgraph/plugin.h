/* plugin.h: how a shared library provides node classes. */
#ifndef DETRGRAPH_PLUGIN_H
#define DETRGRAPH_PLUGIN_H

#include <detrgraph/node.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct dg_plugin {
    uint32_t size;
    const char *name, *version;
    const dg_node_class *const *classes; /* NULL-terminated */
} dg_plugin;

/* Defines the entry symbol that <plugin path="libgate.so"/> looks for. */
#define DG_PLUGIN(plugin_name, plugin_version, ...)                                  \
    DG_PUBLIC extern const dg_plugin dg_plugin_v1;                                   \
    static const dg_node_class *const dg_plugin_classes_[] = { __VA_ARGS__, NULL };  \
    const dg_plugin dg_plugin_v1 = { sizeof(dg_plugin), plugin_name, plugin_version, \
                                     dg_plugin_classes_ }

#ifdef __cplusplus
}
#endif
#endif
