# Installed under $(pkgdatadir), folders kept.
nobase_dist_pkgdata_DATA += \
	pipelines/bccd_r18vd.xml \
	pipelines/parts/coco_evaluate.xml \
	pipelines/parts/coco_train.xml \
	pipelines/parts/rtdetr_head.xml \
	pipelines/parts/rtdetr_step.xml \
	pipelines/quickstart.xml \
	pipelines/rtdetr_r18vd_coco.xml \
	pipelines/rtdetrv2_r101vd_coco.xml \
	pipelines/rtdetrv2_r18vd_coco.xml \
	pipelines/rtdetrv2_r34vd_coco.xml \
	pipelines/rtdetrv2_r50vd_coco.xml \
	pipelines/rtdetrv2_r50vd_m_coco.xml
