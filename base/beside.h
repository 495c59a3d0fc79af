/* beside.h: files that belong to the program, where make or an installation puts them. */
#ifndef DG_BASE_BESIDE_H
#define DG_BASE_BESIDE_H

#include <stdbool.h>
#include <stddef.h>

/* The path of such a file: in the program's folder, in lib/detrgraph or in lib beside that, else
 * in the folder that configure was given for modules. False: it is in none. */
bool dg_find_beside(char *out, size_t size, const char *file);

#endif
