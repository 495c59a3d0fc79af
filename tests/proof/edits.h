/* edits.h: makes the edits that a help line names (graph/edit.h), word by word, in files of a
 * folder. */
#ifndef DG_TESTS_PROOF_EDITS_H
#define DG_TESTS_PROOF_EDITS_H

#include <stdbool.h>

/* The files of a folder, by name; an edit changes the text in memory. */
enum { MOST_FILES = 16 };
typedef struct files {
    int n;
    char *name[MOST_FILES], *text[MOST_FILES];
} files;

void files_add(files *f, const char *name, const char *text);
void files_close(files *f);
const char *files_text(const files *f, const char *name);
void files_write(const files *f); /* to the current folder */

/* Makes all edits of the line. file: what "line 7" is a line of. False: it is not made of edits, or
 * one of them cannot be made; why says which. */
bool follow(files *f, const char *file, const char *help, char why[256]);

#endif
