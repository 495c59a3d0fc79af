/* contract: any bytes as one or two port types, parted by a line's end: read, printed, read
 * again, unified. */
#include <stdlib.h>
#include <string.h>

#include "graph/contract.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    dg_arena *a = dg_arena_open();
    dg_dims dims = { .arena = a };
    dg_letters letters = { .dims = &dims }, others = letters;
    char *text = dg_strndup(a, (const char *)data, n), *second = strchr(text, '\n');
    const char *why;
    int at;
    dg_str out = { 0 }, again = { 0 };
    const dg_contract *from, *to;

    if (second)
        *second++ = '\0';
    from = dg_contract_parse(&letters, text, 0, &at, &why);
    to = second ? dg_contract_parse(&others, second, 0, &at, &why) : from;
    if (from) {
        dg_contract_print(&out, &dims, from);
        from = dg_contract_parse(&letters, out.s, 0, &at, &why);
        if (!from)
            abort(); /* what is printed can be read */
    }
    if (from && to) {
        (void)dg_contract_unify(&dims, from, to, &again);
        dg_contract_print(&again, &dims, from);
    }
    dg_str_free(&out);
    dg_str_free(&again);
    dg_arena_close(&a);
    return 0;
}
