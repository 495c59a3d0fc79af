/* yolo: any bytes as a data.yaml, and what stands behind its first zero byte as lines of labels. */
#include "media/yolo.h"

#include <string.h>

#include "base/diag.h"
#include "media/yaml.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    const char *text = (const char *)data;
    const size_t head = strnlen(text, n);
    dg_arena *a = dg_arena_open();
    dg_diag *d = dg_diag_open();
    const dg_json *tree = NULL;
    dg_yolo_labels labels;

    if (dg_yaml_parse(&tree, a, text, head, "fuzz.yaml", d) == 0)
        (void)dg_json_get(tree, "names");
    if (head < n)
        (void)!dg_yolo_parse(&labels, a, text + head + 1, n - head - 1, (int)(n % 3) * 2,
                             "fuzz.txt", d);
    (void)dg_diag_text(d);
    dg_diag_close(&d);
    dg_arena_close(&a);
    return 0;
}
