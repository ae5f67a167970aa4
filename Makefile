# `make demo` and `make test` are all a newcomer needs: both make the environment first.
.DEFAULT_GOAL := help
.PHONY: help demo test check format bench docs example clean

VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
# The first interpreter that really runs, is new enough and can make an environment.
FIND   := for p in $(PYTHON) python3.11 python3.12 python3.13 python3 /usr/bin/python3.11 /usr/bin/python3; do \
	$$p -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 && { echo $$p; exit; }; done
EXTRAS := media,websocket,postgres,redis,otel,cli
WORKERS ?= auto
NAME   ?= broadcast
# What `python -m examples.…` runs: the packages that have a `__main__`, and the modules.
EXAMPLES := $(sort $(patsubst examples/%/__main__.py,%,$(wildcard examples/*/__main__.py)) \
	$(patsubst examples/%.py,%,$(wildcard examples/*.py)))

# The tests start hundreds of interpreters: each would compile the library, and the tests, anew.
unexport PYTHONDONTWRITEBYTECODE

help:
	@echo 'make demo [ARGS=…]               the main job: one unbroken broadcast on a real film'
	@echo 'make example NAME=… [ARGS=…]     any example: $(EXAMPLES)'
	@echo 'make test [ARGS=…]               the tests'
	@echo 'make check                       ruff, formatting, pyright, mypy'
	@echo 'make bench                       the benchmarks, into build/bench.json'
	@echo 'make docs                        the documentation, into build/site'

$(READY): pyproject.toml constraints.txt
	@python="$$($(FIND))"; \
	if [ -z "$$python" ]; then echo 'Python 3.11 or later with venv is needed (PYTHON=… names it).' >&2; exit 1; fi; \
	[ -x $(BIN)/python ] || { echo 'Installing into $(VENV); this takes a minute or two, once.' >&2; \
	"$$python" -m venv $(VENV); }
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check 'pip>=25.1'
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt \
		--editable '.[$(EXTRAS)]' --group dev
	@touch $@

demo: $(READY)
	@$(BIN)/python -m examples.broadcast $(ARGS)

example: $(READY)
	@case ' $(EXAMPLES) ' in *' $(NAME) '*) ;; *) \
	echo "There is no example '$(NAME)'. There are: $(EXAMPLES)." >&2; exit 2;; esac
	@$(BIN)/python -m examples.$(NAME) $(ARGS)

test: $(READY)
	@$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal $(ARGS)

check: $(READY)
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/pyright
	@$(BIN)/mypy

format: $(READY)
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

bench: $(READY)
	@$(BIN)/python -m benchmarks $(ARGS)

docs: $(READY)
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --site-dir build/site

clean:
	rm -rf $(VENV) build .pytest_cache .mypy_cache .ruff_cache .hypothesis
