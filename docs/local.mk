# Everything in docs is distributed and installed as it lies here, so that links lead to the same
# places: a new page needs a line here.
#
# The program generates man pages, completions and the language's schema from its tables.
# Add a line here for a new verb.
verb_pages = \
	docs/man/detrgraph.1 \
	docs/man/detrgraph-bench.1 \
	docs/man/detrgraph-check-node.1 \
	docs/man/detrgraph-ctl.1 \
	docs/man/detrgraph-data.1 \
	docs/man/detrgraph-doctor.1 \
	docs/man/detrgraph-evaluate.1 \
	docs/man/detrgraph-help.1 \
	docs/man/detrgraph-init.1 \
	docs/man/detrgraph-key.1 \
	docs/man/detrgraph-new.1 \
	docs/man/detrgraph-nodes.1 \
	docs/man/detrgraph-plan.1 \
	docs/man/detrgraph-predict.1 \
	docs/man/detrgraph-render.1 \
	docs/man/detrgraph-report.1 \
	docs/man/detrgraph-run.1 \
	docs/man/detrgraph-score.1 \
	docs/man/detrgraph-serve.1 \
	docs/man/detrgraph-top.1 \
	docs/man/detrgraph-validate.1 \
	docs/man/detrgraph-weights.1
bashcompletiondir = $(datadir)/bash-completion/completions
zshcompletiondir = $(datadir)/zsh/site-functions
dist_man_MANS += $(verb_pages)
nodist_bashcompletion_DATA = docs/completion/detrgraph
nodist_zshcompletion_DATA = docs/completion/_detrgraph
nodist_pkgdata_DATA = detrgraph.rng
printed = $(verb_pages) docs/completion/detrgraph docs/completion/_detrgraph detrgraph.rng
CLEANFILES += $(printed)
EXTRA_DIST += docs
nobase_dist_doc_DATA += docs/commands.md docs/control.md docs/data.md docs/editors.md \
	docs/embedding.md docs/first-hour.md docs/invariance.md docs/models.md docs/notebook.ipynb \
	docs/ops.md docs/packages.md docs/performance.md docs/python.md docs/ranks.md \
	docs/reports.md docs/tour.md docs/weights.md docs/writing-nodes.md docs/writing-ops.md \
	docs/xml.md \
	docs/decisions/README.md docs/decisions/backend.md docs/decisions/check-node.md \
	docs/decisions/checksums.md docs/decisions/collectives.md docs/decisions/concrete-shapes.md \
	docs/decisions/control-plane.md docs/decisions/cuda.md docs/decisions/guards.md \
	docs/decisions/heads.md docs/decisions/images.md docs/decisions/left-out.md \
	docs/decisions/libraries.md docs/decisions/memory.md docs/decisions/mixed-precision.md \
	docs/decisions/packing-in-kernels.md docs/decisions/padding.md \
	docs/decisions/parity-one-image.md docs/decisions/placement.md docs/decisions/plugin-abi.md \
	docs/decisions/rank-proof.md docs/decisions/rooms.md docs/decisions/run-parts.md \
	docs/decisions/short-runs.md docs/decisions/sync-norm.md \
	docs/decisions/tensorboard.md docs/decisions/weights.md \
	docs/pictures/pipeline.svg docs/pictures/pipeline.xml docs/pictures/rooms.svg \
	docs/stories/1_empty_batches.md docs/stories/2_evaluation.md docs/stories/3_added_layer.md \
	docs/stories/4_conditional_forward.md docs/stories/5_unequal_buckets.md \
	docs/stories/6_one_gpu.md docs/stories/7_same_pictures.md docs/stories/8_codetr.md \
	docs/stories/README.md

# writes the file whole or not at all
print = $(AM_V_GEN)$(MKDIR_P) $(@D) && ./detrgraph$(EXEEXT) $(1) >$@.new && mv -f $@.new $@
$(printed): detrgraph$(EXEEXT)
$(verb_pages):
	$(call print,help --format man $(subst detrgraph,,$(subst detrgraph-,,$(basename $(@F)))))
docs/completion/detrgraph:
	$(call print,help --format bash)
docs/completion/_detrgraph:
	$(call print,help --format zsh)
detrgraph.rng:
	$(call print,nodes --schema)
