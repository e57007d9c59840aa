# Each target is one call of the tool; `make help` lists them.
PYTHON ?= python3
BASE ?=
STAGE ?=
MODE ?=
PYTORCH_SRC ?=
DROP ?=
AGAIN ?=

tool := $(PYTHON) scripts/bootstrap.py
checkout = $(if $(BASE),--base '$(BASE)') $(if $(PYTORCH_SRC),--pytorch-src '$(PYTORCH_SRC)')
stage = $(if $(STAGE),--stage '$(STAGE)')
mode = $(if $(MODE),--mode '$(MODE)')

.PHONY: help apply continue abort status build test doctor clean distclean self-test lint

help:
	@$(tool) --help

apply:
	@$(tool) apply $(stage) $(checkout) $(if $(DROP),--drop '$(DROP)')

continue abort:
	@$(tool) $@ $(checkout)

status:
	@$(tool) status $(checkout) $(mode)

build:
	@$(tool) build $(stage) $(checkout) $(mode)

test:
	@$(tool) test $(stage) $(checkout) $(mode) $(if $(AGAIN),--again)

doctor:
	@$(tool) doctor $(if $(BASE),--base '$(BASE)')

clean:
	@$(tool) clean

distclean:
	@$(tool) clean --all
