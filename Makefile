# Each environment remembers in stamp files what was installed, so that a second run needs no network.
VENV     := .venv
BIN      := $(VENV)/bin
SOURCES  := src conformance/src tests $(wildcard benchmarks examples)
# Only what is imported needs to be compiled: two thirds of the time that pip takes were for the rest.
INSTALL  := bin/python -m pip install -q --no-compile
ARGS     :=
DATABASE :=
# What the demonstration needs besides the core: the first word of the URL, such as mysql+pymysql://….
KIND     = $(firstword $(subst +, ,$(subst :, ,$(DATABASE))))
EXTRA    = $(or $(filter postgresql mysql,$(subst mariadb,mysql,$(KIND))),core)
# Half of the time of the tests is waiting, so two processes share a core: three on two cores left a
# seventh of them idle. The tests of a class, or else of a file, stay together: some share a large
# database. tests/support/longest.py says which of them begin, instead of xdist. A process that hung or
# crashed is not replaced: where no test is left for the new one, xdist waits for ever.
CORES    := $(shell getconf _NPROCESSORS_ONLN)
PYTEST   := -q -n $(shell expr $(CORES) \* 2) --dist loadscope --no-loadscope-reorder --max-worker-restart=0

# A command of the documents installs everything in a fresh clone, beside other tests that do so.
REPEATS  := --repeats -o too_long=700

# To read the documents takes a third of the time that their pages take, which `make docs` writes.
SPHINX   := $(BIN)/python -m sphinx -q -W --keep-going -j auto -c docs/site

# What a Python or a version of a package decides: one driver of each database, the processes, threads
# and signals of a worker, types, and applications with web frameworks.
# The README stands for the pages that need no package besides.
# What the SQL or the engine's own rules decide is shown once, on the newest, and so is what only the
# tests use, and what reads the files of the repository.
OF_PYTHON := --drivers tests/unit tests/integration/tasks \
             $(addprefix tests/integration/worker/test_,ending.py handlers.py left_at_once.py \
               process_groups.py processes.py scripts.py shutdown.py timeouts.py told_to_end.py) \
             $(addprefix tests/conformance/test_,sql_store.py::TestSqlite sql_store.py::TestPsycopg \
               mariadb.py::TestMariadb) \
             $(addprefix tests/acceptance/test_with_,django.py fastapi.py) \
             'tests/integration/integrations/test_django_backend.py::test_a_project_s_tests[sqlite]' \
             'tests/integration/django_data/test_django_data.py::test_migrations_and_models[sqlite]' \
             --ignore=tests/unit/deploy \
             $(addprefix --ignore=tests/unit/test_,$(addsuffix .py,fixtures hangs house links longest \
               matrix prose prose_of_code reference repeats rooms row_readings site support translations)) \
             $(foreach page,docs/api docs/first-steps docs/mysql, \
               --deselect 'tests/unit/test_readme.py::test_what_a_page_shows_works[$(page).md]')

# What the Django of the oldest Python has not, 5.2: tasks, their tests, and what pages show of them.
# The earliest state of 0100 is code that Python 3.11 does not run.
NOT_OF_OLDEST := --ignore=tests/integration/integrations/test_django_suites.py \
             $(foreach page,docs/django docs/from/django-tasks, \
               $(foreach test,unit/test_readme.py::test_what_a_page_shows_works \
                   acceptance/test_documented.py::test_a_page_is_followed_with_what_it_has_installed, \
                 --deselect 'tests/$(test)[$(page).md]')) \
             $(foreach test,it_becomes_what_a_new_one_is a_new_worker_does_what_waited, \
               $(foreach database,sqlite postgresql mysql, --deselect \
                 'tests/integration/migrations/test_old_databases.py::test_$(test)[$(database)-noon]'))

# Programs that the tests start would compile the package again each time: 5 s on a slow machine.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help headers venv test test-newest test-oldest test-all check format demo chaos ordeal hammer simulate cron-oracle matrix bench measure docs catalogues drawings extras dist images clean

help:  ## show this
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 13

venv: $(VENV)/.dev  ## build .venv, for development

test: test-newest test-oldest  ## run the tests on the newest Python found, and what a Python decides on the oldest (ARGS="-k name")

# Nothing more is installed there while tests run.
test-newest: $(VENV)/.compiled | $(if $(filter check,$(MAKECMDGOALS)),$(VENV)/.types)
	@echo "== The newest Python found here: $$($(BIN)/python --version)"
	$(BIN)/python -m pytest $(PYTEST) $(ARGS)

# One after the other, but with --jobs its environment is made while the newest's tests run.
# pytest ends with 5 where none of the tests that ARGS ask for is among these.
test-oldest: .venv-oldest/.compiled | test-newest
	@echo "== The oldest Python >= 3.11 found here: $$(.venv-oldest/bin/python --version)"
	@if cmp -s .venv-oldest/.dev $(VENV)/.dev; then \
		echo "It is the same one with the same packages: its tests have run."; \
	else \
		set -x; .venv-oldest/bin/python -m pytest $(PYTEST) $(OF_PYTHON) $(ARGS) \
			$(if $(ARGS),|| [ $$? -eq 5 ]); \
	fi

test-all: $(VENV)/.dev .venv-oldest/.dev docs  ## run all tests, repetitions too, on the newest and on the oldest Python found, and make the site
	$(BIN)/python -m pytest $(PYTEST) $(REPEATS) $(ARGS)
	.venv-oldest/bin/python -m pytest $(PYTEST) $(REPEATS) $(NOT_OF_OLDEST) $(ARGS)

check: $(VENV)/.types  ## lint, formatting, types, who imports whom, spelling, and the links of the documents
	$(SPHINX) -b dummy . build/dummy
	$(BIN)/python -m tests.support.spelling
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy $(SOURCES)
	$(BIN)/basedpyright --pythonpath $(BIN)/python
	$(BIN)/python -m tests.support.typed_page
	$(BIN)/lint-imports --no-logo

docs: $(VENV)/.types  ## make the site of the documents in build/site, where a warning is an error (LOCALE=pt_BR)
	$(SPHINX) $(if $(LOCALE),-D language=$(LOCALE)) . build/site$(if $(LOCALE),-$(LOCALE))

catalogues: $(VENV)/.types  ## bring the catalogues of translated pages up to date with the pages
	$(BIN)/python scripts/catalogues.py $(ARGS)

drawings: | docs/images  ## draw docs/images/*.svg anew from docs/drawings/*.dot, by Graphviz
	for each in docs/drawings/*.dot; do dot -Tsvg $$each > docs/images/$$(basename $$each .dot).svg; done

format: $(VENV)/.dev  ## fix lint and formatting
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

demo: $(VENV)/.$(EXTRA) $(if $(WEB),$(VENV)/.web)  ## show the promise being kept, on SQLite or on DATABASE=postgresql+psycopg://… or mysql+pymysql://…; WEB=1 opens the dashboard
	@$(BIN)/python examples/shop/demo.py $(if $(WEB),--web) $(if $(DATABASE),'$(DATABASE)')

chaos: $(VENV)/.dev  ## kill workers and crash the server under load, and count
	$(BIN)/python -m tests.faults.chaos $(ARGS)

cron-oracle: $(VENV)/.dev  ## compare the ticks of random cron lines with the rule (ARGS="--seed 7 --lines 9000")
	$(BIN)/python -m tests.faults.cron_oracle $(ARGS)

ordeal: $(VENV)/.dev  ## trouble workers in every way, one after another, and check promises
	$(BIN)/python -m tests.faults.ordeal $(ARGS)

hammer: $(VENV)/.dev  ## let all that locks rows collide, and count deadlocks (ARGS="--seconds 60 --seed 7")
	$(BIN)/python -m tests.faults.hammer $(ARGS)

simulate: $(VENV)/.dev  ## let simulated fleets meet faults (ARGS="--seeds 500", or "--seed 7 --job 3")
	$(BIN)/python -m tests.faults.simulation $(ARGS)

matrix: $(VENV)/.dev  ## run what is promised for each server and Python, and write the tables (ARGS="--only postgresql-18", ARGS=--list)
	$(BIN)/python -m tests.matrix $(ARGS)

bench: $(VENV)/.bench  ## measure the same work for everybody (ARGS=--quick for a look)
	$(BIN)/python -m benchmarks.peers.run $(ARGS)

measure: $(VENV)/.bench  ## measure this queue alone (ARGS="latency --database sqlite:////tmp/bench.db")
	$(BIN)/python -m benchmarks $(or $(ARGS),--help)

extras: $(VENV)/.dev  ## install each extra alone, on each Python, and import what it is for
	$(BIN)/python -m tests.matrix.extras $(ARGS)

dist: $(VENV)/.release  ## build what goes to PyPI in dist, and check it (TAG=v0.1.0: that it is this version's)
	rm -rf dist
	$(BIN)/python -m build -q
	$(BIN)/python -m twine check --strict dist/*
	$(BIN)/check-wheel-contents dist/*.whl
	$(if $(TAG),test -f dist/mutirao-$(TAG:v%=%).tar.gz)

images: $(VENV)/.dev  ## write the pictures of the documents anew, by the tests of the dashboard in a browser
	mkdir -p docs/images
	MUTIRAO_IMAGES=docs/images $(BIN)/python -m pytest -q tests/integration/web/test_browser.py -k looks_right $(ARGS)

clean:  ## remove the environments and the caches
	rm -rf .venv .venv-oldest .matrix .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache dist

# Once, though two environments may be made at the same time.
headers:
	@scripts/mysql-headers

.venv/bin/python:
	python=$$(scripts/find-python newest) && $$python -m venv .venv

.venv-oldest/bin/python:
	python=$$(scripts/find-python oldest) && $$python -m venv .venv-oldest

%/.core: pyproject.toml | %/bin/python
	$*/$(INSTALL) -e .
	@touch $@

%/.postgresql: pyproject.toml | %/bin/python
	$*/$(INSTALL) -e '.[postgresql]'
	@touch $@ $*/.core

%/.mysql: pyproject.toml | %/bin/python
	$*/$(INSTALL) -e '.[mysql]'
	@touch $@ $*/.core

%/.web: pyproject.toml | %/bin/python
	$*/$(INSTALL) -e '.[web]'
	@touch $@ $*/.core

%/.bench: pyproject.toml | %/bin/python
	$*/$(INSTALL) --upgrade 'pip>=25.1'
	$*/$(INSTALL) -e '.[postgresql,mysql,rabbitmq,webhooks,sqs,web,otel,prometheus]' --group bench
	@touch $@ $*/.core $*/.postgresql $*/.mysql $*/.web

# The oldest Python is tested with the lowest versions that pyproject.toml allows.
%/.dev: pyproject.toml conformance/pyproject.toml | %/bin/python headers
	$*/$(INSTALL) --upgrade 'pip>=25.1'
	$(if $(findstring oldest,$*),$*/bin/python scripts/lowest_versions.py) > $*/constraints.txt
	$*/$(INSTALL) -e '.[postgresql,asyncpg,psycopg2,mysql,mysqlclient,rabbitmq,reload,webhooks,federation,sqs,wsgi,prometheus,flask,litestar]' -e ./conformance --group dev -c $*/constraints.txt
	@touch $*/.core $*/.postgresql $*/.mysql $*/.web $*/.bench
	@($*/bin/python -VV && $*/bin/python -m pip freeze) > $@

# The tests' files, with their asserts explained, once: otherwise each of the processes does it, 10 s of a core.
%/.compiled: %/.dev
	@$*/bin/python -m pytest --collect-only -q $(if $(findstring oldest,$*),$(OF_PYTHON)) > $@.txt || { cat $@.txt; exit 1; }
	@mv $@.txt $@

%/.release: pyproject.toml | %/bin/python
	$*/$(INSTALL) --upgrade 'pip>=25.1'
	$*/$(INSTALL) --group release
	@touch $@

%/.types: pyproject.toml %/.dev
	$*/$(INSTALL) --group types --group docs
	@touch $@
