"""The table of the noise that figure 27's classical curves ask for."""

import pytest

from studies import noise


def test_noise_brings_the_classical_fits_nearer_to_the_published_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without noise the fits make almost no errors. 200 prompts tell half the distance from the whole."""
    monkeypatch.setattr(noise, "PROMPTS", 200)
    assert noise.distance(3.0, 0.9) < 0.7 * noise.distance(3.0, 0.1)
