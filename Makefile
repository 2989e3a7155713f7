# The two commands of the README are `make demo` and `make test`; both do their own set-up on Debian and Ubuntu.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SUITE ?= trixie
# Lab tests wait for hosts a good part of the time, so that two processors serve four of their processes.
WORKERS ?= 4
BLACKOUTS ?= 1-108
LAB_PACKAGES := gcc gpg gpg-agent systemd-container mmdebstrap debian-archive-keyring iproute2 nftables procps util-linux openssh-client
# What opens the pages of fab report in tests.
BROWSER_PACKAGES := chromium chromium-driver
# Shells whose completion is tested; bash is everywhere. fish brings man-db, which sets the manual pages.
SHELL_PACKAGES := zsh fish
# What tests without hosts call, beside what every system has.
TOOL_PACKAGES := age e2fsprogs rpm dnf createrepo-c gpg gpg-agent
# Tests that deploy once to each suite that any test deploys to.
SUPPORTED := $(wildcard $(patsubst %,tests/lab/test_%.py,deploy other_suites slurm_packages smd like_ubuntu))
# Tests that are played on the look-alikes of Ubuntu: those of a first hour, a cluster that is taken over, and the README
# typed by a user with sudo, who runs the tests without hosts as well.
UBUNTU_TESTS := $(patsubst %,tests/lab/test_%.py, \
  like_ubuntu add_node accounts people update reboot import upgrade check_cluster ways_in) \
  tests/lab/test_clean_machines.py::test_the_readme_when_typed_then_the_demo_passes_twice_and_slurmfab_is_installed
# Tests that are played on the stand-in for Enterprise Linux: those of its package manager, and some that are not about apt.
EL_TESTS := tests/agent/dnf $(patsubst %,tests/lab/test_%.py, \
  el el_bundle el_logins selinux mixed mixed_upgrade accounts add_node come_and_go configless database drain_resume_status drift \
  eject eject_rich former_mistakes gres hand_made_files history import in_use new_machines power reboot rollback rotate_munge_key saved_plan second_controller \
  slurm_user stopped_slurmctld submit_script topology upgrade upgrade_back usage)
AS_ROOT := $(if $(filter 0,$(shell id -u)),,sudo)
# What sudo would leave out: the suites that tests on hosts are played on, and where Ubuntu's packages come from.
KEPT := PATH="$$PATH:/usr/sbin:/sbin" SUITES="$$SUITES" SLURMFAB_UBUNTU_MIRROR="$$SLURMFAB_UBUNTU_MIRROR"
MISSING = $(shell for package in $(1); do dpkg-query -W -f '$${Status}' $$package 2>/dev/null | grep -q 'ok installed' || echo $$package; done)

PIP_INSTALL = $(BIN)/pip install --quiet --disable-pip-version-check
LOCK_PINS = build/uv/bin/uv pip compile --quiet --upgrade --universal --python-version 3.10 --generate-hashes \
  --no-python-downloads --custom-compile-command 'make constraints'

# Installs those of some packages that are missing; $(2): further options of apt-get.
INSTALL = @missing="$(strip $(call MISSING,$(1)))"; [ -z "$$missing" ] || { $(call APT,$$missing,$(2)); }
# Installs packages, and asks nothing: debconf would say at length that it cannot.
APT = echo "Installing with apt: $(1)"; $(AS_ROOT) apt-get update -qq && \
  $(AS_ROOT) env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq $(2) $(1) >/dev/null

.PHONY: help setup constraints lab-packages test-packages tool-packages demo demo-down wheel tried test test-fast test-all test-smd test-el test-ubuntu test-breakages test-blackouts unit mutants lint format docs supported reference bench clean

help:  ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(VENV)/.ready  ## a virtual environment with slurmfab and what its tests need

$(VENV)/.ready: setup.cfg pyproject.toml constraints-dev.txt
	@$(PYTHON) -c 'import ensurepip' 2>/dev/null || { $(call APT,python3-venv); }
	$(PYTHON) -m venv $(VENV)
	$(PIP_INSTALL) --require-hashes --requirement constraints-dev.txt
	$(PIP_INSTALL) --no-deps --no-build-isolation --editable .
	@touch $@

constraints:  ## pin anew what slurmfab installs, with hashes: the newest versions that setup.cfg allows
	$(PYTHON) -m venv build/uv
	build/uv/bin/pip install --quiet --disable-pip-version-check uv
	sed -n 's/^requires = \["\(.*\)"\]$$/\1/p' pyproject.toml > build/build-requires.in
	$(LOCK_PINS) setup.cfg build/build-requires.in --output-file constraints.txt
	$(LOCK_PINS) setup.cfg build/build-requires.in --extra dev --constraint constraints.txt --output-file constraints-dev.txt

wheel: setup  ## a release in dist/: the wheel, which pipx or pip installs without this tree, and the pins of what it needs
	rm -rf build/lib dist
	$(BIN)/pip wheel --quiet --disable-pip-version-check --no-deps --no-build-isolation --wheel-dir dist .
	cp constraints.txt dist/
	@ls dist/*.whl

lab-packages:  ## the Debian packages that the lab needs, if any is missing
	$(call INSTALL,$(LAB_PACKAGES))

tool-packages:  ## the Debian packages with programs that tests without hosts call, if any is missing
	$(call INSTALL,$(TOOL_PACKAGES),--no-install-recommends)

test-packages: tool-packages  ## these, and Chromium, zsh and fish, which tests of pages and of completion need
	$(call INSTALL,$(BROWSER_PACKAGES) $(SHELL_PACKAGES),--no-install-recommends)

demo: setup lab-packages  ## one controller and two compute nodes on this machine: deploy, check, run a job
	@mkdir -p build  # so that it is the user's, also where root writes below it
	$(AS_ROOT) env PATH="$$PATH:/usr/sbin:/sbin" BIN="$(BIN)" SUITE="$(SUITE)" sh docs/demo.sh

demo-down:  ## remove what the demo left running
	$(AS_ROOT) $(BIN)/fab lab-down --name demo

tried:  ## both commands of the README, twice, its pages typed on new machines, and the record of what has passed
	rm -rf build/tried
	for round in first second; do \
	  $(MAKE) demo && $(MAKE) demo-down && $(MAKE) test && echo "The $$round round has passed." || exit 1; done
	$(AS_ROOT) env $(KEPT) TURN=all $(BIN)/pytest tests/lab/test_clean_machines.py
	$(BIN)/python tests/lab/tried.py record
	$(BIN)/python -m reference

test: setup test-packages $(if $(filter 0,$(shell id -u)),lab-packages)  ## all tests; of those on lab hosts, which need root, a share by the day
	$(BIN)/pytest -n $(WORKERS)

test-fast: setup tool-packages  ## the tests that need no hosts
	$(BIN)/pytest -n 3 -m 'not lab and not browser and not shells' --ignore tests/lab --ignore tests/browser --ignore tests/shells

test-all: setup test-packages lab-packages  ## all tests on all suites, also those that `make test` plays by turns
	$(AS_ROOT) env $(KEPT) TURN=all $(BIN)/pytest -n $(WORKERS)

test-smd: setup lab-packages  ## the tests on lab hosts, with the stand-in for SchedMD's packages of Slurm
	$(AS_ROOT) env PATH="$$PATH:/usr/sbin:/sbin" PACKAGES=smd TURN=all $(BIN)/pytest -n $(WORKERS) tests/lab

test-el: setup lab-packages tool-packages  ## the tests of rpm and dnf, and those on the stand-in for Enterprise Linux
	$(AS_ROOT) env PATH="$$PATH:/usr/sbin:/sbin" PACKAGES=el-smd TURN=all $(BIN)/pytest -n $(WORKERS) $(EL_TESTS)

test-ubuntu: setup lab-packages  ## the tests of a first hour, on look-alikes of Ubuntu 24.04 and 26.04
	for one in 24.04 26.04; do \
	  $(AS_ROOT) env PATH="$$PATH:/usr/sbin:/sbin" LIKE=ubuntu-$$one TURN=all $(BIN)/pytest -n $(WORKERS) $(UBUNTU_TESTS) || exit 1; done

test-breakages: setup lab-packages  ## every way of breaking a host: found, named, mended?
	$(AS_ROOT) env $(KEPT) TURN=all $(BIN)/pytest -n 2 tests/breakages

test-blackouts: setup lab-packages  ## a hundred losses of power under jobs, on each suite: whole within two minutes? some seven hours
	$(AS_ROOT) env $(KEPT) TURN=all BLACKOUTS=$(BLACKOUTS) $(BIN)/pytest -n 2 tests/lab/test_blackouts.py

unit: test-fast  ## another name for test-fast

mutants: setup tool-packages  ## small mistakes in what plans and changes clusters: do the fast tests notice them? at most 40 minutes
	$(BIN)/python tests/mutants/run.py $(MUTANTS)

lint: setup  ## what CI checks besides the tests
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: setup  ## put all Python code into its usual shape
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

docs: setup  ## the documentation as a site in build/site: a broken link or a page without a place in it is an error
	$(BIN)/sphinx-build -W -n --keep-going -q -c docs -d build/site-doctrees . build/site
	@touch build/site.built
	@echo "build/site/index.html"

pictures: setup lab-packages test-packages  ## record anew what the documentation shows of slurmfab's output, on a lab
	$(AS_ROOT) env PATH="$$PATH:/usr/sbin:/sbin" $(BIN)/python docs/recordings/record.py

bench: setup lab-packages  ## all benchmarks, beside floors and peers; some of them: make bench BENCH="no-change-5 start"
	$(AS_ROOT) env PATH="$$PATH:/usr/sbin:/sbin" $(BIN)/python -m benchmarks $(BENCH)

supported: setup lab-packages  ## deploy to every suite of the tests, and write what they deployed to into docs/supported.md
	rm -rf build/deployed
	$(AS_ROOT) env $(KEPT) TURN=all $(BIN)/pytest -n 2 $(SUPPORTED)
	PYTHONPATH=tests/lab $(BIN)/python -m deployed
	$(BIN)/python -m reference

reference: setup  ## write the pages of docs/reference and the manual pages from the code
	$(BIN)/python -m reference

clean:  ## remove the virtual environment and all that tools left behind
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache
