# The tool's verbs are targets. Their variables, such as STAGE=, reach the tool
# through the environment, to which make adds those of its command line.
# `make help` lists them.

# The tool's own Python starts it without a detour; bootstrap.py makes it.
ifeq ($(origin PYTHON),undefined)
PYTHON := $(firstword $(filter %/env/bin/python,$(wildcard $(or $(XPU_STACK_HOME),.xpu)/env/bin/python)) python3)
endif
MAKEFLAGS += --no-print-directory
SHELL := bash
.SHELLFLAGS := -o pipefail -c

tool := $(PYTHON) scripts/bootstrap.py

# $ in a value is not for make.
$(foreach one,$(.VARIABLES),$(if $(filter command,$(origin $(one))),\
	$(eval override $(one) := $$(value $(one)))$(eval export $(one))))

verbs := help apply rebase undo redo history continue abort resolutions status show diff which \
	export new edit drop undrop fold split move rename check build test bisect sanitize \
	python own-tests shell wheel test-wheel extension test-extension tidy bench bench-ops \
	bench-tools review mail submit doctor clean distclean reference

.PHONY: $(verbs) lint self-test verify verify-release verify-package

$(verbs):
	@$(tool) --variables $@

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

# + hands this make's flags and variables on to the makes of the steps. The first build
# installs what both bases need. With one seed both test the same types, whose kernels the
# CPU device's driver compiles once; with the seed that a run prints, another runs the
# same slow tests and the same sanitizer, and with TEST_SLOW=1 all. Most of that build is
# for one processor, and so is lint.
verify: ## Runs lint, check, test, self-test, tidy, sanitize; tests the fast wheel, and BASE=v2.13.
	+@export TEST_SEED=$${TEST_SEED:-$$RANDOM} TEST_SLOW=$${TEST_SLOW:-0.25}; \
		ci/steps '$(MAKE) check' '$(MAKE) -j2 lint build STAGE=device' \
		'$(MAKE) -j2 verify-release verify-package'

# Both at once: what one leaves of the processors while it links, installs or waits,
# the other takes. The longer one ends with what uses all processors by itself. Tests
# find the kernels that the extension had compiled, and a test of self-test builds what
# `make test` has compiled. `make test` has run the tests of Python as well: on the
# wheels run those that find a file that is missing in them. The sanitizers leave out the
# kernels' operators, which take minutes to compile with them, for one program of tests in
# C++; `make sanitize` has them.
kernels := test/test_xpu_kernels.py::TestProcesses
wheel := test/test_xpu.py $(addprefix $(kernels)::,test_cache test_package)
extension := $(addprefix test/test_xpu_runtime.py::,TestLoading TestSyclRuntime TestDevices) \
	test/test_stock_headers.py \
	$(addprefix $(kernels)::,test_cache test_package test_package_for_nvidia) \
	test/test_xpu_compile.py::TestInductor::test_cpp_wrapper
sanitizer := $(if $(filter 1,$(TEST_SLOW)),,$(if $(filter %0 %2 %4 %6 %8,$(TEST_SEED)),thread,address))
verify-release:
	+@ci/steps '$(MAKE) test' '$(MAKE) wheel MODE=fast' \
		'$(MAKE) test-wheel MODE=fast ARGS="$(wheel)"' '$(MAKE) tidy' \
		'$(MAKE) sanitize STAGE=tensor WITH=$(sanitizer)' 2>&1 | sed -u 's/^/[release] /'

verify-package:
	+@ci/steps '$(MAKE) check BASE=v2.13' '$(MAKE) extension BASE=v2.13' \
		'$(MAKE) test BASE=v2.13 LAST=1' '$(MAKE) test-extension BASE=v2.13 ARGS="$(extension)"' \
		'$(MAKE) self-test' 2>&1 | sed -u 's/^/[package] /'
