"""Random numbers are a function of their address alone."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from icl.core.streams import random_bits, stream

# Seeds agree in their lower halves, texts agree when joined, and steps are far from one another.
MODELS = st.sampled_from(["a", "a1", "a/1"])
PURPOSES = st.sampled_from(["train", "1train", "init"])
SEEDS = st.sampled_from([0, 1, 11, -1, 1 + 2**32, 1 + 2**64]) | st.integers()
STEPS = st.sampled_from([0, 1, 2**32]) | st.integers(0, 2**63 - 1)
ADDRESSES = st.tuples(MODELS, SEEDS, PURPOSES, STEPS)


@given(st.lists(ADDRESSES, min_size=2, max_size=8, unique=True))
def test_every_address_has_its_own_numbers(addresses: list[tuple[str, int, str, int]]) -> None:
    def numbers() -> list[tuple[int, ...]]:
        return [tuple(stream(*one).bit_generator.random_raw(4)) for one in addresses]

    assert numbers() == numbers()
    assert len(set(numbers())) == len(addresses)


@given(st.lists(SEEDS, min_size=1, max_size=6), MODELS, STEPS)
@example([3, 1, 3], "li_icl", 7)
def test_a_runs_block_is_that_of_its_address_whatever_the_other_runs_are(
    seeds: list[int], name: str, step: int
) -> None:
    blocks = random_bits(name, seeds, "train", step, (5, 2))
    assert blocks.dtype == np.uint64
    for seed, block in zip(seeds, blocks, strict=True):
        alone = stream(name, seed, "train", step).bit_generator.random_raw(10)
        assert (block.reshape(-1) == alone).all()


def test_steps_do_not_overlap_and_are_not_negative() -> None:
    """A step may draw over a million words without reaching the next step, 2**128 words away."""
    (first,) = random_bits("s", [0], "train", 1, (1,))[0]
    assert first not in random_bits("s", [0], "train", 0, (1_000_000,))
    with pytest.raises(ValueError, match="step = -1"):
        stream("s", 0, "train", -1)


def test_words_are_uniform_and_purposes_uncorrelated() -> None:
    """Within 4.5 standard errors (false alarm 1 in 70,000, and the seeds are fixed)."""
    u = random_bits("li_icl", range(64), "train", 0, (1000,)).reshape(-1) / 2.0**64
    assert abs(u.mean() - 0.5) < 4.5 * np.sqrt(1 / 12 / u.size)
    # The fourth central moment of a uniform is 1/80, so its squared deviation has variance 1/80 -
    # 1/144 = 1/180.
    assert abs(((u - 0.5) ** 2).mean() - 1 / 12) < 4.5 * np.sqrt(1 / 180 / u.size)
    pairs = [stream("li_icl", 0, purpose).random(10_000) for purpose in ("train", "in domain")]
    assert abs(np.corrcoef(*pairs)[0, 1]) < 4.5 / 100
