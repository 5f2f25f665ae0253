"""The softmax layer of Huang et al.: how far the claims depend on constants that are ours.

No numbers of the paper's pictures could be consulted, so that nothing is fitted: only the slices are run. K moves in
the figures of the default K alone, since the others vary it or need one of their own.
"""

from studies.space import Axis, Space

OF_DEFAULT_K = ("huang_heatmap", "huang_stages")
PHASES = ("huang_four_phases",)
UNBALANCED = ("huang_four_phases", "huang_rates", "huang_empirical")

SPACE = Space(
    system="huang_softmax",
    axes=(
        Axis("features", "not in any text that could be consulted; from half to twice the value in use",
             choices=(10, 15, 20, 30, 40), searched=False, figures=OF_DEFAULT_K),
        Axis("dominant_probability", "the talk says Theta(1); at 0.3, huang_four_phases has no phase I; at 0.6, one "
             "prompt in 5,000 of huang_rates lacks the rarest feature, too many for its error of 1e-4",
             choices=(0.4, 0.45, 0.5, 0.55), searched=False, figures=UNBALANCED),
        Axis("contexts_per_feature", "not stated; the theorems ask for N >= poly(K)", choices=(10, 20, 40),
             searched=False, figures=("huang_heatmap", "huang_stages", "huang_four_phases", "huang_two_phases")),
        Axis("phase_ratio", "the paper's boundaries could not be consulted; above 1, where the phases meet, and below "
             "4.1, where K = 20 starts", choices=(1.5, 2.0, 2.5, 3.0), searched=False, figures=PHASES),
        Axis("phase_weight", "the paper's boundaries could not be consulted; trainings end at 1.48 log K or more",
             choices=(0.75, 0.9, 1.0, 1.1, 1.25), searched=False, figures=PHASES),
    ),
    fitted=(),
    held_out=(),
    judged=(*OF_DEFAULT_K, "huang_two_phases", *UNBALANCED),
    together=(),
    smoke={"prompts": 20},
    trials=0,
    settled_seeds=20,
)  # fmt: skip
