/* csv: any bytes as a table of boxes. */
#define FORM dg_csv_form
#define NAME "fuzz.csv"
#include "tests/fuzz/marks.h"
