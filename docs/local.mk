# Everything in docs is distributed; pages that are installed are named.
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
dist_doc_DATA += docs/commands.md docs/control.md docs/data.md docs/editors.md \
	docs/embedding.md docs/first-hour.md docs/invariance.md docs/ops.md docs/packages.md \
	docs/performance.md docs/python.md docs/ranks.md \
	docs/reports.md docs/tour.md docs/weights.md docs/writing-nodes.md docs/writing-ops.md \
	docs/xml.md

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
