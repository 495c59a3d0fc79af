/* plan_json.c: a plan as JSON: memory, work, and the instructions with the places of their
 * outputs. */
#include "tensor/plan.h"

static void add_output(dg_str *out, const dg_program *p, int32_t v)
{
    const dg_value *x = &p->values.items[v];

    dg_str_fmt(out, "{\"value\":%d,\"type\":\"%s\",\"shape\":[", (int)v, dg_dtype_name(x->dtype));
    for (int i = 0; i < x->shape.rank; i++)
        dg_str_fmt(out, "%s%lld", i ? "," : "", (long long)x->shape.d[i]);
    dg_str_fmt(out, "],\"space\":\"%s\",\"offset\":%lld,\"bytes\":%zu,\"name\":",
               dg_space_name(x->space), (long long)x->offset, dg_plan_value_bytes(p, v));
    dg_str_json(out, x->name);
    dg_str_add(out, "}");
}

static void add_instr(dg_str *out, const dg_plan *plan, int i)
{
    static const char *const phases[] = { "forward", "gradient", "recompute", "optimize" };
    const dg_program *p = plan->program;
    const dg_instr *in = &p->instrs.items[i];
    const char *comma = "";

    dg_str_fmt(out,
               "%s\n  {\"op\":\"%s\",\"phase\":\"%s\",\"segment\":\"%s\",\"node\":", i ? "," : "",
               in->op->name, phases[in->phase], in->segment == DG_SEG_BATCH ? "batch" : "update");
    dg_str_json(out, in->origin.where.node);
    dg_str_add(out, ",\"file\":");
    dg_str_json(out, in->origin.where.file);
    dg_str_fmt(out, ",\"line\":%d,\"in\":[", in->origin.where.line);
    for (int k = 0; k < in->n_in; k++)
        dg_str_fmt(out, "%s%d", k ? "," : "", (int)in->v[k]);
    dg_str_add(out, "],\"out\":[");
    for (int k = in->n_in; k < in->n_in + in->n_out; k++)
        if (in->v[k]) {
            dg_str_add(out, comma);
            add_output(out, p, in->v[k]);
            comma = ",";
        }
    dg_str_add(out, "],\"flops\":");
    dg_str_json_real(out, plan->instrs[i].flops);
    dg_str_add(out, ",\"bytes\":");
    dg_str_json_real(out, plan->instrs[i].bytes);
    dg_str_fmt(out, ",\"workspace\":%zu,\"reference\":%s,\"staged\":%s}",
               plan->instrs[i].workspace_bytes, plan->instrs[i].is_ref ? "true" : "false",
               plan->instrs[i].staged ? "true" : "false");
}

void dg_plan_json(dg_str *out, const dg_plan *plan, bool instructions)
{
    const dg_program *p = plan->program;
    double flops = 0, bytes = 0;
    dg_str staged = { 0 };

    for (int i = 0; i < p->instrs.n; i++) {
        flops += plan->instrs[i].flops;
        bytes += plan->instrs[i].bytes;
    }
    dg_str_fmt(out,
               "{\"training\":%s,\"threads\":%d,\"n_instructions\":%d,\"slab_bytes\":%lld,\"live_"
               "peak_bytes\":%lld,\"workspace_bytes\":%lld,"
               "\"constant_bytes\":%lld,\"io_bytes\":%lld,\"report_bytes\":%lld,\"parameters\":%"
               "lld,\"trainable\":%lld,"
               "\"flops\":",
               p->training ? "true" : "false", plan->threads, p->instrs.n,
               (long long)plan->slab_bytes, (long long)plan->live_peak_bytes,
               (long long)plan->workspace_bytes, (long long)plan->constant_bytes,
               (long long)plan->io_bytes, (long long)plan->report_bytes,
               (long long)dg_params_elements(p->params), (long long)dg_params_trainable(p->params));
    dg_str_json_real(out, flops);
    dg_str_add(out, ",\"bytes\":");
    dg_str_json_real(out, bytes);
    dg_str_fmt(out, ",\"digest\":\"%016llx\"", (unsigned long long)dg_plan_digest(plan));
    dg_plan_staged(&staged, plan);
    dg_str_add(out, ",\"staged\":");
    dg_str_json(out, staged.s ? staged.s : "");
    dg_str_free(&staged);
    if (instructions) {
        dg_str_add(out, ",\n \"instructions\":[");
        for (int i = 0; i < p->instrs.n; i++)
            add_instr(out, plan, i);
        dg_str_add(out, "]");
    }
    dg_str_add(out, "}\n");
}
