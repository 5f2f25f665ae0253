# A fresh clone needs CPython 3.11 or later, make and pip; everything else is installed into .venv.
#
#   make figure12                                             any target of the workflow
#   make figure12 SCALE=smoke                                 at another scale
#   make figure12 SET='li_icl_gpt2: {relevant_fraction: 0.6}' with changed constants
#   make figure12 FIRST_SEED=7000 SEEDS=10                    with other seeds, ten of them
#   make figure12 SNAKEMAKE_ARGS='--config variant=a'         with more arguments for Snakemake
#   make compare FIGURE=figure12                              your results against the gallery's
#   make test                                                 the tests, without the slow ones
#   make help                                                 all commands
#
# Choices for .venv, which last until another is given and make it again if they change:
#   PYTHON=python3.13       the Python
#   TORCH_INDEX=<address>   a package index with the CPU build of torch, if pip's own sources have none
#   TORCH=cuda              the default build of torch, for a machine with a GPU; TORCH=cpu for the other again

SHELL := /bin/bash
.DEFAULT_GOAL := first
# Tests of one file run in one process, which trains what they need once.
PYTEST_ARGS ?= -n 2 --dist loadfile
SITE ?= site
# What a caller gives, as a variable of make or of the environment. Neither make nor a shell expands it: recipes read it
# from the environment, and scripts/call.py separates its words.
GIVEN := BENCH FIGURE FIRST_SEED LOCK_ARGS PAPER PYTEST_ARGS PYTHON SCALE SEEDS SET SITE SNAKEMAKE_ARGS TORCH TORCH_INDEX
$(foreach name,$(GIVEN),$(eval override $(name) := $$(value $(name))))
export $(GIVEN)
CALL := .venv/bin/python scripts/call.py

# Of Python, pip and matplotlib no settings of the caller, such as those of a notebook.
unexport $(filter-out PYTHON,$(filter PYTHON% MPL% PIP_USER PIP_TARGET,$(.VARIABLES)))
# Without kept bytecode each of hundreds of jobs would compile what it imports; containers often turn it off.
unexport PYTHONDONTWRITEBYTECODE
export PYTHONNOUSERSITE := 1
export OUTSIDE := $(value PATH)
export PATH := $(CURDIR)/.venv/bin:$(value PATH)
# Snakemake and uv need a folder for caches; without a home it is here.
ifeq ($(XDG_CACHE_HOME)$(shell [ -d "$$HOME" ] && [ -w "$$HOME" ] && echo home),)
export XDG_CACHE_HOME := $(CURDIR)/.cache
endif

LOCK := requirements/lock.txt
COMPILE = $(CALL) LOCK_ARGS .venv/bin/uv pip compile --universal --python-version 3.11 --fork-strategy fewest \
  --generate-hashes --custom-compile-command 'make lock' --quiet

# All goals that are not listed here are passed to Snakemake in one call. They precede SNAKEMAKE_ARGS, because
# `--config a=b` consumes what follows.
OWN := first help env paper docs test test-all test-browser test-slurm lint bench whatif lock clean clean-env snakemake
export TARGETS := $(filter-out $(OWN),$(MAKECMDGOALS))
.PHONY: $(OWN)

# make takes any name=value; another one is a mistake, such as scale=smoke.
$(foreach name,$(filter-out $(GIVEN),$(.VARIABLES)),$(if $(filter command,$(origin $(name))),\
  $(error $(name)=...: has no use here; in capitals, make takes $(GIVEN))))

first:
	@echo 'make figure12              make one figure and print its verdicts'
	@echo 'make paper PAPER=li2024    make all figures of one paper'
	@echo 'make figures               make all figures'
	@echo 'make report                write one page with all figures, claims and constants'
	@echo 'make test                  run the tests without the slow ones'
	@echo
	@echo 'make help lists all commands, .venv/bin/python -m icl list all papers and figures.'

help:
	@echo 'make TARGET ...   make targets of the workflow: figure12, figures, verdicts, report, ...'
	@echo '                  SCALE=smoke, workstation or paper for another scale, SET="li_icl: {batch: 64}" for other constants,'
	@echo '                  FIRST_SEED=7000 and SEEDS=10 for other seeds and their number,'
	@echo '                  SNAKEMAKE_ARGS="..." for more arguments of Snakemake'
	@echo 'make env          set up .venv from the lock (the other commands do it too); PYTHON=python3.13'
	@echo 'make paper PAPER=li2024   make all figures of one paper'
	@echo 'make compare FIGURE=figure12    hold your results against those in the gallery'
	@echo 'make docs         build the documentation as a site in site/, with the report of the gallery'
	@echo "make whatif FIGURE=figure12 SET='li_icl_gpt2: {relevant_fraction: 0.6}'"
	@echo '                  make a figure with default and changed constants, and print the verdicts that differ'
	@echo 'make test         run the tests without the slow ones; PYTEST_ARGS="-n 2 --dist loadfile" by default'
	@echo 'make test-browser run the tests of report and site in a real browser; needs Chromium'
	@echo 'make test-slurm   run the tests of the cluster profiles on a SLURM of one node; needs SLURM'
	@echo 'make test-all     run all tests'
	@echo 'make lint         run ruff, mypy, import-linter, snakefmt and the lint of Snakemake'
	@echo 'make bench        run the benchmarks; BENCH=garg for some of them'
	@echo 'make lock         update the lock from pyproject.toml; LOCK_ARGS=--upgrade for newer versions'
	@echo 'make clean        remove results, figures and caches, but not .venv'
	@echo 'make clean-env    remove .venv'
	@echo
	@echo 'For the first set-up of .venv: TORCH_INDEX=ADDRESS names an index with the CPU build of torch,'
	@echo 'TORCH=cuda chooses the default build, for a machine with a GPU.'

# As a pattern, because a name in a rule would be read as a part of this file.
Makefile: ;
%: snakemake
	@:

snakemake: env
	set -f; $(CALL) SNAKEMAKE_ARGS .venv/bin/snakemake $$TARGETS

# Uses the first Python that runs and can make virtual environments; the lock has no wheels for 3.14 yet.
env:
	@$(if $(filter-out cpu cuda,$(TORCH)),echo 'TORCH is cpu or cuda' >&2; exit 2)
	@PATH="$$OUTSIDE"; pythons=("$$PYTHON"); \
	[ -n "$$PYTHON" ] || pythons=(python3 python3.13 python3.12 python3.11 python3.14); \
	for python in "$${pythons[@]}"; do \
	  "$$python" -c 'import sys, ensurepip, venv; named = sys.argv[1] != "python3"; \
	    sys.exit(not (3, 11) <= sys.version_info < (3, 99 if named else 14))' "$$python" 2>/dev/null || continue; \
	  exec "$$python" scripts/environment.py "$$PYTHON" "$$TORCH" "$$TORCH_INDEX"; \
	done; \
	named="$${PYTHON:+ in PYTHON=$$PYTHON}"; \
	echo "make env: no Python 3.11 or later with venv and pip (Debian: python3-venv)$${named:-; name one with PYTHON=...}" >&2; \
	exit 1

test: env
	$(CALL) PYTEST_ARGS .venv/bin/python -m pytest

test-all: env
	$(CALL) PYTEST_ARGS .venv/bin/python -m pytest -m ''

test-browser: env
	$(CALL) PYTEST_ARGS .venv/bin/python -m pytest -m browser

# In one process, because the cluster of one node runs jobs in parallel.
test-slurm: env
	.venv/bin/python -m pytest -m slurm

lint: env
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy
	.venv/bin/lint-imports
	.venv/bin/snakefmt --check Snakefile workflow
	.venv/bin/snakemake --lint

# With the same thresholds as the workflow's training jobs. BENCH='garg softmax' runs some rows only.
bench: env
	MALLOC_TRIM_THRESHOLD_=4000000000 MALLOC_MMAP_THRESHOLD_=4000000000 $(CALL) BENCH .venv/bin/python -m benchmarks

# All figures of one paper, which is a target of the workflow.
paper: env
	@$(if $(PAPER),,echo 'make paper PAPER=li2024' >&2; exit 2)
	$(CALL) SNAKEMAKE_ARGS .venv/bin/snakemake "$$PAPER"

# The pages and what they link to, at their paths in the repository. Building and reading the site need no network.
docs: env
	rm -rf .cache/site
	mkdir -p .cache/site
	tar -cf - --exclude=__pycache__ README.md LICENSE CITATION.cff references.bib docs gallery profiles/README.md \
	  requirements/lock.txt src/icl/papers | tar -xf - -C .cache/site
	find .cache/site -name report.html -exec sed -E -i.md 's#(href="\.\./(docs|gallery)/[a-z]+)\.md"#\1.html"#g' {} +
	find .cache/site -name report.html.md -delete
	NO_MKDOCS_2_WARNING=1 .venv/bin/mkdocs build --strict --quiet --site-dir "$$SITE"
	@echo "site      $$SITE/index.html; a browser opens it from the file"

# A figure with default and changed constants in one picture.
whatif: env
	@$(if $(and $(FIGURE),$(SET)),,echo "make whatif FIGURE=figure12 SET='li_icl_gpt2: {relevant_fraction: 0.6}'" >&2; exit 2)
	@$(if $(SNAKEMAKE_ARGS),echo 'make whatif takes FIGURE and SET and SCALE and FIRST_SEED and SEEDS but no SNAKEMAKE_ARGS' >&2; exit 2)
	.venv/bin/python -m icl whatif --set "$$SET" $${SCALE:+--scale "$$SCALE"} \
	  $${FIRST_SEED:+--first-seed "$$FIRST_SEED"} $${SEEDS:+--seeds "$$SEEDS"} -- "$$FIGURE"

# One resolution for all Pythons from 3.11 on and all platforms (--universal), one version per package (fewest).
# Locked versions stay if the ranges allow them.
lock: env
	$(COMPILE) pyproject.toml --extra dev --extra studies --extra docs --constraint requirements/torch.in --no-emit-package torch \
	  --output-file $(LOCK)
	$(COMPILE) requirements/torch.in --no-config --no-annotate --constraint $(LOCK) --output-file requirements/torch.txt

# The slashes follow links to other disks. find and rm name what they cannot remove, and the rest is removed all the same.
clean:
	@failed=0; for folder in results figures; do \
	  find $$folder/ -mindepth 1 -not -path "$$folder/README.md" -delete || failed=1; \
	done; \
	rm -rf .snakemake .cache/site .cache/new.json .pytest_cache .hypothesis .mypy_cache .ruff_cache benchmarks/output site \
	  || failed=1; \
	find src scripts studies benchmarks tests -name __pycache__ -prune -exec rm -rf {} + || failed=1; exit $$failed

clean-env:
	rm -rf .venv .venv.old
