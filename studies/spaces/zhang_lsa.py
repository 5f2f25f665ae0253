"""The linear layer of Zhang et al.: how far the claims on convergence depend on constants that are ours.

The theorems hold for every covariance, prompt length and initialisation below a bound, so that nothing is fitted: only
the slices are run. The other figures vary these constants themselves.
"""

from studies.space import Axis, Space

CONVERGENCE = ("zhang_convergence",)

SPACE = Space(
    system="zhang_lsa",
    axes=(
        Axis("context_length", "not stated; from half to four times the value in use", choices=(5, 10, 20, 40),
             searched=False, figures=CONVERGENCE),
        Axis("initial_scale", "Assumption 3.3 has an upper bound only, 0.588 for the skewed covariance",
             choices=(0.1, 0.2, 0.3, 0.5), searched=False, figures=CONVERGENCE),
    ),
    fitted=(),
    held_out=(),
    judged=CONVERGENCE,
    together=(),
    smoke={"prompts_test": 4},
    trials=0,
    settled_seeds=20,
)  # fmt: skip
