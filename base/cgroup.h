/* cgroup.h: the control groups of this process, versions 1 and 2: where a container, a batch system
 * or systemd limits it. */
#ifndef DG_BASE_CGROUP_H
#define DG_BASE_CGROUP_H

/* The folder of a group: of version 2, or of a version 1 hierarchy. */
typedef void dg_cgroup_fn(void *ctx, const char *folder, int version);

/* Visits this process's group and its ancestors up to the root, in version 2 and in the version 1
 * hierarchy of the controller ("cpu", "memory"). A limit of any of them holds. In a container the
 * mount may start at the process's own group while the path is the host's: a folder may not exist.
 * root: "", or a folder that takes the place of "/" (tests). */
void dg_cgroup_each(const char *root, const char *controller, dg_cgroup_fn *visit, void *ctx);

/* The CPU time per second of wall time that this process may use, in cores (1.5); 0: no limit. */
double dg_cgroup_cores(const char *root);

#endif
