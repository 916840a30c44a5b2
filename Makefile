# Everything a developer types. A fresh machine needs Python >= 3.10, a C++20 compiler (g++ >= 12 or
# clang >= 14) and make; the rest is installed into $(VENV).
#
#   make demo      train a small network on handwritten digits
#   make test      build, then the tests; without those that take long, which are: make slow
#   make dev       editable build; run it again after a change of C++ or of the op table
#   make variants  parts of the suite as on other machines: AVX2 alone, no AVX, eight threads, one, no deferred layout, recorded
#   make fuzz      random calls in child processes: CALLS=100000 SEED=0 FUZZ="--replay 17"; fuzz-asan: under sanitizers
#   make large     tensors of more than 2^31 elements: minutes, and up to 20 GiB
#   make fuzz-files  files that are almost right, at random: CALLS=100000 SEED=0 FUZZ="--replay 17"
#   make parity    compare with PyTorch, which is installed apart from everything else
#   make packages  packages that were written for PyTorch (transformers, Lightning, timm, ...), installed apart, and their tests
#   make bench     benchmarks
#   make lint      style, layers, types        make stubs     write src/flambeau/*.pyi again
#   make docs      the documentation site, in build/site; nothing is fetched
#   make core      the core's own tests (csrc/tests), in a build without oneDNN; plain: that build's suite, too
#   make asan      the core's own tests under AddressSanitizer and UndefinedBehaviorSanitizer
#   make tsan      ... and under ThreadSanitizer
#   make wheel     a wheel in dist/            make clean     remove all of this
#   make wheels    wheels for other machines, of every Python that is found (PYTHONS="3.10 3.13"), each installed and used
#   make installs  every way to install it, each from nothing; leaves the wheel in dist/
#
# Variables: PYTHON, VENV, BUILD, ISAS (auto, native or a list), ONEDNN (ON, OFF), TESTS, JOBS, PYTEST_ARGS.

PYTHON ?= python3
VENV   ?= .venv
ISAS   ?= auto
ONEDNN ?= ON
SANITIZE ?=
CORE   ?= OFF
BUILD  ?= build/editable
TESTS  ?= tests
# As many tests at once as there are processors, but no more than four: many use threads themselves.
JOBS ?= $(shell n=$$(nproc 2>/dev/null || echo 2); echo $$((n < 4 ? n : 4)))
PYTEST_ARGS ?= -q -n $(JOBS)
TORCH       ?= torch==2.13.0
TORCH_DIR   ?= build/torch

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DELETE_ON_ERROR:
.SUFFIXES:

BIN     := $(abspath $(VENV))/bin
PY      := $(BIN)/python
PIP     := $(PY) -m pip --disable-pip-version-check -q
# A sanitizer's report names functions and lines.
STRIP   := $(if $(SANITIZE),,--strip)
# The tools of the environment come first, and no user setting leaks in.
export PATH := $(BIN):$(PATH)
unexport PYTHONPATH PYTHONHOME PYTHONDONTWRITEBYTECODE

ifeq ($(ONEDNN),ON)
BUILD_GROUP := build
else
BUILD_GROUP := build-plain
endif

CXX_SOURCES := CMakeLists.txt $(shell find csrc ops cmake tools/opgen -type f -not -name '*.pyc' -not -path 'csrc/tests/*') \
               src/flambeau/_tensor.pyi.in

# A stamp has the time at which its work began: what is edited meanwhile is newer, and is taken up the next time.
BEGIN = @mkdir -p $(@D) && touch $@.begun
DONE  = @mv -f $@.begun $@

.PHONY: demo test slow large variants dev fuzz fuzz-files fuzz-asan parity packages bench lint types stubs docs core plain asan tsan wheel wheels installs clean help

help:
	@sed -n '/^#   make/s/^#   //p' Makefile

# ---- environment

$(VENV)/.deps: pyproject.toml
	$(BEGIN)
	test -x $(PY) || $(PYTHON) -m venv $(VENV)
	$(PIP) install -U "pip>=25.1"
	$(PIP) install --group $(BUILD_GROUP) --group test
	$(DONE)

$(VENV)/.lint: $(VENV)/.deps
	$(BEGIN)
	$(PIP) install --group lint
	$(DONE)

# ---- editable build: Python files are used where they lie; the module is built in $(BUILD)

$(VENV)/.installed: $(VENV)/.deps
	$(BEGIN)
	$(PY) -m pip install -v --no-build-isolation --no-deps -e . -C build-dir=$(BUILD) \
	  -C cmake.define.FLAMBEAU_ISAS="$(ISAS)" -C cmake.define.FLAMBEAU_ONEDNN=$(ONEDNN) \
	  -C cmake.define.FLAMBEAU_SANITIZE="$(SANITIZE)" -C cmake.define.FLAMBEAU_TESTS=$(CORE)
	$(DONE)

# After the first time ninja builds what changed, and only the module is copied.
$(VENV)/.built: $(VENV)/.installed $(CXX_SOURCES)
	$(BEGIN)
	cmake --build $(BUILD)
	cmake --install $(BUILD) $(STRIP) --prefix "$$($(PY) -c 'import sysconfig; print(sysconfig.get_path("platlib"))')" >/dev/null
	$(DONE)

dev: $(VENV)/.built

demo: $(VENV)/.built
	$(BIN)/flambeau demo --out build

# Which tests: not those that take long, mostly since they start processes. MARKS="not large" takes all.
MARKS ?= not large and not slow

test: $(VENV)/.built
	$(PY) -m pytest $(TESTS) --ignore=tests/parity --ignore=tests/packages -m "$(MARKS)" $(PYTEST_ARGS)

slow:
	$(MAKE) test MARKS="slow and not large"

# What a processor, a number of threads, a layout or a recording could change. The build has all instruction sets (ISAS=auto).
# The last line runs each test inside of flambeau.lazy(), without those of memory and moments (the marker `eager`), and without slow ones:
# most of these start processes, which would know nothing of it.
VARIANT_TESTS ?= tests/core tests/nn tests/ops tests/autograd tests/amp tests/optim

variants: $(VENV)/.built
	FLAMBEAU_ISA=v3 ONEDNN_MAX_CPU_ISA=AVX2 FLAMBEAU_NUM_THREADS=8 FLAMBEAU_OVERSUBSCRIBE=1 \
	  $(PY) -m pytest $(VARIANT_TESTS) $(PYTEST_ARGS)
	FLAMBEAU_ISA=base ONEDNN_MAX_CPU_ISA=SSE41 FLAMBEAU_NUM_THREADS=1 FLAMBEAU_LAYOUT=plain \
	  $(PY) -m pytest $(VARIANT_TESTS) $(PYTEST_ARGS)
	FLAMBEAU_TEST_LAZY=1 $(PY) -m pytest $(VARIANT_TESTS) -m "not large and not slow" $(PYTEST_ARGS)

# Our own kernels alone, with the order of locks insisted on, and the core's tests. Those that fork beside threads run here
# only: no sanitizer bears them.
PLAIN := VENV=.venv-plain BUILD=build/plain ONEDNN=OFF ISAS=native CORE=ON
PLAIN_TESTS ?= tests/ops tests/nn tests/autograd tests/core/test_thread_counts.py

core:
	$(MAKE) $(PLAIN) dev
	cmake --build build/plain --target core_tests
	build/plain/core_tests

plain: core
	$(MAKE) $(PLAIN) test TESTS="$(PLAIN_TESTS)" MARKS="not large"

large: $(VENV)/.built
	$(PY) -m pytest tests/large -m large $(PYTEST_ARGS) -n 0

# Random calls in child processes (tests/fuzz). The sanitized module has an environment of its own, since Python itself
# is not instrumented and gets the sanitizer's runtime by preloading.
CALLS ?= 100000
SEED  ?= 0
FUZZ  ?=

fuzz: $(VENV)/.built
	PYTHONPATH=tests:tools $(PY) -m fuzz --calls $(CALLS) --seed $(SEED) $(FUZZ)

# Files of all formats, changed at random, in child processes (tests/io/mutations.py).
fuzz-files: $(VENV)/.built
	$(PY) tests/io/mutations.py --count $(CALLS) --seed $(SEED) $(FUZZ)

# Blocks of tensors come from malloc, and what faults is the sanitizer's to report, so that a finding has a stack. A block of
# more than 1 GiB is refused, in place of the limit on addresses that an ordinary run has. Leaks are tests/leaks' matter:
# the interpreter gives little back at its end.
ASAN_MODULE  := VENV=.venv-asan BUILD=build/asan-module ISAS=native SANITIZE=address,undefined
ASAN_RUNTIME  = $(foreach name,libasan.so libubsan.so,$(shell $(CXX) -print-file-name=$(name)))
ASAN_SET     := detect_leaks=0 allocator_may_return_null=1 max_allocation_size_mb=1024 malloc_context_size=12 quarantine_size_mb=64 \
                handle_segv=2 handle_sigbus=2 handle_sigfpe=2 handle_sigill=2 allow_user_segv_handler=0
EMPTY        :=

fuzz-asan:
	$(MAKE) $(ASAN_MODULE) dev
	ASAN_OPTIONS=$(subst $(EMPTY) ,:,$(strip $(ASAN_SET))) UBSAN_OPTIONS=print_stacktrace=1 PYTHONMALLOC=malloc FLAMBEAU_ALLOCATOR=malloc \
	PYTHONPATH=tests:tools LD_PRELOAD="$(ASAN_RUNTIME)" \
	  .venv-asan/bin/python -m fuzz --sanitizer --no-forks --calls $(CALLS) --seed $(SEED) $(FUZZ)

# ---- comparisons

$(TORCH_DIR)/.stamp: $(VENV)/.deps
	$(BEGIN)
	$(PIP) install --target $(TORCH_DIR) --upgrade $(TORCH)
	rm -rf $(TORCH_DIR)/numpy $(TORCH_DIR)/numpy-* $(TORCH_DIR)/numpy.libs
	$(DONE)

parity: $(VENV)/.built $(TORCH_DIR)/.stamp
	PYTHONPATH=$(TORCH_DIR) $(PY) -m pytest tests/parity $(PYTEST_ARGS)

# Without PyTorch: what wants it is installed without its requirements, and these apart.
PACKAGES_DIR ?= build/packages

$(PACKAGES_DIR)/.stamp: tests/packages/requirements.txt tests/packages/needs.txt | $(VENV)/.deps
	$(BEGIN)
	$(PIP) install --upgrade --target $(PACKAGES_DIR) --no-deps -r tests/packages/requirements.txt
	$(PIP) install --upgrade --target $(PACKAGES_DIR) -r tests/packages/needs.txt
	test ! -e $(PACKAGES_DIR)/torch
	$(DONE)

packages: $(VENV)/.built $(PACKAGES_DIR)/.stamp
	FLAMBEAU_PACKAGES=$(abspath $(PACKAGES_DIR)) $(PY) -m pytest tests/packages $(PYTEST_ARGS)

bench: $(VENV)/.built
	$(PY) -m benchmarks

# ---- checks

lint: $(VENV)/.lint
	$(BIN)/ruff check .
	$(PY) tools/check_layers.py
	$(PY) tools/check_imports.py
	$(PY) tools/check_idioms.py
	$(PY) tools/check_repo.py
	PYTHONPATH=tools $(PY) -m opgen check

types: $(VENV)/.lint $(VENV)/.built
	$(BIN)/mypy
	$(PY) -m pytest tests/typing $(PYTEST_ARGS) -n 0

stubs: $(VENV)/.deps
	PYTHONPATH=tools $(PY) -m opgen generate --out build/opgen --stub src/flambeau/_C.pyi

# ThreadSanitizer does not know libgomp's barriers, so the pool has one thread there and the tests' own
# threads are what is watched. oneDNN is left out: it is not instrumented either.
asan: $(VENV)/.deps
	cmake --preset asan -DPython_EXECUTABLE=$(PY)
	cmake --build --preset asan
	ASAN_OPTIONS=detect_leaks=1 UBSAN_OPTIONS=print_stacktrace=1 build/asan/core_tests

tsan: $(VENV)/.deps
	cmake --preset tsan -DPython_EXECUTABLE=$(PY)
	cmake --build --preset tsan
	TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1 FLAMBEAU_NUM_THREADS=1 OMP_NUM_THREADS=1 build/tsan/core_tests

# ---- documentation: a site in build/site, of docs/, docstrings, the op table and the benchmarks' results

$(VENV)/.docs: $(VENV)/.deps
	$(BEGIN)
	$(PIP) install --group docs
	$(DONE)

docs: $(VENV)/.built $(VENV)/.docs
	$(PY) tools/make_docs.py --out build/site

# ---- packages

# Takes what the editable build compiled. `pip wheel .` does the same from nothing, in isolation.
wheel: $(VENV)/.built
	rm -f dist/flambeau-*.whl
	$(PIP) wheel --no-build-isolation --no-deps -w dist . -C build-dir=$(BUILD) \
	  -C cmake.define.FLAMBEAU_ISAS=auto -C cmake.define.FLAMBEAU_ONEDNN=$(ONEDNN)

# Wheels that run on other machines: built in isolation, repaired by auditwheel, installed and used without a compiler.
PYTHONS ?=

$(VENV)/.wheels: $(VENV)/.deps
	$(BEGIN)
	$(PIP) install --group wheels
	$(DONE)

wheels: $(VENV)/.wheels
	$(PY) tools/build_wheels.py --pythons "$(PYTHONS)" --to dist

WAYS ?= wheel,sdist,install,editable
installs: $(VENV)/.deps
	$(PY) tools/check_install.py --ways $(WAYS) --wheel-to dist

clean:
	rm -rf $(VENV) build dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
	rm -rf .pytest_cache .mypy_cache .ruff_cache .hypothesis
