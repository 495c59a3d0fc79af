/* plugin.c: loads plugins with dlopen. The symbol's name has the version of the interface, the
 * struct its size. */
#include "graph/plugin.h"

#include <dlfcn.h>

#define ENTRY "dg_plugin_v1"
#define NEXT_ENTRY "dg_plugin_v2"

int dg_library_open(void **handle, const dg_plugin **plugin, const char *path, dg_where at,
                    dg_diag *d)
{
    int rc;

    *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!*handle)
        return dg_fail(d, DG_EIO, at, "plugin-open", "cannot load the plugin: %s", dlerror());
    const dg_plugin *p = dlsym(*handle, ENTRY);

    if (!p) {
        bool newer = dlsym(*handle, NEXT_ENTRY) != NULL;

        rc = newer ? dg_fail(d, DG_EINPUT, at, "plugin-entry",
                             "%s is a plugin of a newer interface, %s; this program knows %s", path,
                             NEXT_ENTRY, ENTRY)
                   : dg_fail(d, DG_EINPUT, at, "plugin-entry",
                             "%s has no symbol %s: it is no plugin", path, ENTRY);
        dg_help(d, newer ? "use a detrgraph as new as the plugin's headers, or compile the plugin "
                           "with the headers of this one"
                         : "DG_PLUGIN(\"name\", \"version\", &class, ...) of <detrgraph/plugin.h> "
                           "defines it");
    } else if (p->size < sizeof *p || !p->name || !p->version || !p->classes) {
        rc = dg_fail(d, DG_EINPUT, at, "plugin-size",
                     "%s: its entry has %u bytes, this program expects %zu", path, p->size,
                     sizeof *p);
        dg_help(d, "compile the plugin again with this version's headers");
    } else {
        *plugin = p;
        return 0;
    }
    dg_library_close(handle);
    return rc;
}

void dg_library_close(void **handle)
{
    if (*handle)
        dlclose(*handle);
    *handle = NULL;
}
