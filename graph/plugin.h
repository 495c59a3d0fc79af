/* plugin.h: opens a plugin's shared library and finds its entry symbol. */
#ifndef DG_GRAPH_PLUGIN_H
#define DG_GRAPH_PLUGIN_H

#include <detrgraph/plugin.h>

int dg_library_open(void **handle, const dg_plugin **plugin, const char *path, dg_where at,
                    dg_diag *d) DG_MUST_USE;
void dg_library_close(void **handle);

#endif
