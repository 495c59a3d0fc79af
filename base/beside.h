/* beside.h: files that belong to the program, where make or an installation puts them. */
#ifndef DG_BASE_BESIDE_H
#define DG_BASE_BESIDE_H

#include <stdbool.h>
#include <stddef.h>

/* The path of such a file: in the folder of the program or of the library, in lib/detrgraph, lib or
 * share/detrgraph beside it, else where configure was told to put modules and pipelines. False: it
 * is in none. */
bool dg_find_beside(char *out, size_t size, const char *file);

#endif
