"""The layers, the laws that a reader can see in the source, and what stays unloaded while a workflow is parsed.

Every guard is a function from source text to complaints, so that each is shown failing on a doctored text.
"""

import ast
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "icl"
FILES = {
    ".".join(("icl", *path.relative_to(SOURCE).with_suffix("").parts)).removesuffix(".__init__"): path
    for path in sorted(SOURCE.rglob("*.py"))
}
SCRIPTS = sorted((ROOT / "scripts").glob("*.py"))

# Who may import whom within the package, by the first part of the name after "icl". Bottom up.
SYSTEM_TOOLS = {"tasks", "attention", "causal_attention", "transformer", "train", "optimisers"}
ALLOWED = {
    "spec": set(),
    "rng": set(),
    "lazy": set(),
    "files": set(),
    "code": set(),
    "estimators": set(),
    "doctor": set(),
    "tasks": {"rng"},
    "theory": {"tasks"},
    "optimisers": {"lazy"},
    "attention": {"lazy"},
    "causal_attention": {"lazy"},
    "transformer": {"lazy", "attention", "optimisers"},
    "table": {"files", "spec"},
    "runs": {"files", "lazy", "spec"},
    "train": {"lazy", "runs", "spec"},
    "progress": {"runs"},
    "statistics": {"table"},
    "claims": {"table"},
    "reference": {"table"},
    "plotting": {"table", "reference"},
    "systems": SYSTEM_TOOLS | {"rng", "spec", "lazy"},
    "experiments": {"systems", "estimators", "theory", "statistics", "claims", "plotting", "table", "reference"}
    # constants of a sweep, randomness and prompts of a measurement, and the Runs that measure is given
    | {"spec", "rng", "tasks", "lazy", "runs", "experiments"},
    "figure": {"experiments", "claims", "runs", "spec", "statistics", "table"},
    "dag": {"figure", "reference", "code", "spec"},
    "requests": {"dag", "files"},
    # calibration: ranges, the distance it makes small, the search, and what came of it
    "calibrations": {"space", "spec"},
    "space": {"spec"},
    "distance": {"reference"},
    "outcome": {"calibrations", "claims", "space"},
    "calibration": {"distance", "figure", "outcome", "reference", "rng", "runs", "space", "spec", "table", "train"},
    "profiles": {"outcome", "plotting", "space"},
    "settlement": {"calibration", "figure", "outcome", "reference", "space"},
    "settled": {"calibrations", "outcome", "page", "reference", "settlement", "space", "spec"},
    "report": {"claims"},
    "papers": set(),
    "compare": {"report"},
    "page": {"compare", "figure", "outcome", "papers", "reference", "report", "spec", "table"},
    "provenance": {"figure", "reference", "report", "runs", "table", "dag", "spec", "code"},
    # for readers and developers, above everything
    "readme": {"figure", "papers", "report", "spec", "experiments"},
    "__main__": {"figure", "papers", "progress", "report", "spec"},
}
WITHOUT_TORCH = (
    "tasks",
    "plotting",
    "claims",
    "statistics",
    "figure",
    "dag",
    "table",
    "rng",
    "spec",
    "code",
    "reference",
)
TOUCH_FILES = {"table", "runs", "files", "progress", "reference", "provenance", "report", "page", "requests", "outcome"}
# These read sources and metadata, never results: the code's own text, the installation, the README.
READ_SOURCES = {"code", "doctor", "readme", "__main__"}


def layer(module: str) -> str:
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else ""


def imports(text: str) -> Iterator[str]:
    """Every module that a text imports, also inside functions; `from icl import x` counts as icl.x."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


# -- guards ------------------------------------------------------------------------------------------------------------


def layer_complaints(module: str, text: str) -> list[str]:
    mine, complaints = layer(module), []
    for name in imports(text):
        theirs = layer(name) if name.split(".")[0] == "icl" else ""
        if theirs and theirs != mine and theirs not in ALLOWED[mine]:
            complaints.append(f"{module} imports {name}: {mine} may import {sorted(ALLOWED[mine])}")
    return complaints


def system_complaints(module: str, text: str) -> list[str]:
    """No system imports another."""
    if layer(module) != "systems":
        return []
    return [f"{module} imports {name}" for name in imports(text) if layer(name) == "systems" and name[:4] == "icl."]


def plain_import_complaints(module: str, text: str) -> list[str]:
    """`import icl.x` binds the name icl, which the hash of the code does not follow."""
    return [
        f"{module}: import {alias.name}"
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Import)
        for alias in node.names
        if alias.name.split(".")[0] == "icl"
    ]


def dotted(node: ast.AST) -> str:
    """a.b.c as text; anything else inside counts as ?."""
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else "?"


LEGACY = {"seed", "rand", "randn", "randint", "random", "random_sample", "choice", "shuffle", "permutation", "normal"}
LEGACY |= {"uniform", "standard_normal", "RandomState", "get_state", "set_state"}
GLOBAL = {"manual_seed", "set_default_dtype", "set_default_device", "set_theme", "set_style"}
GLOBAL |= {"use_deterministic_algorithms"}
GLOBAL |= {"seed_all", "manual_seed_all", "pyplot"}
TORCH_DRAWS = {"rand", "randn", "randint", "randperm", "normal", "bernoulli", "multinomial", "rand_like", "randn_like"}


def global_complaints(module: str, text: str) -> list[str]:
    """Nothing draws from a global generator or changes a library's global state."""
    complaints = [f"{module} imports {name}" for name in imports(text) if set(name.split(".")) & (GLOBAL | {"pylab"})]
    complaints += [f"{module} imports {name}" for name in imports(text) if name.split(".")[0] == "random"]
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Attribute):
            name = dotted(node)
            parts = name.split(".")
            legacy = parts[:2] in (["np", "random"], ["numpy", "random"]) and bool(set(parts[2:]) & LEGACY)
            drawn = parts[0] == "torch" and parts[-1] in TORCH_DRAWS
            if legacy or drawn or parts[-1] in GLOBAL:
                complaints.append(f"{module}:{node.lineno} {name}")
        targets = node.targets if isinstance(node, ast.Assign) else []
        targets = [node.target] if isinstance(node, ast.AugAssign) else targets
        for target in targets:
            if isinstance(target, ast.Subscript) and dotted(target.value).endswith("rcParams"):
                complaints.append(f"{module}:{target.lineno} rcParams[...] =")
        if isinstance(node, ast.Call) and dotted(node.func).endswith(("rcParams.update", "plt.rc", "matplotlib.rc")):
            complaints.append(f"{module}:{node.lineno} {dotted(node.func)}")
    return complaints


FILE_METHODS = {"open", "read_text", "write_text", "read_bytes", "write_bytes", "mkdir", "unlink", "glob", "rglob"}
FILE_METHODS |= {"to_csv", "to_parquet", "to_json", "read_csv", "read_parquet", "read_json", "savefig", "savetxt"}
FILE_METHODS |= {"loadtxt", "safe_open", "save_file", "rmtree", "copyfile", "makedirs"}
FILE_CALLS = {"np.load", "np.save", "torch.load", "torch.save", "os.remove", "os.replace", "shutil.copy"}


def file_complaints(module: str, text: str) -> list[str]:
    """Calls that read or write files."""
    calls = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call)]
    named = [(node.lineno, dotted(node.func)) for node in calls]
    found = [(line, name) for line, name in named if name in FILE_CALLS or name.rsplit(".", 1)[-1] in FILE_METHODS]
    return [f"{module}:{line} {name}" for line, name in found]


def work_at_import_complaints(module: str, text: str) -> list[str]:
    """At the top level stand definitions, constants and imports; no statement that is there for its effect."""
    complaints = []
    for node in ast.parse(text).body:
        docstring = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        main = isinstance(node, ast.If) and ast.unparse(node.test) in ("TYPE_CHECKING", "__name__ == '__main__'")
        fine = ast.FunctionDef | ast.ClassDef | ast.Import | ast.ImportFrom | ast.Assign | ast.AnnAssign | ast.AugAssign
        if not (docstring or main or isinstance(node, fine)):
            complaints.append(f"{module}:{node.lineno} {ast.unparse(node)[:60]}")
    return complaints


def docstring_complaints(module: str, text: str) -> list[str]:
    tree = ast.parse(text)
    complaints = [] if ast.get_docstring(tree) else [f"{module}: no docstring"]

    def visit(owner: str, body: list[ast.stmt]) -> None:
        defined = [node for node in body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)]
        for node in defined:
            if node.name.startswith("_"):
                continue
            if not ast.get_docstring(node):
                complaints.append(f"{owner}.{node.name}: no docstring")
            if isinstance(node, ast.ClassDef):
                visit(f"{owner}.{node.name}", node.body)

    visit(module, tree.body)
    return complaints


def code_lines(text: str) -> int:
    """Lines of a script that are not blank, after its docstring."""
    first = ast.parse(text).body[0]
    start = first.end_lineno if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) else 0
    return sum(1 for line in text.splitlines()[start:] if line.strip())


# -- the guards hold ---------------------------------------------------------------------------------------------------

PACKAGE_WIDE: list[Callable[[str, str], list[str]]] = [
    layer_complaints, system_complaints, plain_import_complaints, global_complaints, work_at_import_complaints,
    docstring_complaints,
]  # fmt: skip


@pytest.mark.parametrize("module", FILES)
def test_every_module_has_a_layer(module: str) -> None:
    assert module == "icl" or layer(module) in ALLOWED, f"say in ALLOWED what {module} may import"


@pytest.mark.parametrize("guard", PACKAGE_WIDE, ids=lambda guard: guard.__name__)
def test_the_package_keeps_its_laws(guard: Callable[[str, str], list[str]]) -> None:
    complaints = [c for module, path in FILES.items() for c in guard(module, path.read_text(encoding="utf-8"))]
    assert complaints == []


def test_only_the_modules_for_files_touch_files() -> None:
    allowed = TOUCH_FILES | READ_SOURCES
    complaints = [
        complaint
        for module, path in FILES.items()
        if layer(module) not in allowed
        for complaint in file_complaints(module, path.read_text(encoding="utf-8"))
    ]
    assert complaints == []


def test_what_must_not_import_torch_does_not() -> None:
    found = [
        f"{module} imports {name}"
        for module, path in FILES.items()
        if layer(module) in WITHOUT_TORCH
        for name in imports(path.read_text(encoding="utf-8"))
        if name.split(".")[0] == "torch"
    ]
    assert found == []


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_scripts_are_short_and_explain_themselves(script: Path) -> None:
    text = script.read_text(encoding="utf-8")
    assert ast.get_docstring(ast.parse(text))
    assert code_lines(text) <= 30
    assert global_complaints(script.name, text) == []


def test_no_layer_is_allowed_in_a_circle() -> None:
    seen: dict[str, bool] = {}

    def visit(name: str, above: tuple[str, ...]) -> None:
        assert name not in above, f"{' -> '.join((*above, name))}"
        if not seen.get(name):
            for below in ALLOWED.get(name, set()) - {name}:
                visit(below, (*above, name))
            seen[name] = True

    for name in ALLOWED:
        visit(name, ())


# -- the guards can fail -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("guard", "module", "text"),
    [
        (layer_complaints, "icl.tasks.x", "from icl.systems import li_icl"),
        (layer_complaints, "icl.core.streams", "def f():\n    from icl.core.config import digest"),
        (layer_complaints, "icl.systems.x", "from icl import plotting"),
        (layer_complaints, "icl.evidence.judging", "import icl.evidence.intervals"),
        (system_complaints, "icl.systems.x", "from icl.systems.y import loss"),
        (system_complaints, "icl.systems.x", "from icl.systems import y"),
        (plain_import_complaints, "icl.x", "import icl.core.streams"),
        (global_complaints, "icl.x", "torch.manual_seed(0)"),
        (global_complaints, "icl.x", "from torch import manual_seed"),
        (global_complaints, "icl.x", "np.random.seed(0)"),
        (global_complaints, "icl.x", "x = numpy.random.randn(3)"),
        (global_complaints, "icl.x", "x = torch.randn(3)"),
        (global_complaints, "icl.x", "import random"),
        (global_complaints, "icl.x", "import matplotlib.pyplot as plt"),
        (global_complaints, "icl.x", "from matplotlib import pyplot"),
        (global_complaints, "icl.x", "matplotlib.rcParams['font.size'] = 3"),
        (global_complaints, "icl.x", "rcParams['font.size'] = 3"),
        (global_complaints, "icl.x", "mpl.rcParams.update({})"),
        (global_complaints, "icl.x", "seaborn.set_theme()"),
        (global_complaints, "icl.x", "torch.set_default_dtype(torch.float64)"),
        (file_complaints, "icl.x", "open('x')"),
        (file_complaints, "icl.x", "Path('x').read_text()"),
        (file_complaints, "icl.x", "frame.to_csv('x')"),
        (file_complaints, "icl.x", "torch.load('x')"),
        (work_at_import_complaints, "icl.x", "print(1)"),
        (work_at_import_complaints, "icl.x", "X = {}\nX.update(a=1)"),
        (work_at_import_complaints, "icl.x", "for i in range(3):\n    x = i"),
        (docstring_complaints, "icl.x", "def f(): pass"),
        (docstring_complaints, "icl.x", '"""Doc."""\nclass A:\n    """Doc."""\n    def f(self): pass'),
    ],
)
def test_the_guards_can_fail(guard: Callable[[str, str], list[str]], module: str, text: str) -> None:
    assert guard(module, text)


def test_the_guards_leave_the_good_alone() -> None:
    text = '"""Doc."""\nx = np.random.Generator(np.random.Philox(key=1))\ny = np.random.Generator\n'
    for guard in (global_complaints, file_complaints, work_at_import_complaints, docstring_complaints):
        assert guard("icl.x", text) == []
    assert code_lines('"""One\ntwo."""\n\nimport os\n\nprint(os)\n') == 2


# -- what stays unloaded -----------------------------------------------------------------------------------------------

PROBE = """
import json, sys
from icl import dag, figure
figures = figure.known()
for name in figures:
    figure.module(name)
drawn = [name for name in figures if hasattr(figure.module(name), "sweeps")]
plan = dag.Plan.of({"figures": drawn, "scale": "laptop", "shards": 2, "constants": {}})
for name in drawn:
    plan.measurement_identity(name), plan.drawing_identity(name), plan.judging_identity(name), plan.run_files(name)
for sweep in plan.trainings:
    plan.training_identity(sweep, plan.shard_names(sweep)[0])
print(json.dumps([name for name in sys.modules if name.count(".") <= 1]))
"""


def test_parsing_the_workflow_loads_nothing_heavy() -> None:
    """icl.core.lazy leaves an entry `torch` that was not executed; `torch._C` appears when it is."""
    done = subprocess.run([sys.executable, "-c", PROBE], capture_output=True, text=True, check=True, timeout=120)
    loaded = set(json.loads(done.stdout.strip().splitlines()[-1]))
    assert "icl.pipeline.plan" in loaded
    assert loaded & {"torch._C", "matplotlib", "scipy", "sklearn", "seaborn", "safetensors"} == set()
