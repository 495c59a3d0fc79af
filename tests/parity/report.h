/* report.h: the largest error of each group of numbers, beside its bound. */
#ifndef TESTS_PARITY_REPORT_H
#define TESTS_PARITY_REPORT_H

#include <stdbool.h>
#include <stdio.h>

typedef struct report report;

report *report_open(void);
void report_close(report **r);
/* bound < 0: shown, not judged. where is copied: the name of what is off. Not-a-number is beyond
 * every bound. */
void report_add(report *r, const char *group, double error, double bound, const char *where);
/* A thing that is right or wrong: counts as error 1, bound 0.5. */
void report_fact(report *r, const char *group, bool right, const char *where);
bool report_print(const report *r, FILE *to); /* one line a group; whether all of them hold */

#endif
