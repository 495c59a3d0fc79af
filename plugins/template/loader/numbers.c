/* numbers.c: writes a small data set in the format of my.node and reads it back. */
#include "my_node.c"

enum { N = 12, SIDE = 64, SQUARE = 24 };

/* Image i is gray with a bright square at (2 i, i); the last image has no object. */
static bool write_data(void)
{
    static unsigned char image[SIDE][SIDE][3];
    FILE *pixels = fopen("images.raw", "wb"), *boxes = fopen("boxes.csv", "w");
    bool written = pixels && boxes;

    for (int i = 0; written && i < N; i++) {
        memset(image, 100, sizeof image);
        for (int y = i; y < i + SQUARE && i < N - 1; y++)
            memset(image[y][2 * i], 200, 3 * SQUARE);
        written = fwrite(image, sizeof image, 1, pixels) == 1;
        if (i < N - 1)
            fprintf(boxes, "%d,%d,%d,%d,%d,%d\n", i, i % N_CLASSES, 2 * i, i, 2 * i + SQUARE,
                    i + SQUARE);
    }
    written = pixels && fclose(pixels) == 0 && written;
    return boxes && fclose(boxes) == 0 && written;
}

int main(void)
{
    const conf c = { "images.raw", "boxes.csv", SIDE, SIDE };
    dg_scratch *scratch = dg_scratch_open(0);
    dg_dataset *data = NULL;
    dg_sample sm = { 0 };
    bool right = write_data() && open_set(&data, &c, 0, NULL) == 0 && data->n_items == N &&
                 data->n_truths == N - 1;

    right = right && data->sample(data->self, 5, &sm, scratch, NULL) == 0 && sm.n_objects == 1 &&
            sm.objects[0].label == 1;
    right = right && sm.objects[0].box.x1 == 10 && sm.image.rgb[3 * (5 * SIDE + 9)] == 100 &&
            sm.image.rgb[3 * (5 * SIDE + 10)] == 200;
    right = right && data->sample(data->self, N - 1, &sm, scratch, NULL) == 0 && sm.n_objects == 0;
    printf("my.node: %d images %s\n", data ? data->n_items : 0,
           right ? "as they were written" : "that are not what was written");
    if (data)
        data->close(data->self);
    dg_scratch_close(&scratch);
    return !right;
}
