# Each command sets up what it needs in .venv by itself. Needs Python 3.11 or later, pip and make.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test test-label-studio versions soak bench docs format clean

demo: .venv/core ## the whole loop on bundled data: random, BALD, EPIG and the default side by side
	$(BIN)/askwell demo

test: .venv/dev .venv/postgres .venv/browser ## lint, types, layers, tests with warnings as errors, executed docs
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	$(BIN)/python -m pytest -n auto --dist loadfile

test-label-studio: .venv/dev ## the bridge against a real Label Studio server: installs it, about 1 GB, outside the project
	scripts/label_studio
	ASKWELL_REQUIRE_LABEL_STUDIO=1 $(BIN)/python -m pytest tests/bridge

versions: .venv/postgres ## before a release: the tests with the lowest declared versions and with the newest, a quarter of an hour each
	$(PYTHON) scripts/versions.py lowest
	$(PYTHON) scripts/versions.py newest

soak: .venv/dev .venv/postgres .venv/browser ## the promises of docs/reliability.md at full size: hours
	cd tests && ../$(BIN)/python -m soak

bench: .venv/dev ## every benchmark; prints ratios measured in one run
	$(BIN)/python -m benchmarks

docs: .venv/docs ## the manual as a site in site/
	$(BIN)/mkdocs build --strict

format: .venv/dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf .venv .venv-lowest .venv-newest site .pytest_cache .mypy_cache .ruff_cache .hypothesis

.venv/pip:
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade pip
	touch $@

.venv/core: pyproject.toml | .venv/pip
	$(BIN)/python -m pip install --quiet -e .
	touch $@

# torch is pinned here, not in pyproject.toml: the tests want one known build, users bring their own.
.venv/dev: pyproject.toml | .venv/pip
	$(BIN)/python -m pip install --quiet torch==2.13.0
	$(BIN)/python -m pip install --quiet -e ".[torch,web,postgres,remote,label-studio,ray,dev]"
	touch $@ .venv/core

# A PostgreSQL server for the tests of the team store; where none can be installed those tests say so and are skipped.
.venv/postgres: scripts/postgres | .venv/pip
	scripts/postgres
	touch $@

# Chromium for the tests of the page; where it cannot be installed those tests say so and are skipped.
.venv/browser: scripts/browser | .venv/pip
	scripts/browser
	touch $@

.venv/docs: pyproject.toml | .venv/pip
	$(BIN)/python -m pip install --quiet -e ".[docs]"
	touch $@
