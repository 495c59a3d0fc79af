/* coco_names.c: see coco_names.h. */
#include "weights/coco_names.h"

static const char *const names[DG_COCO_NAMES] = {
    "person",        "bicycle",      "car",
    "motorcycle",    "airplane",     "bus",
    "train",         "truck",        "boat",
    "traffic light", "fire hydrant", "stop sign",
    "parking meter", "bench",        "bird",
    "cat",           "dog",          "horse",
    "sheep",         "cow",          "elephant",
    "bear",          "zebra",        "giraffe",
    "backpack",      "umbrella",     "handbag",
    "tie",           "suitcase",     "frisbee",
    "skis",          "snowboard",    "sports ball",
    "kite",          "baseball bat", "baseball glove",
    "skateboard",    "surfboard",    "tennis racket",
    "bottle",        "wine glass",   "cup",
    "fork",          "knife",        "spoon",
    "bowl",          "banana",       "apple",
    "sandwich",      "orange",       "broccoli",
    "carrot",        "hot dog",      "pizza",
    "donut",         "cake",         "chair",
    "couch",         "potted plant", "bed",
    "dining table",  "toilet",       "tv",
    "laptop",        "mouse",        "remote",
    "keyboard",      "cell phone",   "microwave",
    "oven",          "toaster",      "sink",
    "refrigerator",  "book",         "clock",
    "vase",          "scissors",     "teddy bear",
    "hair drier",    "toothbrush",
};

const dg_coco_class *dg_coco_classes(dg_arena *a)
{
    static const int missing[] = { 12, 26, 29, 30, 45, 66, 68, 69, 71, 83 };
    dg_coco_class *classes = DG_NEW_N(a, DG_COCO_NAMES, dg_coco_class);

    for (int label = 0; label < DG_COCO_NAMES; label++) {
        int id = label + 1;

        for (size_t i = 0; i < sizeof missing / sizeof *missing; i++)
            id += id >= missing[i];
        classes[label] = (dg_coco_class){ id, names[label] };
    }
    return classes;
}
