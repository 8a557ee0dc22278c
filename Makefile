# Every target sets up what it needs; `make demo` and `make test` work on a fresh checkout.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: setup wheel man demo quick test test-long lint types imports spelling links check reference docs sim sim-many sim-cluster sim-cluster-many sim-zookeeper sim-zookeeper-many sim-quorum sim-quorum-many mutants fuzz attack soak soak-exactly-once soak-pipelines clients-on-kafka spark-on-kafka spark-newest golden bench bench-cluster bench-zookeeper bench-quorum bench-clients bench-fetch bench-spark recording lock clean help

help: ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  \1\t\2/' | expand -t 14

setup: $(STAMP) ## make .venv with pinned dependencies and the moldau command

# The lock has all that is needed. Left to resolve, pip would look for the newest release of what is
# asked for with extras, and refuse it for want of a hash from the day on which it comes out.
$(STAMP): pyproject.toml requirements.lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Moldau needs Python 3.11 or newer; set PYTHON=/path/to/python")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r requirements.lock
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps -e .
	$(BIN)/python -m compileall -q src
	@touch $(STAMP)

# Built from a copy: machine code beside the sources would be run in place of what is edited there.
# It is for one Python, so it lives in that Python's environment. Tests have it built with OPT=1,
# beside the other: the compiler then takes less than half of its four minutes.
OPT ?= 3
COMPILED = $(VENV)/compiled$(filter-out 3,$(OPT))
TREE = build/tree$(filter-out 3,$(OPT))
DIST = $(if $(filter 3,$(OPT)),dist,$(TREE)/dist)
PACKED := $(shell find src -not -path '*/__pycache__*') README.md LICENSE
CAN_COMPILE = $(BIN)/python -c 'import os, shutil, sys, sysconfig as s; \
  sys.exit(not (shutil.which((s.get_config_var("CC") or "cc").split()[0]) and os.path.exists(s.get_path("include") + "/Python.h")))'

wheel: $(COMPILED)/.built ## dist/*.whl for this Python, its busiest modules compiled; needs a C compiler

$(COMPILED)/.built: $(STAMP) $(PACKED)
	@$(CAN_COMPILE) || { echo "make wheel needs the C compiler of this Python, and its Python.h (on Debian: gcc, python3-dev)"; exit 1; }
	rm -rf $(TREE) $(COMPILED) $(DIST)/moldau-*
	mkdir -p $(TREE)
	cp -r src README.md LICENSE $(TREE)
	sed 's/opt_level = "3"/opt_level = "$(OPT)"/' pyproject.toml > $(TREE)/pyproject.toml
	HATCH_BUILD_HOOK_ENABLE_MYPYC=1 $(BIN)/pip wheel --quiet --disable-pip-version-check --no-deps --no-build-isolation --wheel-dir $(DIST) ./$(TREE)
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --target $(COMPILED) $(DIST)/moldau-*.whl
	rm -rf $(TREE)
	@touch $@

man: setup ## build/man/*.1, a manual page for each command
	$(BIN)/python packaging/man_pages.py build/man

demo: setup ## broker, collectors, pipelines and their tables, for two minutes: make demo ARGS=--forever
	$(BIN)/python -m examples.demo $(ARGS)

# What needs no process: the loop to live in. The two lanes take two cores about as long as each other.
OF_QUICK_CLIENTS := tests/unit/engine tests/unit/client tests/unit/spark tests/unit/collect
OF_QUICK_BROKER := tests/unit tests/contract $(patsubst %,--ignore=%,$(OF_QUICK_CLIENTS))

.PHONY: quick-checks quick-clients quick-broker

quick: setup ## lint, types, imports and the tests that need no process: run it after every edit
	@$(MAKE) --no-print-directory --keep-going --jobs=2 quick-clients quick-broker quick-checks

quick-checks: check
quick-clients: TESTS := $(OF_QUICK_CLIENTS)
quick-broker: TESTS := $(OF_QUICK_BROKER)
quick-clients quick-broker: SHELL := bash
quick-clients quick-broker: quick-%: setup
	@set -o pipefail; $(BIN)/python -m pytest -q -m "not process and not long" $(TESTS) | (trap "" INT; sed -u "s/^/$*: /")

# Four lanes run at a time: those of whole brokers and of Spark wait for much, and leave two cores
# enough for those that do not. These are the GENTLE ones: they have the cores when nobody else wants
# them, so that no broker is late because of them. The longest begin first. Each line says in which
# lane it was said.
#
# COMPILED_ALONE runs on the compiled form only, where there is a compiler; `make test-long` runs it
# on the checkout. The other lanes drive whole brokers of the checkout, real and simulated.
OF_COMPAT := tests/compat
OF_PROCESSES := tests/docs tests/process
GENTLE := test-units test-others test-patches
LANES := test-compat test-spark test-processes $(GENTLE)
IN_ORDER := test-compiled test-compat test-spark test-units test-others test-processes test-patches

.PHONY: $(LANES) test-compiled

test: setup ## run every test, or some in one process: make test PYTEST_ARGS=tests/unit
ifdef PYTEST_ARGS
	$(BIN)/python -m pytest $(PYTEST_ARGS)
else
	@$(MAKE) --no-print-directory --keep-going --jobs=4 $(IN_ORDER)
endif

test-compat: TESTS := $(OF_COMPAT)
test-processes: TESTS := $(OF_PROCESSES)
test-spark: TESTS := tests/spark
test-units: TESTS := tests/unit
test-others: TESTS := $(patsubst %,--ignore=%,$(OF_COMPAT) $(OF_PROCESSES) tests/spark tests/unit)
test-patches: TESTS = $(shell grep -rl "mark\.patches" $(COMPILED_ALONE))
$(LANES): MARKS := not long
$(GENTLE): GENTLY := nice
test-patches: MARKS := patches and not long
test-patches: PASSED_BY :=
$(LANES) test-compiled: SHELL := bash
$(LANES): test-%: setup
	@set -o pipefail; $(GENTLY) $(BIN)/python -m pytest -m "$(MARKS)" $(TESTS) $$($(CAN_COMPILE) && echo "$(PASSED_BY)") | (trap "" INT; sed -u "s/^/$*: /")

test-long: setup ## the matrices that `make test` has samples of; run it before an issue is resolved
	$(BIN)/python -m pytest -m long $(PYTEST_ARGS)
ifndef PYTEST_ARGS
	$(BIN)/python -m pytest -m "not long" $(COMPILED_ALONE)
endif

# On what `make wheel` builds: some of what drives whole brokers, real and simulated, and the parts
# of them that are compiled. More goes there: make test-compiled OF_COMPILED="tests/process tests/compat"
COMPILED_ALONE := tests/process/test_kill_nine.py tests/process/test_memory_budget.py tests/sim/test_broker_seeds.py \
  tests/contract tests/unit/coordination tests/unit/storage tests/unit/records tests/unit/client/consuming tests/unit/server/test_connection.py \
  $(wildcard tests/unit/server/test_connection_*.py) tests/unit/transport/test_stream_memory.py \
  tests/unit/replication tests/unit/protocol/test_single_fetch.py $(wildcard tests/sim/test_follower*.py) \
  $(wildcard tests/unit/server/test_fetch*.py tests/unit/server/test_single_fetch*.py) tests/unit/server/test_wait_timer.py \
  tests/unit/client/producing
OF_COMPILED := tests/process/test_form.py $(COMPILED_ALONE)
PASSED_BY = $(patsubst %,--ignore=%,$(COMPILED_ALONE))
test-compiled: OPT := 1
test-compiled: setup
	@$(CAN_COMPILE) && nice $(MAKE) --no-print-directory wheel OPT=$(OPT) || ! $(CAN_COMPILE)
	@set -o pipefail; if $(CAN_COMPILE); then \
	  PYTHONPATH="$(CURDIR)/$(COMPILED)" MOLDAU_TEST_FORM=compiled $(BIN)/python -m pytest -m "not long" $(OF_COMPILED) | (trap "" INT; sed -u "s/^/compiled: /"); \
	else echo "compiled: left out, for want of a C compiler or Python.h"; test "$$CI" != true; fi

lint: setup ## ruff: rules and format
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: setup ## mypy, strict
	$(BIN)/mypy
	$(BIN)/mypy -p tools.docs

imports: setup ## the import contracts of the house
	$(BIN)/lint-imports

spelling: setup ## words that are misspelt in texts, comments and names
	$(BIN)/codespell *.md *.toml *.yml Makefile bench config docs examples src tests tools

links: setup ## links between pages, and their anchors
	$(BIN)/python -m tools.docs.links

check: lint types imports spelling links ## everything that is not a test

reference: setup ## write again the pages of docs/reference that are made from the code
	$(BIN)/python -m tools.docs.reference

docs: setup ## the documentation site in build/site; a warning is an error
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
	@echo build/site/index.html

SEED ?= 1
N ?= 1000
JOBS ?= 1

sim: setup ## one simulated run: make sim SEED=42
	$(BIN)/python -m moldau.sim.run --seed $(SEED)

sim-many: setup ## many simulated runs: make sim-many N=1000 JOBS=2
	$(BIN)/python -m moldau.sim.run --seed $(SEED) --count $(N) --jobs $(JOBS)

sim-cluster: setup ## one simulated run of a cluster: make sim-cluster SEED=42
	$(BIN)/python -m moldau.sim.run --cluster --seed $(SEED)

sim-cluster-many: setup ## many simulated runs of clusters: make sim-cluster-many N=600 JOBS=2
	$(BIN)/python -m moldau.sim.run --cluster --seed $(SEED) --count $(N) --jobs $(JOBS)

sim-zookeeper: setup ## one simulated run of a cluster on ZooKeeper: make sim-zookeeper SEED=42
	$(BIN)/python -m moldau.sim.run --cluster --zookeeper --seed $(SEED)

sim-zookeeper-many: setup ## many simulated runs of clusters on ZooKeeper: make sim-zookeeper-many N=600 JOBS=2
	$(BIN)/python -m moldau.sim.run --cluster --zookeeper --seed $(SEED) --count $(N) --jobs $(JOBS)

sim-quorum: setup ## one simulated run of a cluster on a quorum: make sim-quorum SEED=42
	$(BIN)/python -m moldau.sim.run --cluster --quorum --seed $(SEED)

sim-quorum-many: setup ## many simulated runs of clusters on a quorum: make sim-quorum-many N=600 JOBS=2
	$(BIN)/python -m moldau.sim.run --cluster --quorum --seed $(SEED) --count $(N) --jobs $(JOBS)

mutants: N = 5
mutants: setup ## mistakes put into the code, and how many seeds find each, from N starts: make mutants N=5 JOBS=2 NAMES="fenced pending"
	PYTHONPATH=tests $(BIN)/python -m kits.mutants.search --starts $(N) --jobs $(JOBS) $(NAMES)

FRAMES ?= 200000

fuzz: wheel ## damaged and extreme requests of every API, to both forms: make fuzz FRAMES=200000 SEED=1
	PYTHONPATH=tests $(BIN)/python -m attacks.fuzz --frames $(FRAMES) --seed $(SEED) --form checkout
	PYTHONPATH=tests $(BIN)/python -m attacks.fuzz --frames $(FRAMES) --seed $(SEED) --form compiled
	PYTHONPATH=tests $(BIN)/python -m attacks.fuzz --frames $(FRAMES) --seed $(SEED) --form checkout --listener controller
	PYTHONPATH=tests $(BIN)/python -m attacks.fuzz --frames $(FRAMES) --seed $(SEED) --form compiled --listener controller

attack: wheel ## what once stopped or bloated a broker, on both forms: make attack NAMES="half_frames pipelined"
	PYTHONPATH=tests $(BIN)/python -m attacks.run --form checkout $(NAMES)
	PYTHONPATH=tests $(BIN)/python -m attacks.run --form compiled $(NAMES)

soak: setup ## kill a real broker again and again: make soak N=200
	MOLDAU_KILL_ROUNDS=$(N) $(BIN)/python -m pytest -q --timeout=0 tests/process/test_kill_nine.py

soak-exactly-once: setup ## kill brokers and copiers for minutes: make soak-exactly-once SECONDS=300
	MOLDAU_EXACTLY_ONCE_SECONDS=$(or $(SECONDS),300) $(BIN)/python -m pytest -q --timeout=0 tests/process/test_exactly_once.py

soak-pipelines: setup ## kill brokers, drivers and executors under pipelines: make soak-pipelines KILLS=20 SEED=1 TABLES=delta
	MOLDAU_PIPELINE_TABLES=$(or $(TABLES),parquet) MOLDAU_PIPELINE_KILLS=$(or $(KILLS),20) MOLDAU_PIPELINE_SEED=$(SEED) $(BIN)/python -m pytest -q -s --timeout=0 \
	  tests/spark/test_pipeline_kills.py

CLIENT_SUITES := $(wildcard tests/compat/test_own_*.py) tests/compat/test_cli_nouns.py tests/compat/test_cli_streams.py \
  tests/docs/test_client_examples.py

clients-on-kafka: setup ## the suites of our client against Apache Kafka 4.3.1 and 3.9.1
	MOLDAU_TEST_BROKER=kafka $(BIN)/python -m pytest -q $(CLIENT_SUITES)
	MOLDAU_TEST_BROKER=kafka-3.9 $(BIN)/python -m pytest -q $(CLIENT_SUITES)

spark-on-kafka: setup ## the tests with Spark, source, sink and pipelines, against Apache Kafka 4.3.1
	MOLDAU_TEST_BROKER=kafka $(BIN)/python -m pytest -q tests/spark

# Installed as a user would, so that pip itself says whether Moldau goes with that PySpark.
NEWEST_SPARK := 4.3.0
NEWEST := .cache/pyspark-$(NEWEST_SPARK)

spark-newest: setup ## the tests with Spark on the newest PySpark that Moldau goes with
	test -x $(NEWEST)/bin/python || $(BIN)/python -m venv $(NEWEST)
	sed -nE 's/^([A-Za-z][^\\]*[^ \\]) *\\?$$/\1/p' requirements.lock | grep -vE '^(pyspark|py4j)==' > $(NEWEST)/constraints.txt
	$(NEWEST)/bin/pip install --quiet --disable-pip-version-check -c $(NEWEST)/constraints.txt pyspark==$(NEWEST_SPARK) \
	  -e '.[avro,collect,protobuf,spark]' confluent-kafka hypothesis pytest pytest-randomly pytest-timeout
	$(NEWEST)/bin/pip --disable-pip-version-check check
	$(NEWEST)/bin/python -m pytest -q -p no:cacheprovider tests/unit/spark tests/spark

golden: setup ## make the reference bytes again with the Java clients
	$(BIN)/python -m tests.golden.generate

FORM ?= moldau-compiled

bench: setup $(if $(filter moldau-compiled,$(FORM)),wheel) ## Moldau against Apache Kafka on this machine; writes bench/RESULTS.md. The checkout: make bench FORM=moldau
	$(BIN)/python -m compileall -q src
	$(BIN)/python -m bench.run --candidate $(FORM)

bench-fetch: setup $(if $(filter moldau-compiled,$(FORM)),wheel) ## reading from the page cache and from the disk against Apache Kafka; writes bench/FETCH.md
	$(BIN)/python -m compileall -q src
	$(BIN)/python -m bench.run --candidate $(FORM) --works fetch cold_read --rounds 6 --output bench/FETCH.md

bench-cluster: setup $(if $(filter moldau-compiled,$(FORM)),wheel) ## three Moldau brokers against three of Apache Kafka; writes bench/CLUSTER.md. The checkout: make bench-cluster FORM=moldau
	$(BIN)/python -m compileall -q src
	$(BIN)/python -m bench.cluster --candidate $(FORM)

bench-zookeeper: setup $(if $(filter moldau-compiled,$(FORM)),wheel) ## brokers on ZooKeeper against Kafka's: leaders that fail, many replicas; writes bench/FAILOVER.md and bench/MANY_REPLICAS.md
	$(BIN)/python -m compileall -q src
	$(BIN)/python -m bench.failover --candidate $(FORM)
	$(BIN)/python -m bench.many_replicas --candidate $(FORM)

bench-quorum: setup $(if $(filter moldau-compiled,$(FORM)),wheel) ## three voters against three of Apache Kafka: leaders that fail, topics, many replicas; writes bench/QUORUM.md
	$(BIN)/python -m compileall -q src
	$(BIN)/python -m bench.quorum --candidate $(FORM)

BROKER ?= kafka

bench-clients: setup $(if $(filter moldau-compiled,$(FORM)),wheel) ## the Python client against others; writes bench/CLIENTS.md. The checkout, on our broker: make bench-clients FORM=moldau BROKER=moldau
	$(BIN)/python -m compileall -q src
	$(BIN)/python -m bench.clients.run --form $(FORM) --broker $(BROKER)

bench-spark: setup ## the source and sink against Spark's own connector; writes bench/SPARK.md
	$(BIN)/python -m compileall -q src
	$(BIN)/python -m bench.spark.run

recording: setup ## record the session of the README again; writes docs/images/cluster.svg; needs ports 9092-9094 and 9102-9104
	$(BIN)/python -m tools.recording docs/images/cluster.svg

lock: setup ## resolve the dependencies again
	$(BIN)/pip install --quiet uv
	$(BIN)/uv pip compile --universal --generate-hashes --no-emit-index-url --python-version 3.11 --quiet \
	  --upgrade --group pyproject.toml:dev pyproject.toml -o requirements.lock --custom-compile-command "make lock"

clean: ## remove what the targets made
	rm -rf $(VENV) build dist .cache .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
