# Each target is one call of the tool; `make help` lists them.
PYTHON ?= python3
BASE ?=
STAGE ?=
MODE ?=
PYTORCH_SRC ?=
DROP ?=
AGAIN ?=
EACH ?=
TEST ?=
GOOD ?=
BAD ?=
CHANGE ?=
TITLE ?=
AFTER ?=
EMPTY ?=
SHOW ?=
FORGET ?=
ONTO ?=
LIKE ?=
DRY_RUN ?=
STEPS ?=

MAKEFLAGS += --no-print-directory

tool := $(PYTHON) scripts/bootstrap.py
# an option with what a variable says, quoted for the shell
option = $(if $($(2)),$(1) '$(subst ','\'',$($(2)))')
checkout = $(call option,--base,BASE) $(call option,--pytorch-src,PYTORCH_SRC)
stage = $(call option,--stage,STAGE)
mode = $(call option,--mode,MODE)

.PHONY: $(shell sed -n 's/^\([a-z][a-z -]*\):\($$\|[^=].*\)/\1/p' $(firstword $(MAKEFILE_LIST)))

help:
	@$(tool) help

apply:
	@$(tool) apply $(stage) $(checkout) $(call option,--drop,DROP)

rebase:
	@$(tool) rebase $(call option,--onto,ONTO) $(stage) $(checkout) $(call option,--drop,DROP) $(if $(DRY_RUN),--dry-run)

undo:
	@$(tool) undo $(checkout) $(call option,--steps,STEPS)

continue:
	@$(tool) continue $(checkout) $(if $(EMPTY),--empty)

abort:
	@$(tool) abort $(checkout)

resolutions:
	@$(tool) resolutions $(call option,--show,SHOW) $(call option,--forget,FORGET) $(call option,--base,BASE)

status:
	@$(tool) status $(checkout) $(mode)

export:
	@$(tool) export $(checkout) $(call option,--like,LIKE)

new:
	@$(tool) new $(call option,--change,CHANGE) $(call option,--title,TITLE) $(call option,--after,AFTER) \
		$(call option,--base,BASE)

check:
	@$(tool) check $(call option,--base,BASE)

build:
	@$(tool) build $(stage) $(checkout) $(mode)

test:
	@$(tool) test $(stage) $(checkout) $(mode) $(if $(AGAIN),--again) $(if $(EACH),--each)

bisect:
	@$(tool) bisect $(call option,--test,TEST) $(call option,--good,GOOD) $(call option,--bad,BAD) \
		$(stage) $(checkout) $(mode) $(if $(AGAIN),--again)

sanitize:
	@$(tool) sanitize $(stage) $(checkout) $(call option,--with,WITH) $(if $(AGAIN),--again)

python:
	@$(tool) python $(stage) $(checkout) $(mode) -- $(ARGS)

own-tests:
	@$(tool) own-tests $(stage) $(checkout) $(mode)

shell:
	@$(tool) shell $(stage) $(checkout) $(mode)

wheel:
	@$(tool) wheel $(stage) $(checkout) $(mode)

test-wheel:
	@$(tool) test-wheel $(stage) $(checkout) $(mode)

tidy:
	@$(tool) tidy $(stage) $(checkout)

bench:
	@$(tool) bench $(stage) $(checkout) $(if $(QUICK),--quick) $(if $(PUBLISH),--publish)

review:
	@$(tool) review $(checkout) $(call option,--since,SINCE) $(call option,--out,OUT)

mail:
	@$(tool) mail $(checkout) $(call option,--out,OUT)

submit:
	@$(tool) submit $(stage) $(checkout) $(call option,--branch,BRANCH) $(if $(DRY_RUN),--dry-run)

doctor:
	@$(tool) doctor $(call option,--base,BASE)

clean: ## Removes what was built; refuses while a conflict is unresolved.
	@$(tool) clean

distclean: ## Removes all that the tool has made; refuses while a checkout has work of yours.
	@$(tool) clean --all

reference:
	@$(tool) reference

# The checks of the toolkit itself, and everything together.
lint: ## Checks the toolkit's style and types.
	@$(tool) --dev -m ruff check .
	@$(tool) --dev -m ruff format --check .
	@$(tool) --dev -m mypy
	@$(tool) --dev -m check_jsonschema --builtin-schema vendor.github-workflows ci/workflows/*.yml

# The tests of the real base copy it, so that many at once want a large disk. In
# alphabetical order the file that takes longest is not among the last.
self-test: ## Runs the toolkit's tests.
	@$(tool) --dev -m pytest --numprocesses auto --maxprocesses 4 --no-loadscope-reorder $(ARGS)

# + hands this make's flags and variables on to the makes of the steps.
verify: ## Runs lint, check, self-test, test, tidy and sanitize; builds and tests the fast wheel.
	+@ci/steps $(foreach step,lint check self-test test tidy sanitize,'$(MAKE) $(step)') \
		'$(MAKE) wheel MODE=fast' '$(MAKE) test-wheel MODE=fast'
