/* plugin.c: loads plugins with dlopen. The symbol's name has the version of the interface, the
 * struct its size. */
#include "graph/plugin.h"

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define ENTRY "dg_plugin_v1"
#define NEXT_ENTRY "dg_plugin_v2"

/* True if the bytes that the file's headers want to be loaded are there; also for what is no shared
 * library of this machine, which dlopen refuses. It would end the process by SIGBUS for a cut one.
 */
static bool is_whole(int fd, uint64_t size)
{
    Elf64_Ehdr head;
    Elf64_Phdr part;

    if (pread(fd, &head, sizeof head, 0) != (ssize_t)sizeof head ||
        memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 || head.e_ident[EI_CLASS] != ELFCLASS64 ||
        head.e_phentsize != sizeof part)
        return true;
    for (int i = 0; i < head.e_phnum; i++)
        if (pread(fd, &part, sizeof part, (off_t)(head.e_phoff + (uint64_t)i * sizeof part)) ==
                (ssize_t)sizeof part &&
            part.p_type == PT_LOAD &&
            (part.p_filesz > size || part.p_offset > size - part.p_filesz))
            return false;
    return true;
}

/* dlopen waits for ever at a pipe. A path that does not exist is left to it. */
static int check_file(const char *path, dg_where at, dg_diag *d)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    struct stat st;
    int rc = 0;

    if (fd < 0)
        return 0;
    if (fstat(fd, &st) == 0 && !S_ISREG(st.st_mode)) {
        rc = dg_fail(d, DG_EIO, at, "plugin-open",
                     "cannot load the plugin: %s: a shared library is expected, this is %s", path,
                     S_ISDIR(st.st_mode) ? "a folder" : "a device or pipe");
    } else if (!is_whole(fd, (uint64_t)st.st_size)) {
        rc = dg_fail(d, DG_EIO, at, "plugin-open",
                     "cannot load the plugin: %s: its end is missing, it has %lld bytes", path,
                     (long long)st.st_size);
        dg_help(d, "build or copy it again; is its compilation still running?");
    }
    close(fd);
    return rc;
}

int dg_library_open(void **handle, const dg_plugin **plugin, const char *path, dg_where at,
                    dg_diag *d)
{
    int rc = check_file(path, at, d);

    *handle = NULL;
    if (rc < 0)
        return rc;
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
    } else if (p->size >= sizeof *p && (!p->name || !p->version || !p->classes)) {
        rc = dg_fail(d, DG_EINPUT, at, "plugin-size", "%s: its entry has no %s", path,
                     !p->name      ? "name"
                     : !p->version ? "version"
                                   : "classes");
        dg_help(d, "DG_PLUGIN(\"name\", \"version\", &class, ...) of <detrgraph/plugin.h> gives it "
                   "all three");
    } else if (p->size < sizeof *p) {
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
