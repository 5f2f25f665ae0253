"""The table of the law of test inputs that figure 27's classical curves imply."""

import pytest

from studies import noise


def test_the_chosen_law_brings_the_classical_fits_nearer_to_the_published_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without noise the fits make almost no errors, with the kappa of the training too few; 2,000 prompts show it."""
    monkeypatch.setattr(noise, "PROMPTS", 2000)
    chosen = noise.distance(2.0, 0.85)
    assert chosen < 0.7 * noise.distance(2.0, 0.0)
    assert chosen < 0.9 * noise.distance(1.0, 0.75)
