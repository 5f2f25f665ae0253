"""Training of the one-layer model: a run depends only on its constants and seed, not on the other runs."""

import dataclasses
import itertools
import random
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pytest
import torch

from icl.core import runs as runs_module
from icl.core.config import grid
from icl.core.runs import Runs
from icl.core.sweep import Sweep
from icl.core.training import train
from icl.papers.li2024 import one_layer
from icl.papers.li2024 import one_layer_evaluation as evaluation
from tests import bitwise

CONFIGS = (
    one_layer.Config(seed=0, batch=24),
    one_layer.Config(seed=1, batch=24, pattern_norm=1.3, irrelevant_strength=0.9),
    one_layer.Config(seed=2, batch=24, relevant_fraction=0.3),
)
STEPS = 12


def sweep(configs: Sequence[one_layer.Config], steps: int = STEPS, prompts: int = 50) -> Sweep:
    return Sweep("test", "li_icl", tuple(configs), (0, steps // 2, steps), one_layer.Test(prompts=prompts))


@pytest.fixture(autouse=True)
def threads() -> Iterator[Callable[[int], None]]:
    """One thread per test unless the test sets another number, since idle threads only spin here."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield torch.set_num_threads
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def together() -> Runs:
    return train(sweep(grid(one_layer.Config, seed=range(4))))


def test_training_learns(together: Runs) -> None:
    long = train(Sweep("test", "li_icl", CONFIGS[:1], (300,), one_layer.Test())).losses[0]
    assert long[:5].mean() > 0.95
    assert long[-20:].mean() < 0.5


def test_a_run_alone_equals_the_run_in_a_batch(together: Runs) -> None:
    for run, config in enumerate(together.sweep.configs):
        alone = train(sweep([config]))
        for name, w in alone.weights.items():
            assert torch.equal(w[0], together.weights[name][run]), name
        np.testing.assert_array_equal(alone.losses[0], together.losses[run])


def test_at_full_size_other_runs_and_threads_do_not_change_a_bit(threads: Callable[[int], None]) -> None:
    plan = sweep(grid(one_layer.Config, seed=range(10)), steps=6)
    single = train(plan)
    alone = train(plan.shard(3, 10))
    threads(2)
    assert bitwise.same(train(plan), single)
    assert all(torch.equal(w[0], single.weights[name][3]) for name, w in alone.weights.items())


def test_a_diverging_run_does_not_affect_the_others(together: Runs) -> None:
    configs = list(together.sweep.configs)
    wild = dataclasses.replace(configs[1], learning_rate=1e200)
    beside = train(sweep([configs[0], wild, *configs[2:]]))
    assert not torch.isfinite(beside.last()["W_O"][1]).all()
    for run in (0, 2, 3):
        for name, w in beside.weights.items():
            assert torch.equal(w[run], together.weights[name][run])
        np.testing.assert_array_equal(beside.losses[run], together.losses[run])


@pytest.mark.parametrize("count", [2, 3, 4])
def test_sharded_training_equals_unsharded(together: Runs, count: int) -> None:
    shards = [train(together.sweep.shard(index, count)) for index in range(count)]
    assert bitwise.same(runs_module.merge(together.sweep, shards), together)


def test_the_seed_changes_the_result(together: Runs) -> None:
    losses = together.losses
    assert all(not np.array_equal(losses[i], losses[j]) for i in range(4) for j in range(i))


def test_global_generators_have_no_effect(together: Runs) -> None:
    before = (random.getstate(), np.random.get_state(), torch.get_rng_state())  # noqa: NPY002
    try:
        random.seed(99)
        np.random.seed(99)  # noqa: NPY002
        torch.manual_seed(99)
        assert bitwise.same(train(together.sweep), together)
    finally:
        random.setstate(before[0])
        np.random.set_state(before[1])  # noqa: NPY002
        torch.set_rng_state(before[2])


def test_training_draws_nothing_from_global_generators() -> None:
    def states() -> tuple[object, ...]:
        return random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist()  # type: ignore[index]  # noqa: NPY002

    before = states()
    train(sweep(CONFIGS[:1], steps=2))
    evaluation.out_of_domain(CONFIGS[:1], one_layer.Test(prompts=5))
    assert states() == before


def test_training_does_not_depend_on_snapshots_or_tests(together: Runs) -> None:
    fewer = dataclasses.replace(together.sweep, snapshots=(STEPS,), test=one_layer.Test(prompts=7, coefficient_sum=0.5))
    other = train(fewer)
    for name, w in other.last().items():
        assert torch.equal(w, together.last()[name])


def test_runs_of_one_seed_share_their_prompts() -> None:
    first, second = (
        one_layer.sample([c], 4) for c in (CONFIGS[0], dataclasses.replace(CONFIGS[0], learning_rate=9.0, readout=1.0))
    )
    for name in first:
        np.testing.assert_array_equal(first[name], second[name])
    other = one_layer.sample([dataclasses.replace(CONFIGS[0], relevant_fraction=0.3)], 4)
    np.testing.assert_array_equal(other["irrelevant"], first["irrelevant"])
    np.testing.assert_array_equal(other["strength"], first["strength"])


def test_every_run_trains_on_its_own_random_tasks() -> None:
    configs = grid(
        one_layer.Config, task_choice=["random even cover"], task_shifts=[2], relevant_fraction=[1.0], seed=range(3)
    )
    assert len({config.train_tasks.tobytes() for config in configs}) == 3
    batch = one_layer.sample(configs, 0)
    for run, config in enumerate(configs):
        tasks = {tuple(task) for task in config.train_tasks.tolist()}
        drawn = set()
        for pattern, label in zip(batch["pattern"][run], batch["label"][run], strict=True):
            # With alpha = 1 a prompt with both labels determines its task.
            positive, negative = set(pattern[label > 0].tolist()), set(pattern[label < 0].tolist())
            drawn |= set(itertools.product(positive, negative))
        # 128 prompts of 12 tasks miss one with probability 12 (11/12)^128 = 2e-4; the seeds are fixed.
        assert drawn == tasks
        for name, values in one_layer.sample([config], 0).items():
            np.testing.assert_array_equal(batch[name][run], values[0])
