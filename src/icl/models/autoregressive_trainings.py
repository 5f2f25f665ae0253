"""The trainings of pages 42 and 43 of the talk on Zheng et al., shared by figures of several papers."""

from icl.core.config import grid
from icl.core.sweep import Sweep
from icl.models.autoregressive import Config, Test

STARTS = ("0.1 0.1", "0.5 1.5", "2 2")
SCALES = {"gaussian": 0.5, "sparse": 0.5, "full-one": 1.0, "signs": 0.5, "uniform": 0.5}
LEARNING_RATES = {"gaussian": 1e-3, "sparse": 3e-2, "full-one": 5e-4, "signs": 1e-2, "uniform": 3e-2}
EPOCHS = 200
# The epoch at which every start has converged to the last digit.
CONVERGED = {"paper": 1100, "laptop": 1100, "smoke": 300}
# The suffix of the sweep's name for each estimator.
ENDINGS = {
    "population": "",
    "population_diagonal": "_masked",
    "sample_blocks": "_reduced",
}


def every_epoch(scale: str) -> tuple[int, ...]:
    """All epochs of the published figures, and one after convergence."""
    return (*range(EPOCHS + 1), CONVERGED[scale])


def sweep_name(law: str, estimator: str = "population") -> str:
    """The name of the sweep for a law of the first token and a gradient estimator."""
    return f"zheng_{law.replace('-', '_')}{ENDINGS[estimator]}"


def sweep(law: str, scale: str, estimator: str = "population") -> Sweep:
    """The trainings from all starts of the talk for one law of the first token and one gradient estimator."""
    configs = grid(
        Config, gradient_estimator=[estimator], law=[law], scale=[SCALES[law]], learning_rate=[LEARNING_RATES[law]],
        start=STARTS,
    )  # fmt: skip
    return Sweep(sweep_name(law, estimator), "zheng_ar", configs, every_epoch(scale), Test())
