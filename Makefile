# Every target sets up what it needs: missing packages, configuration, build. Presets are in CMakePresets.json.

JOBS ?= $(shell nproc)
SECONDS = 60
LONG_FUZZ_SECONDS = 300

# Test programs that use several threads: what the thread sanitizer looks at.
THREADED = test_base test_expr test_graph test_codegen test_runtime test_tensor test_capture
THREADED_TESTS = *hread*:*Concurren*:*Pool*:*Intern*:*Log*:*Registry*:*Leak*:*Realize*:*Donation*:*Parallel*:*everal*
THREADED_SEEDS = 20
# Children of fork() start threads of their own; the sanitizer would end them.
TSAN = TSAN_OPTIONS="die_after_fork=0 $$TSAN_OPTIONS"

# Short traces of where memory was allocated, and less of it kept back once freed: both take time.
ASAN = ASAN_OPTIONS="malloc_context_size=6:quarantine_size_mb=32:$$ASAN_OPTIONS"

CTEST = ctest --output-on-failure --no-tests=error -j $(JOBS)
SOURCES = $(shell find include src tests tools bench examples -name '*.h' -o -name '*.cpp' 2>/dev/null)

.DEFAULT_GOAL := help
.PHONY: help setup demo tour bundle test test-dev test-asan test-tsan test-all test-peers python wheel typecheck bench fuzz docs python-module site notebooks lint format clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: ## install missing packages (Debian 12)
	@scripts/setup

build/%/build.ninja: CMakePresets.json | setup
	cmake --preset $*
	@touch $@

demo: build/dev/build.ninja ## train a network on drawn digits, and see what was compiled
	cmake --build build/dev -j $(JOBS) --target heddle_demo
	build/dev/tools/heddle_demo

tour: build/dev/build.ninja ## one expression through every stage of the compiler
	cmake --build build/dev -j $(JOBS) --target heddle_tour
	build/dev/tools/heddle_tour

bundle: build/bundle/build.ninja ## out/heddle-bundle.tar.xz: programs and tests for a machine where nothing can be installed
	cmake --build build/bundle -j $(JOBS)
	scripts/bundle build/bundle out/heddle-bundle.tar.xz

test: ## everything with g++, then again with clang under the address and undefined-behaviour sanitizers
	@$(MAKE) --no-print-directory test-dev
	@$(MAKE) --no-print-directory test-asan

test-dev: build/dev/build.ninja
	@scripts/python_env
	cmake build/dev -DHEDDLE_PYTHON=ON > /dev/null
	cmake --build build/dev -j $(JOBS)
	$(CTEST) --test-dir build/dev

test-asan: build/asan/build.ninja
	cmake --build build/asan -j $(JOBS) --target tests/all
	$(ASAN) $(CTEST) --test-dir build/asan -LE 'slow|performance'

test-tsan: build/tsan/build.ninja
	cmake --build build/tsan -j $(JOBS) --target $(THREADED) fuzz_threads
	@for program in $(THREADED); do \
	  echo "$$program under the thread sanitizer"; \
	  $(TSAN) build/tsan/tests/$$program --gtest_brief=1 --gtest_filter='$(THREADED_TESTS)' || exit 1; \
	done
	$(TSAN) build/tsan/tests/fuzz_threads --seeds 0:$(THREADED_SEEDS)

test-peers: build/dev/build.ninja ## the Python package against PyTorch, JAX, SciPy and others, which it installs into build/peers-venv
	@scripts/python_env
	@scripts/python_env peers
	cmake build/dev -DHEDDLE_PYTHON=ON > /dev/null
	cmake --build build/dev -j $(JOBS) --target heddle_python
	PYTHONPATH=build/dev/python build/peers-venv/bin/python -m pytest -q -p no:cacheprovider tests/peers
	@$(MAKE) --no-print-directory notebooks

test-all: ## test, a build with clang, the thread sanitizer, and long fuzzing
	@$(MAKE) --no-print-directory test
	@$(MAKE) --no-print-directory build/clang/build.ninja
	cmake --build build/clang -j $(JOBS)
	@$(MAKE) --no-print-directory test-tsan
	@$(MAKE) --no-print-directory fuzz SECONDS=$(LONG_FUZZ_SECONDS)

python: build/dev/build.ninja ## the Python package, in build/dev/python, and its tests
	@scripts/python_env
	cmake build/dev -DHEDDLE_PYTHON=ON > /dev/null
	cmake --build build/dev -j $(JOBS) --target heddle_python
	$(CTEST) --test-dir build/dev -R '^python$$'

wheel: setup ## wheels of the Python package in out/, with LLVM inside, tested with each Python from 3.11 on that is there
	@scripts/wheel.py

typecheck: ## mypy and pyright over the Python package's stubs and programs of users
	@scripts/typecheck

bench: build/dev/build.ninja ## every benchmark suite; figures with their references
	cmake --build build/dev -j $(JOBS) --target tools/all
	build/dev/tools/heddle bench all

fuzz: build/dev/build.ninja ## random graphs, programs, state, threads and trees of processes, each so long: make fuzz SECONDS=900
	cmake --build build/dev -j $(JOBS) --target fuzz_graphs fuzz_programs fuzz_states fuzz_control fuzz_threads fuzz_processes
	build/dev/tests/fuzz_graphs --seconds $(SECONDS)
	build/dev/tests/fuzz_programs --seconds $(SECONDS)
	build/dev/tests/fuzz_states --seconds $(SECONDS)
	build/dev/tests/fuzz_control --seconds $(SECONDS)
	build/dev/tests/fuzz_threads --seconds $(SECONDS)
	build/dev/tests/fuzz_processes --seconds $(SECONDS)

docs: build/dev/build.ninja ## write docs/operators.md from the public headers
	cmake --build build/dev -j $(JOBS) --target doc_examples
	build/dev/tests/doc_examples/doc_examples build/dev/launches.tsv
	python3 scripts/doc_examples.py table build/dev/launches.tsv

python-module: build/dev/build.ninja
	@scripts/python_env
	cmake build/dev -DHEDDLE_PYTHON=ON > /dev/null
	cmake --build build/dev -j $(JOBS) --target heddle_python

site: python-module ## the documentation site, in build/site/html
	python3 scripts/site.py site

notebooks: python-module ## run examples/notebooks
	python3 scripts/site.py notebooks

lint: setup ## format, order of includes, length of files, white space
	@clang-format-19 --dry-run -Werror $(SOURCES)
	@python3 scripts/check_structure.py --self-test
	@python3 scripts/check_structure.py
	@python3 scripts/check_text.py
	@echo "lint: clean"

format: setup ## rewrite all sources in the project's format
	@clang-format-19 -i $(SOURCES)

clean: ## remove all build folders
	rm -rf build
