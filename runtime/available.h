/* available.h: how much memory this process may still take. */
#ifndef DG_RUNTIME_AVAILABLE_H
#define DG_RUNTIME_AVAILABLE_H

#include <stdint.h>

/* Bytes: what the kernel calls available, or what is left of the control group's limit; -1 where nobody says. */
int64_t dg_memory_available(void);
/* Largest resident size of this process so far; 0 where nobody says. */
int64_t dg_memory_peak(void);
int64_t dg_memory_resident(void); /* now */

#endif
