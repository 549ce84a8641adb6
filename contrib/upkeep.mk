# Dependencies are brought up to date on a branch, and a pull request is opened. The update alone has a network, and no
# agent; the agent that mends what it breaks has none, and no token.
#
#   make -f upkeep.mk upkeep UPDATE='npm update' TEST='npm test' HOSTS=registry.npmjs.org:443
#
# Begin in a clean checkout of the base. Only tracked files are committed; nothing below .github is.

AH     ?= ah
GH     ?= gh
UPDATE ?= cargo update
TEST   ?= cargo test --offline
HOSTS  ?= index.crates.io:443 static.crates.io:443
BRANCH ?= upkeep/$(shell date +%Y-%m-%d)
FLAGS  ?=

dir   := o/upkeep
agent := env -u GH_TOKEN -u GITHUB_TOKEN $(AH) -n --sandbox --only-allowed-hosts --disallowed-tools=WebFetch,WebSearch $(FLAGS)
box   := env -u GH_TOKEN -u GITHUB_TOKEN $(AH) sandbox exec --workspace .

.PHONY: upkeep
upkeep:
	@git diff --quiet HEAD || { echo 'the checkout has changes' >&2; exit 1; }
	@mkdir -p $(dir) && echo '*' > o/.gitignore
	$(box) $(addprefix --allow-host=,$(HOSTS)) -- sh -c '$(UPDATE)'
	@git diff --quiet HEAD && echo 'nothing to update' || $(MAKE) --no-print-directory -f $(lastword $(MAKEFILE_LIST)) propose

.PHONY: propose
propose:
	$(box) -- sh -c '$(TEST)' > $(dir)/test.log 2>&1 || { \
	  echo 'Dependencies were updated (`git diff`), and `$(TEST)` fails: o/upkeep/test.log. Mend the source, not the tests.'; \
	  echo 'Then write o/upkeep/notes.md: what broke, and what you changed.'; \
	} | $(agent) --must-produce o/upkeep/notes.md
	$(box) -- sh -c '$(TEST)'
	@git diff --quiet HEAD -- .github || { echo 'a workflow was changed' >&2; exit 1; }
	git checkout --quiet -b '$(BRANCH)' && git commit --quiet --all --message 'dependencies: brought up to date'
	git push --quiet origin '$(BRANCH)'
	{ git diff --stat HEAD~1; echo; cat $(dir)/notes.md 2>/dev/null || true; } | head -c 20000 > $(dir)/body.md
	$(GH) pr create --head '$(BRANCH)' --title 'Dependencies brought up to date' --body-file $(dir)/body.md
