/* cvat: any bytes as a file of CVAT. */
#define FORM dg_cvat_form
#define NAME "fuzz.xml"
#include "tests/fuzz/marks.h"
