"""Random numbers are a function of their address alone."""

import itertools
import random

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from icl.core.streams import stream, words

ADDRESS = ("li_icl", 3, "train", 7)
SHAPE = (5, 2)


def numbers(system: str, seed: int, purpose: str, step: int) -> tuple[int, ...]:
    return tuple(stream(system, seed, purpose, step).bit_generator.random_raw(8).tolist())


def test_the_same_address_gives_the_same_numbers() -> None:
    assert numbers(*ADDRESS) == numbers(*ADDRESS)


@pytest.mark.parametrize("other", [("li", 3, "train", 7), ("li_icl", 4, "train", 7), ("li_icl", 3, "init", 7),
                                   ("li_icl", 3, "train", 8), ("li_icl", 3, "train", 7 + 2**32)])  # fmt: skip
def test_every_part_of_the_address_counts(other: tuple[str, int, str, int]) -> None:
    assert numbers(*ADDRESS) != numbers(*other)


def test_large_seeds_are_not_cut_off() -> None:
    """torch's generator ignores the upper half of its seed; ours must not."""
    assert len({numbers("s", seed, "train", 0) for seed in (1, 1 + 2**32, 1 + 2**64, -1)}) == 4


def test_addresses_are_separated() -> None:
    """Concatenation without separators would give ("a", 11) and ("a1", 1) the same key."""
    addresses = list(itertools.product(("a", "a1", "a/1"), (1, 11), ("train", "1train"), (0, 1)))
    assert len({numbers(*address) for address in addresses}) == len(addresses)


def test_steps_do_not_overlap() -> None:
    """A step may draw more than a million words without reaching the next step, which is 2**128 words away."""
    long = stream("s", 0, "train", 0).bit_generator.random_raw(1_000_000)
    assert stream("s", 0, "train", 1).bit_generator.random_raw(1)[0] not in long


def test_a_negative_step_is_refused() -> None:
    with pytest.raises(ValueError, match="step = -1"):
        stream("s", 0, "train", -1)


@given(st.lists(st.integers(0, 50), min_size=1, max_size=6), st.data())
def test_a_runs_block_does_not_depend_on_its_neighbours(seeds: list[int], data: st.DataObject) -> None:
    place = data.draw(st.integers(0, len(seeds) - 1))
    together = words("li_icl", seeds, "train", 7, SHAPE)
    alone = words("li_icl", [seeds[place]], "train", 7, SHAPE)
    assert together.dtype == np.uint64
    assert (together[place] == alone[0]).all()


def test_global_generators_have_no_effect() -> None:
    before = words("li_icl", [0, 1], "train", 7, SHAPE)
    kept = np.random.get_state(), torch.get_rng_state(), random.getstate()  # noqa: NPY002
    try:
        np.random.seed(1)  # noqa: NPY002
        torch.manual_seed(2)
        random.seed(3)
        drawn = np.random.random(), torch.rand(1).item(), random.random()  # noqa: NPY002
        assert (words("li_icl", [0, 1], "train", 7, SHAPE) == before).all()
        np.random.seed(1)  # noqa: NPY002
        torch.manual_seed(2)
        random.seed(3)
        words("li_icl", [0, 1], "train", 7, SHAPE)
        assert drawn == (np.random.random(), torch.rand(1).item(), random.random())  # noqa: NPY002
    finally:
        np.random.set_state(kept[0])  # noqa: NPY002
        torch.set_rng_state(kept[1])
        random.setstate(kept[2])


def test_words_are_uniform() -> None:
    """Mean and variance of 64,000 uniforms from 64 seeds, within 4.5 standard errors (false alarm 1 in 70,000)."""
    u = words("li_icl", range(64), "train", 0, (1000,)).reshape(-1) / 2.0**64
    n = u.size
    assert abs(u.mean() - 0.5) < 4.5 * np.sqrt(1 / 12 / n)
    # The fourth central moment of a uniform is 1/80, so its squared deviation has variance 1/80 - 1/144 = 1/180.
    assert abs(((u - 0.5) ** 2).mean() - 1 / 12) < 4.5 * np.sqrt(1 / 180 / n)


def test_purposes_are_uncorrelated() -> None:
    """10,000 pairs from two purposes; a correlation has standard error 1 / sqrt(n)."""
    a, b = (stream("li_icl", 0, purpose).random(10_000) for purpose in ("train", "in domain"))
    assert abs(np.corrcoef(a, b)[0, 1]) < 4.5 / 100
