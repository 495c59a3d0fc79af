/* guard.h: names foreign code that ends the program. */
#ifndef DG_CLI_GUARD_H
#define DG_CLI_GUARD_H

/* From now on standard error names a plugin whose constructor crashes, a library that calls exit(),
 * which the program never leaves by and which fails then, and a mapped file that was cut. Called
 * once, first of all. */
void dg_guard_foreign(void);

#endif
