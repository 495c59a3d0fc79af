/* layout.c: prints the offsets of the members of the public structs; built with old headers and
 * with today's. */
#include <detrgraph/plugin.h>

#include <stdio.h>

#define M(type, member) \
    printf("%s.%s %zu %zu\n", #type, #member, offsetof(type, member), \
           sizeof(((type *)0)->member))
/* of those that stand in arrays or are passed by value */
#define S(type) printf("sizeof %s %zu\n", #type, sizeof(type))

int main(void)
{
    S(dg_where), S(dg_shape), S(dg_tensor), S(dg_val), S(dg_init), S(dg_field), S(dg_port),
    S(dg_attr), S(dg_child_class), S(dg_child);
    S(dg_when), S(dg_ints), S(dg_size), S(dg_sizes), S(dg_feed), S(dg_pick), S(dg_object),
    S(dg_box), S(dg_image), S(dg_kernel);
    S(dg_item_info), S(dg_collective), S(dg_coco_class), S(dg_coco_annotation), S(dg_args),
    S(dg_tensor);
    M(dg_plugin, size), M(dg_plugin, name), M(dg_plugin, version), M(dg_plugin, classes);
    M(dg_port, name), M(dg_port, type), M(dg_port, flags), M(dg_port, doc);
    M(dg_attr, name), M(dg_attr, kind), M(dg_attr, offset), M(dg_attr, required), M(dg_attr, def),
    M(dg_attr, lo), M(dg_attr, hi);
    M(dg_attr, text), M(dg_attr, doc);
    M(dg_shape, rank), M(dg_shape, d), M(dg_tensor, dtype), M(dg_tensor, shape), M(dg_tensor, data);
    M(dg_node_class, size), M(dg_node_class, port_size), M(dg_node_class, attr_size),
    M(dg_node_class, name), M(dg_node_class, role);
    M(dg_node_class, brief), M(dg_node_class, doc), M(dg_node_class, ports),
    M(dg_node_class, attrs), M(dg_node_class, conf_size);
    M(dg_node_class, children), M(dg_node_class, children_offset), M(dg_node_class, collectives),
    M(dg_node_class, reference);
    M(dg_node_class, check), M(dg_node_class, type), M(dg_node_class, lower),
    M(dg_node_class, control), M(dg_node_class, open);
    M(dg_node_class, schedule), M(dg_node_class, sizes), M(dg_node_class, item),
    M(dg_node_class, feeds), M(dg_node_class, fill);
    M(dg_node_class, capacity), M(dg_node_class, begin), M(dg_node_class, take),
    M(dg_node_class, finish), M(dg_node_class, classes);
    M(dg_op, size), M(dg_op, name), M(dg_op, signature), M(dg_op, effect), M(dg_op, precision),
    M(dg_op, attr_bytes), M(dg_op, fields);
    M(dg_op, shape), M(dg_op, grad), M(dg_op, ref32), M(dg_op, ref64), M(dg_op, host),
    M(dg_op, cuda), M(dg_op, tolerance), M(dg_op, flops);
    M(dg_args, t), M(dg_args, n), M(dg_args, attr), M(dg_args, control), M(dg_args, workspace),
    M(dg_args, handle), M(dg_args, threads);
    M(dg_prepare, t), M(dg_prepare, n), M(dg_prepare, attr), M(dg_prepare, threads),
    M(dg_prepare, handle), M(dg_prepare, workspace_bytes);
    M(dg_infer, n_in), M(dg_infer, n_out), M(dg_infer, in), M(dg_infer, in_type),
    M(dg_infer, attr), M(dg_infer, out), M(dg_infer, out_type);
    M(dg_infer, ctx), M(dg_grad_call, n_in), M(dg_grad_call, n_out), M(dg_grad_call, in),
    M(dg_grad_call, out), M(dg_grad_call, dout);
    M(dg_grad_call, attr), M(dg_grad_call, wanted), M(dg_grad_call, din);
    M(dg_sample, size), M(dg_sample, index), M(dg_sample, item), M(dg_sample, image_id),
    M(dg_sample, path), M(dg_sample, orig_w);
    M(dg_sample, orig_h), M(dg_sample, image), M(dg_sample, n_objects), M(dg_sample, objects),
    M(dg_sample, scratch);
    M(dg_clock, step), M(dg_clock, epoch), M(dg_clock, n_steps), M(dg_clock, n_epochs),
    M(dg_clock, steps_per_epoch), M(dg_clock, minutes);
    M(dg_dataset, size), M(dg_dataset, n_items), M(dg_dataset, n_classes), M(dg_dataset, self),
    M(dg_dataset, info), M(dg_dataset, sample);
    M(dg_dataset, classes), M(dg_dataset, truths), M(dg_dataset, n_truths), M(dg_dataset, report),
    M(dg_dataset, digest), M(dg_dataset, name);
    M(dg_dataset, probe), M(dg_dataset, replace), M(dg_dataset, close);
    M(dg_item_info, id), M(dg_item_info, name), M(dg_item_info, w), M(dg_item_info, h),
    M(dg_item_info, n_objects);
    M(dg_coco_class, id), M(dg_coco_class, name), M(dg_coco_annotation, id),
    M(dg_coco_annotation, image), M(dg_coco_annotation, label);
    M(dg_coco_annotation, x), M(dg_coco_annotation, y), M(dg_coco_annotation, w),
    M(dg_coco_annotation, h), M(dg_coco_annotation, area);
    M(dg_coco_annotation, crowd), M(dg_pick, w), M(dg_pick, h), M(dg_pick, items),
    M(dg_feed, key), M(dg_feed, dtype), M(dg_feed, shape);
    M(dg_schedule, n_picks), M(dg_schedule, picks), M(dg_schedule, batch),
    M(dg_schedule, dropped), M(dg_schedule, padded);
    M(dg_schedule_args, data), M(dg_schedule_args, epoch), M(dg_schedule_args, seed),
    M(dg_schedule_args, ranks), M(dg_schedule_args, alloc);
    M(dg_schedule_args, arena), M(dg_object, box), M(dg_object, label), M(dg_object, crowd),
    M(dg_object, area);
    M(dg_sink_args, data), M(dg_sink_args, folder), M(dg_sink_args, scope), M(dg_sink_args, step),
    M(dg_sink_args, ema);
    M(dg_sink_args, ema_weight), M(dg_sink_args, n_loaded), M(dg_sink_batch, n),
    M(dg_sink_batch, samples), M(dg_sink_batch, padding);
    M(dg_sink_batch, n_in), M(dg_sink_batch, keys), M(dg_sink_batch, in);
    M(dg_control, seed), M(dg_control, step), M(dg_control, batch), M(dg_control, epoch),
    M(dg_control, sample), M(dg_control, lr);
    return 0;
}
