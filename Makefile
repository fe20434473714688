# Every target sets up what it needs: only Python 3.11+ and make are assumed.
# Another interpreter: make PYTHON=python3.13 test

PYTHON ?= python3
# One more than there are cores on the smallest machine: many tests wait for a process or a server.
JOBS ?= 3
ARGS ?=

SHELL := /bin/sh
PY := .venv/bin/python
CODE := src tests $(wildcard bench demo) $(wildcard docs/*.py)
PYTEST := $(PY) -m pytest -n $(JOBS) --dist worksteal

# An interpreter elsewhere must not leak into ours.
unexport PYTHONHOME PYTHONPATH
# Bytecode that nobody may keep is made anew by each of the thousands of interpreters that tests start.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.NOTPARALLEL:
.DELETE_ON_ERROR:
.PHONY: help demo test check bench docs pictures soak frames clean

# $(call quietly,what is being done,command): one line, and the command's output only if it fails.
define quietly
	@echo "- $(1)"
	@mkdir -p .cache
	@{ $(2); } > .cache/setup.log 2>&1 || { cat .cache/setup.log; echo "error: failed while $(1)" >&2; exit 1; }
endef

help: ## this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-8s %s\n", $$1, $$2 }' Makefile

demo: .venv/.demo ## record an agent, fork it, re-enact it offline, change it, damage a copy
	@$(PY) demo/demo.py $(ARGS)

test: check .cache/uvloop .cache/.browser .cache/.postgres .cache/.redis .cache/.mariadb .cache/.deploying ## everything: check, then the whole test suite in random order
	@$(PY) -m compileall -q src
	@$(PYTEST) $(ARGS)

check: .venv/.dev ## fast checks: lint, format, types, floors
	@failed=0; \
	$(PY) -m ruff check $(CODE) || failed=1; \
	$(PY) -m ruff format --check $(CODE) || failed=1; \
	$(PY) -m mypy $(CODE) || failed=1; \
	if PYTHONUTF8=1 .venv/bin/lint-imports --cache-dir .cache/import-linter > .cache/floors.log 2>&1; \
	then tail -n 1 .cache/floors.log; else cat .cache/floors.log; failed=1; fi; \
	exit $$failed

# $(call packages,test that they are installed,Debian packages): install them where that is possible.
# Without them the tests that need them are skipped with the reason.
define packages
	@mkdir -p .cache
	@if { $(1); } > /dev/null 2>&1; then touch $@; \
	elif command -v apt-get > /dev/null && [ "$$(id -u)" = 0 ]; then \
	echo "- installing $(2)"; \
	{ apt-get install -y --no-install-recommends $(2) \
	|| { apt-get update && apt-get install -y --no-install-recommends $(2); }; } \
	> $@.log 2>&1 && touch $@ || tail -n 3 $@.log; fi
endef

# For the tests of pages.
.cache/.browser:
	$(call packages,command -v chromium || command -v chromium-browser,chromium)

# For the tests of the server's database and of the drivers that a replay refuses.
.cache/.postgres:
	$(call packages,ls /usr/lib/postgresql/*/bin/postgres,postgresql)

.cache/.redis:
	$(call packages,command -v redis-server,redis-server)

.cache/.mariadb:
	$(call packages,PATH="$$PATH:/usr/sbin" && command -v mariadbd,mariadb-server)

# For the tests of the deployment guide.
.cache/.deploying:
	$(call packages,PATH="$$PATH:/usr/sbin" && command -v nginx && command -v sqlite3 && command -v pgbouncer,nginx-light sqlite3 pgbouncer)

# Only soak builds the container file of that guide; it fetches no image.
.cache/.containers:
	$(call packages,PATH="$$PATH:/usr/sbin" && command -v buildah && command -v runc,buildah runc)

soak: .venv/.dev .cache/uvloop .cache/.browser .cache/.postgres .cache/.redis .cache/.mariadb .cache/.deploying .cache/.containers ## all that test leaves out or samples: large counts, complete matrices (long)
	@REENACT_SOAK=1 $(PYTEST) -m soak $(ARGS)
	@REENACT_TEST_DATABASE=postgresql $(PYTEST) tests/server $(ARGS)
	@REENACT_TEST_DATABASE=postgresql REENACT_SOAK=1 $(PYTEST) -m soak tests/server/fire $(ARGS)

bench: .venv/.bench ## the promised speeds, as ratios measured in one run
	@$(PY) -m bench $(ARGS)

docs: .venv/.dev ## write the generated pages of docs/ anew
	@$(PY) docs/build.py $(ARGS)

pictures: .venv/.dev .cache/.browser ## draw the pictures of README and docs anew, from real runs
	@$(PY) docs/pictures.py $(ARGS)
	@$(if $(ARGS),:,REENACT_KEEP_PICTURES=1 $(PYTEST) tests/browser/test_page_demo.py)

frames: .venv/.dev ## try the frameworks, and keep what was seen for the docs
	@REENACT_KEEP_RESULTS=1 $(PYTEST) tests/frameworks $(ARGS) && $(PY) docs/build.py

clean: ## remove environments, caches and what was built
	@rm -rf .venv .cache build dist
	@find src tests bench demo docs -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

# A symlink to an interpreter that has since gone counts as missing, and is made anew.
$(PY):
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	  echo "error: $(PYTHON) is missing or older than Python 3.11" >&2; \
	  echo "hint: name a newer one: make PYTHON=python3.12 $(MAKECMDGOALS)" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
	  echo "error: $(PYTHON) cannot make virtual environments" >&2; \
	  echo "hint: on Debian and Ubuntu: apt-get install python3-venv" >&2; exit 1; }
	$(call quietly,creating .venv,$(PYTHON) -m venv --clear .venv)

.venv/.demo: pyproject.toml constraints.txt $(PY)
	$(call quietly,installing reenact into .venv,$(PY) -m pip install -e '.[demo]' -c constraints.txt)
	@touch $@

# The wheels are kept so that the wheel and README tests install offline.
.venv/.dev: pyproject.toml constraints.txt $(PY)
	$(call quietly,installing reenact and its tools into .venv,$(PY) -m pip install -e '.[dev]' -c constraints.txt)
	$(call quietly,keeping wheels for the installation tests,rm -rf .cache/wheels && $(PY) -m pip wheel '.[all]' -c constraints.txt --no-build-isolation -w .cache/wheels && rm -f .cache/wheels/reenact-*)
	@touch .venv/.demo $@

# In a folder of its own: in .venv, uvicorn would use it for every test.
.cache/uvloop: pyproject.toml constraints.txt $(PY)
	$(call quietly,installing uvloop beside .venv,rm -rf $@ && $(PY) -m pip install --no-deps --target $@ uvloop -c constraints.txt)
	@touch $@

.venv/.bench: pyproject.toml constraints.txt $(PY)
	$(call quietly,installing the peers for comparison into .venv,$(PY) -m pip install -e '.[bench]' -c constraints.txt)
	@touch .venv/.demo $@
