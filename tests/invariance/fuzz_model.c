/* fuzz_model.c: the classes that a model is made of. */
#include <math.h>
#include <string.h>

#include "tests/invariance/fuzz_model.h"

const fz_class fz_classes[FZ_N_OPS] = {
    [FZ_LOADER] = { "loader.synthetic", "", "out", FZ_DATA },
    [FZ_PARTITION] = { "partition", "in", "out", FZ_DATA },
    [FZ_FILTER] = { "filter", "in", "out", FZ_DATA },
    [FZ_EQUALIZE] = { "equalize", "in", "out", FZ_DATA },
    [FZ_SAMPLER] = { "sampler.bucket", "in", "out", FZ_DATA },
    [FZ_PLAIN] = { "sampler.plain", "in", "out", FZ_DATA },
    [FZ_AUGMENT] = { "augment", "in", "out", FZ_DATA },
    [FZ_CROP] = { "toy.crop", "in", "out", FZ_DATA },
    [FZ_RESIZE] = { "resize", "in size", "out", FZ_DATA },
    [FZ_BATCH] = { "batch", "in", "images targets targets.labels targets.boxes targets.count",
                   FZ_DATA },
    [FZ_NUMBER] = { "source.number", "", "out", FZ_SCALAR },
    [FZ_STEP] = { "source.step", "", "out", FZ_SCALAR },
    [FZ_EPOCH] = { "source.epoch", "", "out", FZ_SCALAR },
    [FZ_RANK] = { "source.rank", "", "out", FZ_SCALAR },
    [FZ_CLOCK] = { "source.clock", "", "out", FZ_SCALAR },
    [FZ_MEMORY] = { "source.memory", "", "out", FZ_SCALAR },
    [FZ_FILE] = { "source.file", "", "out", FZ_SCALAR },
    [FZ_RANDOM] = { "source.random", "", "out", FZ_SCALAR },
    [FZ_TEST] = { "test", "in", "out", FZ_TENSOR_OP },
    [FZ_SUM] = { "sum", "", "out", FZ_TENSOR_OP | FZ_ANY_NAMES },
    [FZ_RECORD] = { "record", "", "out", FZ_ANY_NAMES },
    [FZ_LINEAR] = { "layer.linear", "in", "out", FZ_TENSOR_OP | FZ_TRAINED },
    [FZ_NORM] = { "layer.norm", "in count?", "out", FZ_TENSOR_OP | FZ_TRAINED },
    [FZ_GRADIENT_NORM] = { "gradient.norm", "in", "out", FZ_TENSOR_OP },
    [FZ_ALLREDUCE] = { "allreduce", "in", "out", FZ_COLLECTIVE },
    [FZ_REDUCE] = { "reduce", "in", "out", FZ_COLLECTIVE },
    [FZ_BROADCAST] = { "broadcast", "in", "out", FZ_COLLECTIVE },
    [FZ_AGREE] = { "agree", "in?", "out", FZ_COLLECTIVE },
    [FZ_ALLGATHER] = { "allgather", "in", "out", FZ_COLLECTIVE },
    [FZ_ALLGATHERV] = { "allgatherv", "in count", "out counts", FZ_COLLECTIVE },
    [FZ_SKIP] = { "skip", "", "", 0 },
    [FZ_STOP] = { "stop", "", "", 0 },
    [FZ_BACKWARD] = { "backward", "loss", "gradients", 0 },
    [FZ_ADAMW] = { "optimizer.adamw", "gradients norm?", "parameters", 0 },
    [FZ_EMA] = { "ema", "of", "parameters", 0 },
    [FZ_LOG] = { "log", "in", "", 0 },
    [FZ_MEAN] = { "loss.mean", "in", "total", FZ_TENSOR_OP },
    [FZ_EMBED] = { "toy.embed", "targets", "out", FZ_TENSOR_OP | FZ_TRAINED },
    [FZ_NOISE] = { "toy.noise", "in", "out", FZ_TENSOR_OP },
    [FZ_FIXED] = { "toy.fixed", "in", "out", FZ_TENSOR_OP },
    [FZ_METRIC] = { "toy.metric", "in", "metrics", 0 },
    [FZ_INPUT] = { "input", "", "out", 0 },
    [FZ_USE] = { "use", "images denoising?", "out", FZ_TENSOR_OP },
    [FZ_BACKBONE] = { "backbone.presnet", "in", "s8 s16 s32", FZ_TENSOR_OP | FZ_TRAINED },
    [FZ_ENCODER] = { "encoder.hybrid", "s8 s16 s32", "out", FZ_TENSOR_OP | FZ_TRAINED },
    [FZ_DECODER] = { "decoder.rtdetr", "memory denoising?", "out", FZ_TENSOR_OP | FZ_TRAINED },
    [FZ_DENOISING] = { "denoising", "targets", "out", FZ_TENSOR_OP },
    [FZ_LOSS] = { "loss.rtdetr", "predictions targets objects?", "total terms", FZ_TENSOR_OP },
    [FZ_DETECT] = { "detect", "in", "out", FZ_TENSOR_OP },
    [FZ_COCO] = { "evaluate.coco", "in", "metrics", 0 },
};

#define ROW(field, kind, words, ops, otherwise) \
    { #field, kind, offsetof(fz_node, field), words, ops, otherwise }
#define OP(x) (UINT64_C(1) << FZ_##x)
#define AXES                                                                                 \
    (OP(PARTITION) | OP(EQUALIZE) | OP(SAMPLER) | OP(PLAIN) | OP(ALLREDUCE) | OP(REDUCE) |   \
     OP(BROADCAST) | OP(AGREE) | OP(ALLGATHER) | OP(ALLGATHERV) | OP(DENOISING) | OP(LOSS) | \
     OP(METRIC) | OP(COCO))
#define SAMPLERS (OP(SAMPLER) | OP(PLAIN))
#define NORMS (OP(NORM) | OP(BACKBONE) | OP(ENCODER) | OP(DECODER))
const fz_attr fz_attrs[] = {
    ROW(images, FZ_INT, NULL, OP(LOADER), FZ_NONE),
    ROW(files, FZ_WORD, "same|rank", OP(LOADER), 0),
    ROW(axis, FZ_AXIS, NULL, AXES, FZ_NONE),
    { "op", FZ_WORD, offsetof(fz_node, how), "sum|max|min|mean|any|all",
      OP(ALLREDUCE) | OP(REDUCE) | OP(AGREE), FZ_NONE },
    ROW(root, FZ_INT, NULL, OP(REDUCE) | OP(BROADCAST), FZ_NONE),
    ROW(equal, FZ_WORD, "none|drop|pad", OP(PARTITION), FZ_EQ_NONE),
    ROW(aligned, FZ_WORD, "false|true", OP(PARTITION), 0),
    ROW(shuffle, FZ_WORD, "false|true", OP(PARTITION) | SAMPLERS, FZ_NONE),
    ROW(seed, FZ_WORD, "rank|shared|sample", OP(PARTITION) | OP(AUGMENT) | OP(RANDOM), FZ_NONE),
    { "seed", FZ_WORD, offsetof(fz_node, seed), "rank|shared", SAMPLERS, FZ_SEED_SHARED },
    ROW(tail, FZ_WORD, "drop|pad|keep", SAMPLERS, FZ_TAIL_KEEP),
    ROW(repeat, FZ_WORD, "false|true", SAMPLERS, 0),
    ROW(batch, FZ_INT, NULL, SAMPLERS, FZ_NONE),
    ROW(sizes, FZ_SIZES, NULL, OP(SAMPLER) | OP(RESIZE), FZ_NONE),
    { "size", FZ_SIZES, offsetof(fz_node, sizes), NULL, OP(PLAIN), FZ_NONE },
    ROW(min_objects, FZ_INT, NULL, OP(FILTER), FZ_NONE),
    ROW(is, FZ_WORD, "positive|zero|finite|nonfinite|above|below", OP(TEST), FZ_NONE),
    ROW(than, FZ_NUM, NULL, OP(TEST), FZ_NONE),
    ROW(value, FZ_NUM, NULL, OP(NUMBER), FZ_NONE),
    ROW(low, FZ_NUM, NULL, OP(RANDOM), FZ_NONE),
    ROW(high, FZ_NUM, NULL, OP(RANDOM), FZ_NONE),
    ROW(width, FZ_INT, NULL, OP(LINEAR), FZ_NONE),
    ROW(norm, FZ_WORD, "batch|sync", NORMS, FZ_BATCH_NORM),
    ROW(freeze_norm, FZ_WORD, "false|true", OP(BACKBONE), 0),
    ROW(empty, FZ_WORD, "absent|zero|pad", OP(NORM) | OP(EMBED) | OP(DENOISING) | OP(LOSS),
        FZ_NONE),
    ROW(terms, FZ_WORD, "all|class|box", OP(LOSS), FZ_TERMS_ALL),
    ROW(optional, FZ_WORD, "false|true", OP(INPUT), 0),
    ROW(connect, FZ_WORD, "none|zero", 0, 0),
    ROW(on, FZ_INT, NULL, 0, FZ_NONE),
    ROW(budget, FZ_BUDGET, NULL, 0, FZ_NONE),
    ROW(on_fail, FZ_WORD, "abort|vote", 0, FZ_ABORT),
    ROW(exact, FZ_WORD, "false|true", 0, 1),
    ROW(frozen, FZ_WORD, "false|true", 0, 0),
    ROW(recompute, FZ_WORD, "false|true", 0, 0),
    { 0 },
};
const char *const fz_sizes[4] = { "64", "64,96", "64,96x64", "64,96,96x64,192x128" };
const int fz_n_sizes[4] = { 1, 2, 2, 4 };

void fz_model_clear(fz_model *m)
{
    memset(m, 0, sizeof *m);
    m->dp = 2;
    m->tp = 1;
    m->epochs = 2;
    m->accumulate = 1;
    m->eval_on = m->on_fail = FZ_NONE;
    m->best.node = m->peer = FZ_NONE;
}

fz_node *fz_model_add(fz_model *m, int op, int scope)
{
    fz_node *n;

    if (m->n_nodes == FZ_NODES)
        return NULL;
    n = &m->node[m->n_nodes++];
    memset(n, 0, sizeof *n);
    for (const fz_attr *a = fz_attrs; a->name; a++) {
        if (a->kind == FZ_NUM)
            *(double *)((char *)n + a->at) = NAN;
        else
            *(int *)((char *)n + a->at) = FZ_NONE;
    }
    n->op = op;
    n->scope = scope;
    n->when.node = n->when.key = FZ_NONE;
    n->n_in = fz_inputs(op);
    for (int i = 0; i < FZ_IN; i++)
        n->in[i].node = n->in[i].key = FZ_NONE;
    n->model = FZ_NONE;
    snprintf(n->id, sizeof n->id, "n%d", m->n_nodes - 1);
    return n;
}

int fz_inputs(int op)
{
    const char *p = fz_classes[op].ins;
    int n = *p != 0;

    for (; *p; p++)
        n += *p == ' ';
    return n;
}

int fz_word(const char *list, int i, const char **at)
{
    while (i-- > 0) {
        list = strchr(list, ' ');
        if (!list)
            return 0;
        list++;
    }
    *at = list;
    return (int)strcspn(list, " ");
}

bool fz_input_optional(int op, int i)
{
    const char *at;
    int n = fz_word(fz_classes[op].ins, i, &at);

    return (fz_classes[op].flags & FZ_ANY_NAMES) || (n && at[n - 1] == '?');
}

int fz_input_named(int op, const char *name)
{
    const char *at;
    int n;

    for (int i = 0; (n = fz_word(fz_classes[op].ins, i, &at)) > 0; i++) {
        n -= at[n - 1] == '?';
        if ((int)strlen(name) == n && strncmp(at, name, (size_t)n) == 0)
            return i;
    }
    return FZ_NONE;
}

bool fz_launches(const fz_model *m, int i)
{
    const fz_node *n = &m->node[i];

    if (n->dead || (n->axis == FZ_TP && m->tp == 1))
        return false;
    switch (n->op) {
    case FZ_NORM:
    case FZ_BACKBONE:
    case FZ_ENCODER:
    case FZ_DECODER:
        return n->norm == FZ_SYNC_NORM;
    case FZ_DENOISING:
    case FZ_LOSS:
    case FZ_METRIC:
    case FZ_COCO:
        return n->axis != FZ_NONE;
    case FZ_EQUALIZE:
        return true;
    case FZ_USE:
        for (int k = 0; k < m->n_nodes; k++)
            if (m->node[k].scope == FZ_IN_MODEL + n->model && fz_launches(m, k))
                return true;
        return false;
    default:
        return fz_classes[n->op].flags & FZ_COLLECTIVE;
    }
}

int fz_model_input(const fz_model *m, int model, int k)
{
    for (int i = 0; i < m->n_nodes; i++)
        if (m->node[i].scope == FZ_IN_MODEL + model && m->node[i].op == FZ_INPUT && k-- == 0)
            return i;
    return FZ_NONE;
}

int fz_record_of(const fz_model *m, int node)
{
    while (node != FZ_NONE && m->node[node].op != FZ_RECORD) {
        const fz_node *n = &m->node[node];

        node = n->op == FZ_ALLREDUCE || n->op == FZ_BROADCAST ? n->in[0].node : FZ_NONE;
    }
    return node;
}
