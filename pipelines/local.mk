# Installed under $(pkgdatadir), folders kept.
nobase_dist_pkgdata_DATA += \
	pipelines/bccd_r18vd.xml \
	pipelines/parts/coco_evaluate.xml \
	pipelines/parts/coco_train.xml \
	pipelines/parts/rtdetr_head.xml \
	pipelines/parts/rtdetr_step.xml \
	pipelines/quickstart.xml \
	pipelines/rtdetr_r101vd_coco.xml \
	pipelines/rtdetr_r18vd_coco.xml \
	pipelines/rtdetr_r34vd_coco.xml \
	pipelines/rtdetr_r50vd_coco.xml \
	pipelines/rtdetr_r50vd_m_coco.xml \
	pipelines/rtdetrv2_r101vd_coco.xml \
	pipelines/rtdetrv2_r18vd_coco.xml \
	pipelines/rtdetrv2_r34vd_coco.xml \
	pipelines/rtdetrv2_r50vd_coco.xml \
	pipelines/rtdetrv2_r50vd_m_coco.xml \
	pipelines/stories/1_empty_batches_pad.xml \
	pipelines/stories/1_empty_batches_vote.xml \
	pipelines/stories/1_empty_batches_wrong.xml \
	pipelines/stories/2_evaluation.xml \
	pipelines/stories/2_evaluation_wrong.xml \
	pipelines/stories/3_added_layer.xml \
	pipelines/stories/3_added_layer_wrong.xml \
	pipelines/stories/4_conditional_forward.xml \
	pipelines/stories/4_conditional_forward_chunks.xml \
	pipelines/stories/4_conditional_forward_wrong.xml \
	pipelines/stories/5_unequal_buckets.xml \
	pipelines/stories/5_unequal_buckets_equalize.xml \
	pipelines/stories/5_unequal_buckets_validation_wrong.xml \
	pipelines/stories/5_unequal_buckets_wrong.xml \
	pipelines/stories/6_one_gpu.xml \
	pipelines/stories/6_one_gpu_wrong.xml \
	pipelines/stories/7_same_pictures.xml \
	pipelines/stories/7_same_pictures_wrong.xml \
	pipelines/stories/parts/data.xml \
	pipelines/stories/parts/update.xml
