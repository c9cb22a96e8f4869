# `make` or `make help` lists the words. Needs Python 3.11 to 3.14, Java 17 or 21, Maven; everything else is set up here.
SHELL := /bin/bash
PYTHON ?= $(shell for p in python3 python3.11 python3.12 python3.13 python3.14; do \
	$$p -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 14))' 2>/dev/null && command -v $$p && break; done)
CACHE ?= .cache
VENV := .venv
PY := $(VENV)/bin/python
PEERS := $(CACHE)/peers
SITE := $(CACHE)/docs
ARGS ?=
# Tests whose files ask no server wait for none.
GIVEN := $(foreach given,$(filter tests/%,$(ARGS)),$(firstword $(subst ::, ,$(given))))
ASKS := FRAZIL_TEST_(POSTGRES|MARIADB|S3|HDFS|AZURITE|REST|HMS|NESSIE|KDC)|behind_proxies
ASKING := $(if $(GIVEN),$(filter tests/catalog% tests/storage%,$(GIVEN))$(shell grep -rlE "$(ASKS)" --include=*.py $(GIVEN)),all)
SERVERS := postgres,mariadb,s3,hdfs,azurite,iceberg_rest,hms2,hms4,nessie,kdc,hms2_kerberos,hms4_kerberos,hms4_plain
WITH_SERVERS := PYTHON=$(abspath $(PY)) SERVICES_CACHE=$(abspath $(CACHE))/services tests/services/with.sh $(SERVERS)
SERVED := $(if $(ASKING),$(WITH_SERVERS))
# All that is fetched stays in the checkout: pip's wheels, Maven's jars (tests/peers/setup.sh and tests/services have their repository there).
export PIP_CACHE_DIR ?= $(abspath $(CACHE))/pip
export FRAZIL_TEST_CACHE := $(abspath $(CACHE))
export TZ := UTC
export NO_MKDOCS_2_WARNING := 1
# Hundreds of processes of Python begin in a run of the tests; each would compile all of Frazil anew.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup peers fetch demo demo-stream demo-cluster test quick test-all test-next check docs docs-serve bench soak lock clean

help:  ## this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):[^#]*## */\1\t/' | expand -t 12

$(VENV)/.done: requirements.lock pyproject.toml
	@test -n "$(PYTHON)" || { echo "Python 3.11 to 3.14 is needed; none was found."; exit 1; }
	@echo "making $(VENV) from requirements.lock: some minutes the first time"
	$(PYTHON) -m venv $(VENV)
	$(PY) -m pip install -q --disable-pip-version-check --require-hashes -r requirements.lock
	$(PY) -m pip install -q --disable-pip-version-check --no-deps -e .
	@touch $@

setup: $(VENV)/.done  ## make .venv from the lock file (every other word does it, too)

peers: setup  ## environments of Java Iceberg, PyIceberg and the older Sparks, in .cache
	@printf '%s\n' classes spark41 spark42 java pyiceberg worker | PYTHON=$(PY) xargs -P 2 -I{} tests/peers/setup.sh {} $(PEERS)

fetch: peers  ## all that the tests need beside that: the servers that they ask, started once
	@$(WITH_SERVERS) true

demo: setup  ## real flights through Spark into a table that evolves, travels in time and opens in PyIceberg
	@PYTHON=$(PY) tests/peers/setup.sh pyiceberg $(PEERS)
	@$(PY) demo/flights.py --pyiceberg $(PEERS)/pyiceberg/bin/python $(ARGS)

demo-stream: setup  ## changes of real flights through two streams into tables, while the driver is killed (KAFKA=1: from a real broker)
	@SERVICES_CACHE=$(abspath $(CACHE))/services $(PY) demo/streams.py $(if $(filter-out 0,$(KAFKA)),--kafka) $(ARGS)

demo-cluster: setup  ## one pipeline on a Spark cluster with S3 and a REST catalog, while workers are killed
	@PYTHON=$(PY) tests/peers/setup.sh pyiceberg $(PEERS)
	@SERVICES_CACHE=$(abspath $(CACHE))/services $(PY) demo/cluster.py --peers $(PEERS) $(ARGS)

# Fixtures make the environments of the peers that chosen tests ask.
test: $(if $(ARGS),setup,peers)  ## all tests on Spark 4.3 with real servers, a short form on 4.1 and 4.2 (ARGS="tests/scan -k word" for less)
	@NOT_RUN="$(if $(ARGS),,the long forms (make soak); the full suites on Spark 4.1 and 4.2 (make test-all))" \
	$(SERVED) $(if $(ARGS),$(PY) -m pytest -q -m "not soak" --durations=15 $(ARGS),tests/side_by_side.sh $(PY) $(PEERS))

quick: setup  ## tests that need neither Spark, Java nor servers, as two processes: some minutes
	@tests/quick.sh $(PY) $(ARGS)

test-all: peers  ## everything on every Spark, the house rules too
	@status=0; $(MAKE) check || status=1; \
	for v in 41 42; do echo "== Spark $$v"; $(PEERS)/spark$$v/bin/python -m pytest -q -m "spark and not soak" -p no:cacheprovider $(ARGS) || status=1; done; \
	echo "== Spark 4.3"; $(SERVED) $(PY) -m pytest -q -m "not soak" $(ARGS) || status=1; exit $$status

test-next: setup  ## the Spark tests on the newest PySpark that pip finds, pre-releases too
	@next=$$(PYTHON=$(PY) tests/peers/setup.sh sparknext $(PEERS)) && PYTHON=$(PY) tests/peers/setup.sh java $(PEERS) && \
	$(PEERS)/$$next/bin/python -m pytest -q -m "spark and not soak" -p no:cacheprovider $(ARGS)

check: setup  ## ruff (lint and format), mypy --strict, imports one way, a report of sizes
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check -q .
	$(VENV)/bin/mypy
	$(PY) -m pytest -q tests/house
	@$(PY) tests/house/sizes.py

$(SITE)/.done: docs/requirements.txt
	$(PYTHON) -m venv --clear $(SITE)
	$(SITE)/bin/python -m pip install -q --disable-pip-version-check -r docs/requirements.txt
	@touch $@

docs: $(SITE)/.done  ## the site of docs/ with the reference from docstrings, in build/docs; a broken link is an error
	@$(SITE)/bin/mkdocs build --strict

docs-serve: $(SITE)/.done  ## the site at http://127.0.0.1:8000/frazil/, built anew when a page changes
	@$(SITE)/bin/mkdocs serve

bench: peers  ## side by side with Spark, Java Iceberg and PyIceberg (SCALE=small|full DATA=folder ARGS="--workloads scan")
	@CACHE=$(CACHE) PY=$(PY) bench/all.sh $(ARGS)

soak: peers  ## the long forms: many processes, kill -9 at every step, all faults
	@status=0; FRAZIL_SOAK=1 $(SERVED) $(PY) -m pytest -q -m soak --timeout=7200 $(ARGS) || status=1; \
	$(if $(ARGS),,for v in 41 42; do echo "== Spark $$v: killed streams, cases"; FRAZIL_SOAK=1 $(PEERS)/spark$$v/bin/python -m pytest -q -m soak \
	    --timeout=7200 -p no:cacheprovider tests/spark/streams/test_stream_kills.py tests/spark/streams/test_stream_kills_at_points.py \
	    tests/cases/test_cases.py -k "kill or in_sql" || status=1; done;) exit $$status

lock: setup  ## renew requirements.lock from pyproject.toml
	$(PY) -m pip install -q --disable-pip-version-check uv
	$(VENV)/bin/uv pip compile pyproject.toml --extra dev --universal --python-version 3.11 --generate-hashes --no-header -q -o requirements.lock

clean:  ## remove environments and caches
	rm -rf $(VENV) $(CACHE) .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist
