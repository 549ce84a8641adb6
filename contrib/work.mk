# From an issue to a pull request with make: a phase is rerun only when its inputs have changed.
#
#   make -f work.mk work [ISSUE=7] [LOOP=3]
#
# A rejecting review writes o/work/do/feedback.md, which makes do stale, so it is repeated, at most LOOP times.

AH    ?= ah
LOOP  ?= 3
ISSUE ?=
FLAGS ?=

self  := $(lastword $(MAKEFILE_LIST))
dir   := o/work
run   := $(AH) work --converge $(LOOP) $(if $(ISSUE),-i $(ISSUE)) $(FLAGS)

.PHONY: work
work:
	@for round in $$(seq $(LOOP)); do \
	  $(MAKE) --no-print-directory -f $(self) $(dir)/check/actions.json || exit 1; \
	  grep -Eq '"verdict": *"needs-fixes"' $(dir)/check/actions.json || break; \
	done
	$(run) act

$(dir)/plan/plan.md:
	$(run) plan

$(dir)/do/do.md: $(dir)/plan/plan.md $(wildcard $(dir)/do/feedback.md)
	$(run) do
	@touch -c $@

$(dir)/check/actions.json: $(dir)/do/do.md
	$(run) push
	$(run) check
