# `make run` serves the site, `make test` checks everything, `make bench` measures the engine beside others (its first
# run builds llama.cpp, which takes minutes), `make bench-page` the page (benchmarks/page.py).
# Variables may stand on the command line:
#   PORT=9000                 port to serve on (8000)
#   WEBTRACE_DATA=folder      where checkpoints, database and secret key live (data/)
#   WEBTRACE_MODEL=path       another GGUF file or Hugging Face style folder, or several with commas
#   PIP_INDEX=address         package index for everything (pip's own settings otherwise)
#   TORCH_INDEX=address       package index for torch alone; "default" takes whatever build pip offers
#   PYTHON=program            a Python of 3.11 or newer (the first one found in PATH)
#   TESTS=paths               what `make test` runs (tests)
#   BENCH=options             of `make bench` (benchmarks/engine.py)

NEW_ENOUGH := import sys; sys.exit(sys.version_info < (3, 11))
PYTHON ?= $(firstword $(foreach name,python3 python3.14 python3.13 python3.12 python3.11,$(shell \
	$(name) -c '$(NEW_ENOUGH)' >/dev/null 2>&1 && echo $(name))))
TESTS ?= tests
INSIDE := .venv/bin/python

ifdef PIP_INDEX
export PIP_INDEX_URL := $(PIP_INDEX)
endif
export TORCH_INDEX

.PHONY: help run test lint bench bench-page python

help:
	@sed -n 's/^# \{0,1\}//p' Makefile

run: python
	@"$(PYTHON)" webtrace/ops/install.py requirements.txt
	@$(INSIDE) manage.py setup
	@exec $(INSIDE) manage.py serve

test: export OMP_NUM_THREADS := 1
test: python
	@"$(PYTHON)" tests/system_packages.py
	@"$(PYTHON)" webtrace/ops/install.py requirements-dev.txt
	@$(INSIDE) manage.py setup --checkpoints-only
	@$(MAKE) --no-print-directory lint
	@$(INSIDE) -m pytest -n 3 --dist loadgroup --durations=10 $(TESTS)

bench: export OMP_NUM_THREADS := 1
bench: export CMAKE_ARGS := -DGGML_NATIVE=ON -DGGML_OPENMP=OFF -DLLAVA_BUILD=OFF $(CMAKE_ARGS)
bench: python
	@"$(PYTHON)" webtrace/ops/install.py requirements-bench.txt
	@$(INSIDE) manage.py setup --checkpoints-only
	@$(INSIDE) -m benchmarks.engine $(BENCH)

lint:
	@$(INSIDE) -m ruff check .
	@$(INSIDE) -m ruff format --check .
	@$(INSIDE) -m mypy .
	@if command -v node >/dev/null; then \
		find static -name '*.js' | sort | while read -r file; do \
			node --input-type=module --check - < "$$file" || { echo "in $$file"; exit 1; }; \
		done; \
	else echo "node is not installed: the syntax of static/js is checked by the browser tests alone"; fi

bench-page: export OMP_NUM_THREADS := 1
bench-page: python
	@"$(PYTHON)" webtrace/ops/install.py requirements-dev.txt
	@$(INSIDE) manage.py setup --checkpoints-only
	@$(INSIDE) -m benchmarks.page

python:
	@"$(or $(PYTHON),python3)" -c '$(NEW_ENOUGH)' 2>/dev/null || { \
		echo "Python 3.11 or newer is needed and was not found: install one, or name it with PYTHON=/path/to/python3."; \
		exit 1; }
