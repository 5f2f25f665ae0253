"""The trainings of pages 42 and 43 of the talk on Zheng et al., which figures of several papers' folders share."""

from icl.core.config import grid
from icl.core.sweep import Sweep
from icl.models.autoregressive import Config, Test

STARTS = ("0.1 0.1", "0.5 1.5", "2 2")
SCALES = {"gaussian": 0.5, "sparse": 0.5, "full-one": 1.0, "signs": 0.5, "uniform": 0.5}
LEARNING_RATES = {"gaussian": 1e-3, "sparse": 3e-2, "full-one": 5e-4, "signs": 1e-2, "uniform": 3e-2}
EPOCHS = 200
# By then every start has converged to the last digit.
CONVERGED = {"paper": 1100, "laptop": 1100, "smoke": 300}
# How the sweep of each estimator is called.
ENDINGS = {
    "population": "",
    "population_diagonal": "_masked",
    "sample_blocks": "_reduced",
}


def every_epoch(scale: str) -> tuple[int, ...]:
    """The epochs of the published figures, each, and one after convergence."""
    return (*range(EPOCHS + 1), CONVERGED[scale])


def sweep_name(law: str, estimator: str = "population") -> str:
    """The name of the sweep for a law of the first token and a gradient estimator."""
    return f"zheng_{law.replace('-', '_')}{ENDINGS[estimator]}"


def sweep(law: str, scale: str, estimator: str = "population") -> Sweep:
    """All starts of the talk under one law of the first token, by a gradient without sampling."""
    configs = grid(
        Config, gradient_estimator=[estimator], law=[law], scale=[SCALES[law]], learning_rate=[LEARNING_RATES[law]],
        start=STARTS,
    )  # fmt: skip
    return Sweep(sweep_name(law, estimator), "zheng_ar", configs, every_epoch(scale), Test())
