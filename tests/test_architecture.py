"""No code changes a library's global state, and planning loads no torch."""

import ast
import json
import subprocess
import sys

from conftest import ROOT

SOURCES = [path for top in ("src", "scripts", "studies") for path in (ROOT / top).rglob("*.py")]
GENERATORS = "rand randn randint randperm rand_like randn_like bernoulli multinomial normal".split()
STATES = {"manual_seed", "seed_all", "set_default_dtype", "set_default_device"}
STATES |= {"use_deterministic_algorithms", "pyplot", "pylab", "set_theme", "set_style", "rcParams"}


def global_state(text: str) -> list[str]:
    """Return the names in a text that use a global generator or change a library's global state.

    ruff checks numpy's legacy generators (NPY002).
    """
    found: list[str] = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = {alias.name for alias in node.names} | {getattr(node, "module", None) or ""}
            found += {part for name in names for part in name.split(".")} & (STATES | {"random"})
        elif isinstance(node, ast.Attribute):
            of_torch = isinstance(node.value, ast.Name) and node.value.id == "torch"
            if node.attr in STATES or (of_torch and node.attr in GENERATORS):
                found.append(node.attr)
    return found


def test_nothing_uses_global_state() -> None:
    assert global_state("import random") and global_state("torch.manual_seed(0)")
    for path in SOURCES:
        assert global_state(path.read_text("utf-8")) == [], path


PROBE = """
import json, sys
from icl.pipeline.plan import Plan
plan = Plan("laptop")
for name in plan.figures:
    plan.measurement_fingerprint(name), plan.drawing_fingerprint(name)
    plan.judging_fingerprint(name), plan.chain(name)
    plan.note(name).full
for sweep in plan.trainings:
    plan.training_fingerprint(plan.shard(sweep, plan.shard_names(plan.sweep(sweep))[0]))
    plan.request("mem_mb", 1)
print(json.dumps(list(sys.modules)))
"""


def test_planning_everything_loads_nothing_heavy() -> None:
    """Snakemake plans whenever it parses the workflow, also in every job of a cluster."""
    told = subprocess.check_output([sys.executable, "-c", PROBE], text=True, timeout=300)
    loaded = set(json.loads(told.splitlines()[-1]))
    heavy = {"torch", "matplotlib", "scipy", "sklearn", "seaborn", "safetensors", "transformers"}
    assert "icl.papers.li2024.one_layer" in loaded and not loaded & heavy
