"""The table of the noise that figure 27's classical curves imply."""

import pytest

from studies import noise


def test_noise_brings_the_classical_fits_nearer_to_the_published_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    """With little noise the fits make almost no errors, far below the published ones; 200 prompts show it."""
    monkeypatch.setattr(noise, "PROMPTS", 200)
    assert noise.distance(3.0, 0.9) < 0.7 * noise.distance(3.0, 0.1)
