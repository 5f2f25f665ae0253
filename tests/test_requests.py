"""Jobs ask a cluster for what was measured and some room, twice as much at each attempt; nothing took more."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from conftest import ROOT, Workflow

from icl import requests
from icl.dag import Plan
from icl.requests import Job, Peak, Requests

CONFIG = yaml.safe_load((ROOT / "workflow/config.yaml").read_text(encoding="utf-8"))
PEAKS = requests.load(ROOT / "workflow/peaks.csv")


def asking(peaks: requests.Peaks = PEAKS, **changes: Any) -> Requests:
    return Requests(Plan.of(CONFIG | changes), peaks)


@pytest.fixture(scope="module")
def laptop() -> Requests:
    return asking(scale="laptop")


def test_every_figure_and_sweep_has_been_measured(laptop: Requests) -> None:
    """`make peaks` after a run writes what is missing; until then a job asks for a guess."""
    needed = {job[:2] for job in requests.jobs(laptop.plan) if job.rule != "animate"}
    assert needed - set(PEAKS) == set()


def test_no_measured_job_took_more_than_it_asks_for(laptop: Requests) -> None:
    for job in requests.jobs(laptop.plan):
        if (peak := PEAKS.get(job[:2])) is not None:
            assert laptop.memory_mb(job) >= requests.SNAKEMAKE_MB + peak.memory_mb, job
            assert laptop.minutes(job) * 60 >= 2 * peak.seconds, job


def test_no_figure_of_the_gallery_took_more_than_its_jobs_ask_for(laptop: Requests) -> None:
    """gallery/costs.md was written by another way from the same run."""
    costs = (ROOT / "gallery/costs.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\w+) \| `make \w+` \| ([\w, ]+) \|.*\| (\d+) \| \d+ \|$", costs, flags=re.MULTILINE)
    assert [name for name, *_ in rows] == re.findall(r"`make (\w+)`", costs)
    for name, sweeps, peak in rows:
        shards = [
            Job("train", sweep, shard) for sweep in sweeps.split(", ") for shard in laptop.plan.shard_names(sweep)
        ]
        rest = [Job(rule, name) for rule in ("measure", "draw", "check")]
        assert max(laptop.memory_mb(job) for job in shards + rest) > float(peak), name


@pytest.mark.slow
def test_no_job_of_the_smoke_run_took_more_than_it_asks_for() -> None:
    results = ROOT / "results/smoke"
    if not list(results.glob("benchmarks/*/*.tsv")):
        pytest.skip("there is no smoke run: make figures SNAKEMAKE_ARGS='--config scale=smoke'")
    assert asking(scale="smoke").exceeded(results) == []


def test_a_job_that_takes_more_is_named(figure9_made: Path, tmp_path: Path) -> None:
    """By figure 9's jobs, which take less; then with one that takes too much memory and one that takes too long."""
    smoke = asking(scale="smoke", figures=["figure9"])
    assert smoke.exceeded(figure9_made / "results/smoke") == []
    for name, took in (("train/li_icl.1of2", "5\t99999"), ("measure/figure9", "99999\t-")):
        path = tmp_path / f"benchmarks/{name}.tsv"
        path.parent.mkdir(parents=True)
        path.write_text(f"s\tmax_rss\n{took}\n")
    memory, time = smoke.exceeded(tmp_path)
    assert re.fullmatch(r"train li_icl 1of2: took 99999 MB, asks for \d+ MB", memory)
    assert re.fullmatch(r"measure figure9 : took 99999 s, asks for \d+ s", time)


JOB = Job("train", "li_icl", "0of2")


def one(**changes: Any) -> requests.Peaks:
    """As if shard 0of2 of li_icl at the laptop scale were all that was ever measured."""
    size = requests.size(asking(figures=["figure9"]).plan, JOB)
    return {JOB[:2]: Peak("train", "li_icl", *size, **({"memory_mb": 1000, "seconds": 600} | changes))}


def test_each_attempt_asks_for_twice_as_much() -> None:
    known, unknown = asking(one(), figures=["figure9"]), asking({}, figures=["figure9"])
    assert [known.memory_mb(JOB, attempt) for attempt in (1, 2, 3)] == [2000, 4000, 8000]
    assert [known.minutes(JOB, attempt) for attempt in (1, 2, 3)] == [40, 80, 160]
    for job in requests.jobs(unknown.plan):
        assert unknown.memory_mb(job, 2) == 2 * unknown.memory_mb(job) >= 4000
        assert unknown.minutes(job, 2) == 2 * unknown.minutes(job) >= 60


def test_a_larger_shard_asks_in_proportion_and_a_smaller_one_not_for_less() -> None:
    two, whole = asking(one(), figures=["figure9"]), asking(one(), figures=["figure9"], shards=1)
    assert whole.memory_mb(Job("train", "li_icl", "0of1")) == 500 + 1.5 * 2 * 1000
    assert whole.minutes(Job("train", "li_icl", "0of1")) == 10 + 3 * 2 * 10
    smoke = asking(one(), figures=["figure9"], scale="smoke")
    assert (smoke.memory_mb(JOB), smoke.minutes(JOB)) == (two.memory_mb(JOB), two.minutes(JOB))


def test_more_steps_ask_for_more_time_and_more_runs_for_more_memory() -> None:
    laptop, paper = (asking(scale=scale, figures=["oswald_mesa_loss"]) for scale in ("laptop", "paper"))
    job = Job("train", "oswald_mesa_mesa", "0of2")
    grown = [b / a for a, b in zip(requests.size(laptop.plan, job), requests.size(paper.plan, job), strict=True)]
    assert grown[1] > grown[0] > 1
    assert paper.memory_mb(job) <= grown[0] * laptop.memory_mb(job)
    assert paper.minutes(job) > grown[0] * laptop.minutes(job)


def test_a_job_too_short_to_be_sampled_asks_for_what_others_of_its_rule_do() -> None:
    plan = Plan.of(CONFIG | {"figures": ["figure8", "figure9", "figure10"]})
    peaks = {
        ("check", n): Peak("check", n, 1, 1, mb, 0.5) for n, mb in (("figure8", 0), ("figure9", 150), ("figure10", 160))
    }
    asked = Requests(plan, peaks)
    assert asked.memory_mb(Job("check", "figure8")) == asked.memory_mb(Job("check", "figure9")) == 800


def test_peaks_are_recorded_and_kept(figure9_made: Path, tmp_path: Path) -> None:
    """The largest shard counts; what has not run keeps its row, what is no longer planned loses it."""
    plan, path = Plan.of(CONFIG | {"figures": ["figure9"], "scale": "smoke"}), tmp_path / "peaks.csv"
    draw, gone = (Peak("draw", n, 1, 1, 200.0, 3.0) for n in ("figure9", "figure_of_nothing"))
    path.write_text(requests._table([draw, gone]), encoding="utf-8")
    assert requests.record(plan, figure9_made / "results/smoke", path) == 2
    made = requests.load(path)
    assert set(made) == {("train", "li_icl"), ("measure", "figure9"), ("draw", "figure9")}
    assert made["draw", "figure9"] == draw
    assert made["train", "li_icl"] == Peak("train", "li_icl", *requests.size(plan, JOB), 400.0, 1.0)
    # The smoke scale says nothing of the laptop's.
    path.write_text(requests._table(one().values()), encoding="utf-8")
    requests.record(plan, figure9_made / "results/smoke", path)
    assert requests.load(path)[JOB[:2]] == one()[JOB[:2]]


def test_the_workflow_asks_so(workflow: Workflow) -> None:
    """What Snakemake plans for figure 9's training, were its peak 1000 MB and ten minutes."""
    (workflow.folder / "workflow/peaks.csv").write_text(requests._table(one().values()), encoding="utf-8")
    planned = workflow("-n", "figure9", "--config", "scale=laptop").stdout
    found = re.findall(r"^rule train:$.*?^    resources: (.*?)$", planned, flags=re.MULTILINE | re.DOTALL)
    assert len(found) == 2, planned
    for asked in found:
        assert {"mem_mb=2000", "runtime=40"} <= set(asked.split(", "))
