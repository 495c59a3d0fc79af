/* memory_info.h: memory that this process uses, and may still use. */
#ifndef DG_REPORT_MEMORY_INFO_H
#define DG_REPORT_MEMORY_INFO_H

#include <stdint.h>

/* Bytes available by the kernel's estimate, or within the control group's limit if that is less;
 * -1: unknown. */
int64_t dg_memory_available(void);
/* Largest resident size of this process so far; 0: unknown. */
int64_t dg_memory_peak(void);
int64_t dg_memory_resident(void); /* current resident size */

#endif
