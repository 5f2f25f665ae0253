"""The profiles on a real SLURM of one node: submission, requests, logs, retries, cancellation,
equal results.

Many scenarios share one call of Snakemake, whose polls take longer than the jobs. Where only the
queue matters, stand-ins replace the jobs; rules, requests and profiles are the real ones.
"""

import os
import re
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from conftest import Workflow
from slurm_cluster import Cluster, missing

from icl.core import table
from icl.core.training import train
from icl.pipeline import figures
from icl.pipeline.config import FIRST_SEED
from icl.pipeline.plan import Plan

pytestmark = pytest.mark.slurm
# The profiles wait as long as real clusters need: a minute for files, longer between polls.
SOON = ("--latency-wait", "5", "--config", "scale=smoke", "shards=1")
SLURM = ("--workflow-profile", "profiles/slurm", "--slurm-status-command", "squeue",
         "--slurm-init-seconds-before-status-checks", "1", *SOON)  # fmt: skip
PLAN = Plan("smoke", 1)
FIGURES = ("figure8", "figure12", "zhang_convergence")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    if absent := missing():
        needed = "apt-get install slurmctld slurmd slurm-client munge"
        pytest.skip(f"no SLURM here, {', '.join(absent)} not found: {needed}")
    with pytest.MonkeyPatch.context() as patch:
        running = Cluster(tmp_path_factory.mktemp("slurm"))
        for name, value in running.environment.items():
            patch.setenv(name, value)
        yield running
        running.stop()


# The folder's plan, and the figure or figure/sweep/shard of the job.
HEAD = """
import json, sys
from pathlib import Path
from icl.pipeline.plan import Plan
name, plan = sys.argv[-1], Plan.of(json.loads(sys.argv[sys.argv.index("--config") + 1]))
"""


def replace_job(workflow: Workflow, kind: str, text: str) -> None:
    (workflow.folder / f"{kind}.py").write_text(HEAD + text, encoding="utf-8")
    rules = workflow.folder / "workflow/rules/jobs.smk"
    own = re.sub(rf"-m icl (.*) {kind} ", rf"{kind}.py \1 {kind} ", rules.read_text())
    rules.write_text(own)


def take_options(workflow: Workflow, *keys: str) -> None:
    """Enable options of the SLURM profile by removing their #, as a user would."""
    path = workflow.folder / "profiles/slurm/config.yaml"
    text = path.read_text("utf-8")
    for key in keys:
        (option,) = re.findall(rf"(?m)^#{key}:\n(?:#  .*\n)+", text)
        text = text.replace(option, re.sub(r"(?m)^#", "", option))
    path.write_text(text, encoding="utf-8")


def jobs_of(cluster: Cluster, output: str) -> list[dict[str, str]]:
    """SLURM's records of the jobs of one run, in order of submission."""
    ids = re.findall(r"(?:submitted with SLURM jobid |external jobid ')(\d+)", output)
    found = [job for job in cluster.jobs() if job["JobId"] in ids]
    return sorted(found, key=lambda job: int(job["JobId"]))


def locally(name: str) -> table.Table:
    sweeps = figures.sweeps(name, "smoke", {}, FIRST_SEED)
    return figures.measure(name, {key: train(sweep) for key, sweep in sweeps.items()}, "smoke")


def test_figures_go_through_the_queue_and_equal_local_ones(
    cluster: Cluster, workflow: Workflow
) -> None:
    done = workflow(*FIGURES, *SLURM, timeout=900)
    assert done.returncode == 0, done.stdout
    for name in FIGURES:
        made = table.read(workflow.folder / f"results/smoke/tables/{name}.parquet")[0]
        local = locally(name)
        assert made.runs.equals(local.runs) and made.curves.equals(local.curves)
        assert (workflow.folder / f"figures/smoke/{name}.png").stat().st_size > 1000
        assert f"results/smoke/verdicts/{name}.json" in done.stdout

    jobs = {job["Comment"]: job for job in jobs_of(cluster, done.stdout)}
    # One training per sweep, and measuring, drawing and judging per figure.
    trainings = {sweep for name in FIGURES for sweep in PLAN.sweeps(name)}
    assert len(jobs) == len(trainings) + 3 * len(FIGURES)
    assert {job["JobState"] for job in jobs.values()} == {"COMPLETED"}
    # As requested: one core each, the memory and time of the rule, and dependent jobs later.
    minutes = PLAN.request("runtime", 1)
    for words in ("train_wildcards_li_icl_gpt2_0of1", "measure_wildcards_figure12"):
        job = jobs[f"rule_{words}"]
        assert job["TRES"].startswith(f"cpu=1,mem={PLAN.request('mem_mb', 1)}M,"), job
        assert job["TimeLimit"] == f"{minutes // 60:02}:{minutes % 60:02}:00"
        assert job["Requeue"] == "0"
    first, second = (jobs[f"rule_{r}_wildcards_figure8"] for r in ("measure", "judge"))
    assert first["EndTime"] <= second["StartTime"]
    # Logs of successful jobs are removed.
    assert not list((workflow.folder / ".snakemake").glob("slurm_logs/**/*.log"))


def test_the_options_for_a_gpu_and_for_groups(
    cluster: Cluster, workflow: Workflow, figure9_made: Path
) -> None:
    take_options(workflow, "set-resources", "groups", "group-components")
    (workflow.folder / "results/smoke").mkdir(parents=True)
    shutil.copytree(figure9_made / "results/smoke/tables", workflow.folder / "results/smoke/tables")
    results = ("verdicts/figure9.json", "runs/zhang_prompts/0of1.safetensors")
    targets = [f"results/smoke/{path}" for path in results]
    done = workflow(*targets, *SLURM, "--allowed-rules", "train", "judge", timeout=900)
    assert done.returncode == 0, done.stdout
    jobs = jobs_of(cluster, done.stdout)
    trained, judged = sorted(jobs, key=lambda job: "rule_train" not in job["Comment"])
    assert (trained["Partition"], judged["Partition"]) == ("gpu", "main")
    assert (trained["TresPerJob"], judged.get("TresPerJob")) == ("gres:gpu:1", None)
    assert "mem=8000M" in trained["TRES"]


MEASURE = """
import os
import subprocess
import time

table = Path(plan.table_file(name))
tries = Path(f"{name}.tries")
tries.write_text((tries.read_text() if tries.exists() else "") + "x")
if name == "figure8":
    sys.exit("figure8 fails on purpose")
if name == "figure9":
    # More than its first attempt asks for, less than its second.
    held = bytearray(int(1.3 * 2**20 * int(Path("first_request").read_text())))
    held[::4096] = b"x" * len(held[::4096])
    time.sleep(6)
ask = ("scontrol", "show", "job", os.environ["SLURM_JOB_ID"])
if "TimeLimit=00:01:00" in subprocess.run(ask, capture_output=True, text=True, check=True).stdout:
    time.sleep(600)
table.parent.mkdir(parents=True, exist_ok=True)
table.write_text(name)
"""
TRAIN = """
weights = Path(plan.weights_file(*name.split("/")[1:]))
weights.parent.mkdir(parents=True, exist_ok=True)
weights.write_text("trained")
"""


def test_failed_jobs_are_retried_with_more_and_others_continue(
    cluster: Cluster, workflow: Workflow
) -> None:
    """One measurement always fails, one needs more memory, one more time, and one succeeds."""
    replace_job(workflow, "train", TRAIN)
    replace_job(workflow, "measure", MEASURE)
    names = ("figure8", "figure9", "figure10", "figure11")
    targets = [f"results/smoke/tables/{name}.parquet" for name in names]
    request = PLAN.request("mem_mb", 1)
    (workflow.folder / "first_request").write_text(str(request))
    limited = 'measure:runtime=1 if (wildcards.figure, attempt) == ("figure10", 1) else 30'
    done = workflow(*targets, *SLURM, "--set-resources", limited, timeout=900)
    assert done.returncode == 1, done.stdout
    made = {path.stem for path in (workflow.folder / "results/smoke/tables").glob("*.parquet")}
    assert made == {"figure9", "figure10", "figure11"}

    jobs = jobs_of(cluster, done.stdout)
    of = {}
    memory = {}
    for name, tries in zip(names, (3, 2, 2, 1), strict=True):
        of[name] = [job for job in jobs if job["Comment"] == f"rule_measure_wildcards_{name}"]
        memory[name] = [job["TRES"].split("mem=")[1].split(",")[0] for job in of[name]]
        assert len(of[name]) == tries
        # The SLURM plugin can run a command several times in a job.
        if name != "figure10":
            assert (workflow.folder / f"{name}.tries").read_text() == tries * "x", done.stdout
    assert memory["figure9"] == [f"{request}M", f"{2 * request}M"]
    assert memory["figure8"] == [f"{request}M", f"{2 * request}M", f"{4 * request}M"]
    assert [job["TimeLimit"] for job in of["figure10"]] == ["00:01:00", "00:30:00"]
    assert of["figure10"][0]["JobState"] == "TIMEOUT"
    assert {job["JobState"] for job in of["figure8"]} == {"FAILED"}
    assert of["figure9"][0]["JobState"] in ("OUT_OF_MEMORY", "FAILED", "CANCELLED")
    # The user sees the status, the end of the job's log, and the path of SLURM's log, kept.
    assert re.search(r"message: SLURM-job '\d+' failed, SLURM status is: 'TIMEOUT'", done.stdout)
    assert "figure8 fails on purpose" in done.stdout
    for job in of["figure8"]:
        assert job["StdOut"] in done.stdout
        assert "Error in rule measure" in Path(job["StdOut"]).read_text()


SLEEP = """
import os
import time

Path(f"{os.getpid()}.pid").touch()
time.sleep(900)
"""


def wait_for(condition: Callable[[], bool], seconds: float) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.5)


def test_an_interrupt_cancels_all_jobs(cluster: Cluster, workflow: Workflow) -> None:
    """After Ctrl-C during two trainings no job is left in the queue, no process of one, no lock."""
    replace_job(workflow, "train", SLEEP)
    weights, others = (PLAN.weights_file(sweep, "0of1") for sweep in ("li_icl", "li_cot"))
    head = workflow.start([sys.executable, "-m", "snakemake", weights, others, *SLURM])
    try:
        wait_for(lambda: len(list(workflow.folder.glob("*.pid"))) == 2, 120)
        os.killpg(head.pid, signal.SIGINT)
        output, _ = head.communicate(timeout=90)
    except BaseException:
        os.killpg(head.pid, signal.SIGKILL)
        print(head.communicate()[0])
        raise
    assert head.returncode != 0
    wait_for(lambda: cluster.queued() == [], 30)
    assert {job["JobState"] for job in jobs_of(cluster, output)} == {"CANCELLED"}
    for file in workflow.folder.glob("*.pid"):
        wait_for(lambda: not Path(f"/proc/{file.stem}").exists(), 30)  # noqa: B023 (called at once)
    replace_job(workflow, "train", TRAIN)
    again = workflow(weights, "--cores", "1", "--config", "scale=smoke", "shards=1")
    assert again.returncode == 0, again.stdout
