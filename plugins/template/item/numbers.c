/* numbers.c: tests what my.node does to one image, called as the engine calls it. */
#include "my_node.c"

#include <stdio.h>

int main(void)
{
    const conf c = { .p = 1, .most = 1, .gray = 7 };
    dg_diag *d = NULL;
    dg_scratch *scratch = dg_scratch_open(0);
    dg_sample sm = { .size = sizeof sm, .scratch = scratch };
    dg_clock clock = { 0 };
    dg_draw draw = dg_draw_begin(1, "numbers", 2);
    int hidden = 0, rc = dg_image_new(&sm.image, scratch, 40, 30, d);

    if (rc == 0)
        rc = item(&c, &sm, &draw, &clock, d);
    for (int i = 0; rc == 0 && i < 3 * 40 * 30; i++)
        hidden += sm.image.rgb[i] == 7;
    printf("my.node: %d of %d bytes are hidden\n", hidden, 3 * 40 * 30);
    dg_scratch_close(&scratch);
    return rc < 0 || hidden == 0 || hidden % 3 != 0;
}
