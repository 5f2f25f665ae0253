"""Random numbers as a pure function of an address."""

import hashlib
from collections.abc import Sequence
from functools import lru_cache

import numpy as np


@lru_cache(maxsize=4096)
def _key(model: str, seed: int, purpose: str) -> int:
    address = f"{model}/{seed}/{purpose}".encode()
    return int.from_bytes(hashlib.blake2b(address, digest_size=16).digest(), "little")


def stream(model: str, seed: int, purpose: str, step: int = 0) -> np.random.Generator:
    """Return a counter-based generator for one address.

    The Philox key is a hash of (model, seed, purpose); the counter's third 64-bit word is the step,
    so that 2**128 draws separate two steps. No other constant enters the address: runs of the same
    seed see the same uniforms, so comparisons between constants are paired.

    Parameters
    ----------
    model : name of the model, e.g. ``"li_icl"``
    seed : the run's seed
    purpose : the use of the numbers: ``"init"``, ``"train"``, ``"evaluate"`` ...
    step : non-negative index of the batch

    Raises
    ------
    ValueError : if step is negative
    """
    if step < 0:
        raise ValueError(f"step = {step}: must not be negative")
    return np.random.Generator(
        np.random.Philox(key=_key(model, seed, purpose), counter=[0, 0, step, 0])
    )


def random_bits(
    model: str, seeds: Sequence[int], purpose: str, step: int, shape: tuple[int, ...]
) -> np.ndarray:
    """Random 64-bit words, one independent block per seed: uint64 (runs, *shape).

    A run's block equals the output of `stream` at its address, whatever the other runs are.
    """
    out = np.empty((len(seeds), *shape), dtype=np.uint64)
    # One generator serves all addresses: making one takes nearly as long as drawing a small batch.
    source = stream(model, 0, purpose, step).bit_generator
    state = source.state
    for row, seed in zip(out, seeds, strict=True):
        key = _key(model, seed, purpose)
        state["state"]["key"] = np.array([key & 0xFFFF_FFFF_FFFF_FFFF, key >> 64], dtype=np.uint64)
        source.state = state
        row[...] = source.random_raw(row.size).reshape(shape)
    return out
