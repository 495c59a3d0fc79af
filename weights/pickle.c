/* pickle.c: a pickle interpreter that executes nothing: opcodes push constants and build
 * containers; GLOBAL gives a name; REDUCE of a few known names gives a tensor, a parameter or a
 * dictionary. Anything else is an error that names what was found. Opcodes: Python's
 * Lib/pickletools.py, protocols 2 to 5. */
#include "weights/pickle.h"

#include <string.h>

enum { MAX_VALUES = 2 << 20, MAX_MEMO = 2 << 20 };

typedef struct machine {
    dg_arena *arena;
    const uint8_t *p, *begin, *end;
    const char *file;
    dg_diag *d;
    DG_VEC(dg_pickle *) stack;
    DG_VEC(int) marks;
    DG_VEC(dg_pickle *) memo;
    int64_t n_values;
    dg_pickle storages; /* a list */
} machine;

/* What REDUCE or NEWOBJ of a name makes. */
typedef enum { MAKE_TENSOR, MAKE_FIRST, MAKE_DICT, MAKE_TUPLE, MAKE_OTHER, ONLY_NAME } making;
static const struct {
    const char *name;
    making makes;
} names[] = {
    { "torch._utils._rebuild_tensor_v2", MAKE_TENSOR },
    { "torch._utils._rebuild_tensor", MAKE_TENSOR },
    { "torch._utils._rebuild_parameter", MAKE_FIRST },
    { "collections.OrderedDict", MAKE_DICT },
    { "collections.defaultdict", MAKE_DICT },
    { "collections.Counter", MAKE_DICT },
    { "torch.Size", MAKE_TUPLE },
    { "torch.device", MAKE_OTHER },
    { "argparse.Namespace",
      /* found beside the weights: options, best results */
      MAKE_OTHER },
    { "pathlib.PosixPath", MAKE_OTHER },
    { "pathlib.WindowsPath", MAKE_OTHER },
    { "pathlib.PurePosixPath", MAKE_OTHER },
    { "pathlib._local.PosixPath", MAKE_OTHER },
    { "numpy.core.multiarray.scalar", MAKE_OTHER },
    { "numpy._core.multiarray.scalar", MAKE_OTHER },
    { "numpy.dtype", MAKE_OTHER },
    { "numpy.core.multiarray._reconstruct",
      /* histories of an mmengine run, with methods by name; a call of any of these stays a value
         that is not interpreted */
      MAKE_OTHER },
    { "numpy._core.multiarray._reconstruct", MAKE_OTHER },
    { "numpy.ndarray", ONLY_NAME },
    { "mmengine.logging.history_buffer.HistoryBuffer", MAKE_OTHER },
    { "mmengine.config.config.ConfigDict", MAKE_DICT },
    { "mmcv.utils.config.ConfigDict", MAKE_DICT },
    { "builtins.getattr", MAKE_OTHER },
    { "__builtin__.getattr", MAKE_OTHER },
    { "_codecs.encode", MAKE_OTHER },
    { "builtins.dict", ONLY_NAME },
    { "builtins.list", ONLY_NAME },
    { "builtins.int", ONLY_NAME },
    { "builtins.float", ONLY_NAME },
    { "__builtin__.dict", ONLY_NAME },
    { "__builtin__.list", ONLY_NAME },
    { "__builtin__.int", ONLY_NAME },
    { "__builtin__.float", ONLY_NAME },
    { "torch.DoubleStorage", ONLY_NAME },
    { "torch.FloatStorage", ONLY_NAME },
    { "torch.HalfStorage", ONLY_NAME },
    { "torch.BFloat16Storage", ONLY_NAME },
    { "torch.LongStorage", ONLY_NAME },
    { "torch.IntStorage", ONLY_NAME },
    { "torch.ShortStorage", ONLY_NAME },
    { "torch.CharStorage", ONLY_NAME },
    { "torch.ByteStorage", ONLY_NAME },
    { "torch.BoolStorage", ONLY_NAME },
    { "torch.float64", ONLY_NAME },
    { "torch.float32", ONLY_NAME },
    { "torch.float16", ONLY_NAME },
    { "torch.bfloat16", ONLY_NAME },
    { "torch.int64", ONLY_NAME },
    { "torch.int32", ONLY_NAME },
};

const char *dg_pickle_kind_name(dg_pickle_kind kind)
{
    static const char *const words[] = {
        "None",   "a truth value", "a whole number", "a real number", "text",     "a tuple",
        "a list", "a dictionary",  "a name",         "a storage",     "a tensor", "an object",
    };

    return words[kind];
}

static int broken(machine *m, const char *what)
{
    return dg_fail(m->d, DG_EINPUT, (dg_where){ .file = m->file }, "pickle-broken",
                   "its pickle is broken at byte %zu: %s", (size_t)(m->p - m->begin), what);
}

static dg_pickle *make(machine *m, dg_pickle_kind kind)
{
    dg_pickle *v = DG_NEW(m->arena, dg_pickle);

    v->kind = kind;
    m->n_values++;
    return v;
}

static void push(machine *m, dg_pickle *v)
{
    DG_PUSH(m->arena, m->stack, v);
}

static void push_int(machine *m, dg_pickle_kind kind, int64_t n)
{
    dg_pickle *v = make(m, kind);

    v->integer = n;
    push(m, v);
}

static void append(machine *m, dg_pickle *to, dg_pickle *v)
{
    if (to->n == to->cap)
        to->items = dg_grow(m->arena, to->items, &to->cap, sizeof *to->items);
    to->items[to->n++] = v;
}

/* Height of the last mark, or of the bottom: values below it cannot be popped. */
static int floor_of(const machine *m)
{
    return m->marks.n ? m->marks.items[m->marks.n - 1] : 0;
}

static dg_pickle *pop(machine *m)
{
    return m->stack.n > floor_of(m) ? m->stack.items[--m->stack.n] : NULL;
}

static dg_pickle *top(const machine *m)
{
    return m->stack.n > floor_of(m) ? m->stack.items[m->stack.n - 1] : NULL;
}

/* Moves the values above the mark into a container and removes the mark; -1 without a mark. */
static int collect_marked(machine *m, dg_pickle *into)
{
    if (!m->marks.n)
        return -1;
    int from = m->marks.items[--m->marks.n];

    for (int i = from; i < m->stack.n; i++)
        append(m, into, m->stack.items[i]);
    m->stack.n = from;
    return 0;
}

static bool read_le(machine *m, int n, uint64_t *out)
{
    if (m->end - m->p < n)
        return false;
    *out = 0;
    for (int i = 0; i < n; i++)
        *out |= (uint64_t)m->p[i] << 8 * i;
    m->p += n;
    return true;
}

static int push_text(machine *m, uint64_t n)
{
    if (n > (uint64_t)(m->end - m->p))
        return broken(m, "text runs past the end");
    dg_pickle *v = make(m, DG_PK_TEXT);

    v->text = dg_strndup(m->arena, (const char *)m->p, n);
    m->p += n;
    push(m, v);
    return 0;
}

/* LONG1, LONG4: little-endian two's complement of n bytes. */
static int push_long(machine *m, uint64_t n)
{
    if (n > (uint64_t)(m->end - m->p))
        return broken(m, "a number runs past the end");
    uint64_t v = n && n <= 8 && (m->p[n - 1] & 0x80) ? UINT64_MAX : 0;

    for (uint64_t i = 0; i < n && i < 8; i++)
        v = (v & ~(UINT64_C(0xFF) << 8 * i)) | (uint64_t)m->p[i] << 8 * i;
    m->p += n;
    push_int(m, n <= 8 ? DG_PK_INT : DG_PK_OTHER, (int64_t)v);
    return 0;
}

static int push_memo(machine *m, uint64_t i)
{
    if (i >= (uint64_t)m->memo.n || !m->memo.items[i])
        return broken(m, "a reference to nothing");
    push(m, m->memo.items[i]);
    return 0;
}

static int put_memo(machine *m, uint64_t i)
{
    if (!top(m) || i > MAX_MEMO || i > (uint64_t)m->memo.n + 65536)
        return broken(m, "an impossible place in the memo");
    while ((uint64_t)m->memo.n <= i)
        DG_PUSH(m->arena, m->memo, NULL);
    m->memo.items[i] = top(m);
    return 0;
}

static int find_name(const char *name)
{
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(names[i].name, name) == 0)
            return (int)i;
    return -1;
}

static int push_name(machine *m, const char *module, const char *name)
{
    dg_pickle *v = make(m, DG_PK_NAME);

    v->text = dg_printf(m->arena, "%s.%s", module, name);
    if (find_name(v->text) < 0) {
        dg_fail(m->d, DG_EINPUT, (dg_where){ .file = m->file }, "pickle-name",
                "it asks for %s, which weights do not need; nothing from a file is ever run",
                v->text);
        dg_help(
            m->d,
            "save the model's state_dict() alone with torch.save, or convert it to safetensors");
        return -DG_EINPUT;
    }
    push(m, v);
    return 0;
}

/* One of GLOBAL's two lines; NULL past the end. */
static const char *read_line(machine *m)
{
    const uint8_t *newline = memchr(m->p, '\n', (size_t)(m->end - m->p));
    const char *s =
        newline ? dg_strndup(m->arena, (const char *)m->p, (size_t)(newline - m->p)) : NULL;

    if (newline)
        m->p = newline + 1;
    return s;
}

static int global(machine *m)
{
    const char *module = read_line(m), *name = module ? read_line(m) : NULL;

    return name ? push_name(m, module, name) : broken(m, "a name runs past the end");
}

static int stack_global(machine *m)
{
    dg_pickle *name = pop(m), *module = pop(m);

    if (!name || !module || name->kind != DG_PK_TEXT || module->kind != DG_PK_TEXT)
        return broken(m, "a name is expected");
    return push_name(m, module->text, name->text);
}

/* REDUCE and NEWOBJ: name, tuple of arguments -> what the name makes. */
static int reduce_call(machine *m)
{
    dg_pickle *args = pop(m), *name = pop(m);
    dg_pickle *v;

    if (!args || !name || args->kind != DG_PK_TUPLE || name->kind != DG_PK_NAME)
        return broken(m, "a call of something that is no name");
    switch (names[find_name(name->text)].makes) {
    case MAKE_TENSOR:
        v = make(m, DG_PK_TENSOR);
        v->items = args->items;
        v->n = args->n;
        break;
    case MAKE_FIRST:
        if (args->n < 1)
            return broken(m, "a parameter without tensor");
        v = args->items[0];
        break;
    case MAKE_DICT:
        v = make(m, DG_PK_DICT);
        break;
    case MAKE_TUPLE:
        v = args->n == 1 ? args->items[0] : args;
        break;
    case MAKE_OTHER:
        v = make(m, DG_PK_OTHER);
        break;
    default:
        return broken(m, "a call of a type that makes no tensor");
    }
    push(m, v);
    return 0;
}

static int set_items(machine *m, bool one)
{
    dg_pickle pairs = { 0 };

    if (one) {
        dg_pickle *value = pop(m), *key = pop(m);

        if (!key)
            return broken(m, "an entry without key");
        append(m, &pairs, key);
        append(m, &pairs, value);
    } else if (collect_marked(m, &pairs) < 0) {
        return broken(m, "entries without mark");
    }
    dg_pickle *to = top(m);

    if (!to || to->kind != DG_PK_DICT || pairs.n % 2)
        return broken(m, "entries for something that is no dictionary");
    for (int i = 0; i < pairs.n; i++)
        append(m, to, pairs.items[i]);
    return 0;
}

static int append_items(machine *m, bool one)
{
    dg_pickle items = { 0 };

    if (one) {
        dg_pickle *v = pop(m);

        if (v)
            append(m, &items, v);
    } else if (collect_marked(m, &items) < 0) {
        return broken(m, "items without mark");
    }
    dg_pickle *to = top(m);

    if (!to || to->kind != DG_PK_LIST)
        return broken(m, "items for something that is no list");
    for (int i = 0; i < items.n; i++)
        append(m, to, items.items[i]);
    return 0;
}

static int tuple(machine *m, int n)
{
    dg_pickle *v = make(m, DG_PK_TUPLE);

    if (n < 0) {
        if (collect_marked(m, v) < 0)
            return broken(m, "a tuple without mark");
    } else {
        if (m->stack.n - floor_of(m) < n)
            return broken(m, "a tuple of more than there is");
        for (int i = m->stack.n - n; i < m->stack.n; i++)
            append(m, v, m->stack.items[i]);
        m->stack.n -= n;
    }
    push(m, v);
    return 0;
}

static int persistent(machine *m)
{
    dg_pickle *id = pop(m), *v;

    if (!id || id->kind != DG_PK_TUPLE)
        return broken(m, "a persistent id that is no storage");
    v = make(m, DG_PK_STORAGE);
    v->items = id->items;
    v->n = id->n;
    append(m, &m->storages, v);
    push(m, v);
    return 0;
}

/* Executes one opcode; 1 at STOP. */
static int run_opcode(machine *m) /* NOLINT(readability-function-size): a case for each opcode */
{
    uint64_t u;
    uint8_t op = *m->p++;

#define LE(bytes)               \
    if (!read_le(m, bytes, &u)) \
    return broken(m, "it ends inside of an opcode")
    switch (op) {
    case 0x80:
        LE(1);
        return u >= 2 && u <= 5 ? 0 : broken(m, "a protocol other than 2 to 5");
    case 0x95:
        LE(8);
        return 0; /* FRAME */
    case '.':
        return 1;
    case '(':
        DG_PUSH(m->arena, m->marks, m->stack.n);
        return 0;
    case '0':
        return pop(m) ? 0 : broken(m, "nothing to pop");
    case 'N':
        push(m, make(m, DG_PK_NONE));
        return 0;
    case 0x88:
        push_int(m, DG_PK_BOOL, 1);
        return 0;
    case 0x89:
        push_int(m, DG_PK_BOOL, 0);
        return 0;
    case 'J':
        LE(4);
        push_int(m, DG_PK_INT, (int32_t)(uint32_t)u);
        return 0;
    case 'K':
        LE(1);
        push_int(m, DG_PK_INT, (int64_t)u);
        return 0;
    case 'M':
        LE(2);
        push_int(m, DG_PK_INT, (int64_t)u);
        return 0;
    case 0x8a:
        LE(1);
        return push_long(m, u);
    case 0x8b:
        LE(4);
        return push_long(m, u);
    case 'G':
        LE(8);
        push(m, make(m, DG_PK_REAL));
        return 0; /* its value is never needed */
    case 'X':
        LE(4);
        return push_text(m, u);
    case 0x8c:
        LE(1);
        return push_text(m, u);
    case 0x8d:
        LE(8);
        return push_text(m, u);
    case 'U':
    case 'C':
        LE(1);
        return push_text(m, u);
    case 'T':
    case 'B':
        LE(4);
        return push_text(m, u);
    case 'c':
        return global(m);
    case 0x93:
        return stack_global(m);
    case ']':
        push(m, make(m, DG_PK_LIST));
        return 0;
    case '}':
        push(m, make(m, DG_PK_DICT));
        return 0;
    case ')':
        return tuple(m, 0);
    case 0x85:
        return tuple(m, 1);
    case 0x86:
        return tuple(m, 2);
    case 0x87:
        return tuple(m, 3);
    case 't':
        return tuple(m, -1);
    case 'a':
        return append_items(m, true);
    case 'e':
        return append_items(m, false);
    case 's':
        return set_items(m, true);
    case 'u':
        return set_items(m, false);
    case 'q':
        LE(1);
        return put_memo(m, u);
    case 'r':
        LE(4);
        return put_memo(m, u);
    case 0x94:
        return put_memo(m, (uint64_t)m->memo.n);
    case 'h':
        LE(1);
        return push_memo(m, u);
    case 'j':
        LE(4);
        return push_memo(m, u);
    case 'Q':
        return persistent(m);
    case 'R':
    case 0x81:
        return reduce_call(m);
    case 'b':
        /* BUILD: attributes, ignored */
        return pop(m) && top(m) ? 0 : broken(m, "state for nothing");
    default:
        return dg_fail(m->d, DG_EINPUT, (dg_where){ .file = m->file }, "pickle-opcode",
                       "opcode 0x%02x at byte %zu of its pickle is none that weights need", op,
                       (size_t)(m->p - m->begin) - 1);
    }
#undef LE
}

int dg_pickle_parse(dg_pickle **out, dg_arena *a, const uint8_t *bytes, size_t n, size_t *used,
                    dg_pickle *storages, const char *file, dg_diag *d)
{
    machine m = { .arena = a, .p = bytes, .begin = bytes, .end = bytes + n, .file = file, .d = d };
    int rc = 0;

    *out = NULL;
    while (rc == 0) {
        if (m.p == m.end)
            return broken(&m, "it ends without STOP");
        if (m.n_values > MAX_VALUES)
            return broken(&m, "it holds more values than any model");
        rc = run_opcode(&m);
    }
    if (rc < 0)
        return rc;
    *out = pop(&m);
    if (used)
        *used = (size_t)(m.p - bytes);
    if (storages)
        *storages = m.storages;
    return *out ? 0 : broken(&m, "it holds nothing");
}

const dg_pickle *dg_pickle_get(const dg_pickle *v, const char *key)
{
    if (!v || v->kind != DG_PK_DICT)
        return NULL;
    for (int i = v->n - 2; i >= 0; i -= 2)
        if (v->items[i]->kind == DG_PK_TEXT && strcmp(v->items[i]->text, key) == 0)
            return v->items[i + 1];
    return NULL;
}
