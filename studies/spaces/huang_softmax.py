"""The softmax layer of Huang et al.: the sensitivity of the claims to constants that are ours.

We have no numbers of the paper's pictures, so nothing is fitted and only the slices are run. K varies only in the
figures of the default K, because the others vary it or need their own.
"""

from studies.space import Axis, Space

OF_DEFAULT_K = ("huang_heatmap", "huang_stages")
UNBALANCED = ("huang_four_phases", "huang_rates", "huang_empirical")

SPACE = Space(
    system="huang_softmax",
    axes=(
        Axis("features", "not in any text that we could read; below 10 phases merge, and above 40 training ends "
             "before phase IV", choices=(10, 15, 20, 30, 40), searched=False, figures=OF_DEFAULT_K),
        Axis("dominant_probability", "the talk states Theta(1); at 0.3 the weights of K = 20 have no phase I, at 0.6 "
             "too many prompts lack a feature of K = 200", choices=(0.4, 0.45, 0.5, 0.55), searched=False,
             figures=UNBALANCED),
        Axis("contexts_per_feature", "not stated; the theorems ask for N >= poly(K)", choices=(10, 20, 40),
             searched=False, figures=("huang_heatmap", "huang_stages", "huang_four_phases", "huang_two_phases")),
    ),
    fitted=(),
    held_out=(),
    judged=(*OF_DEFAULT_K, "huang_two_phases", *UNBALANCED),
    together=(),
    smoke={"prompts": 20},
    trials=0,
    settled_seeds=20,
)  # fmt: skip
