"""The GPT-2 style model: the unpublished constants of figure 12.

Constants of the test come first, because their slices share one training.

No trials are packaged: the sensitivity of figures 12 and 13 to these constants is unknown.
"""

from studies.space import Axis, Reading, Space

SPACE = Space(
    system="li_icl_gpt2",
    axes=(
        Axis("combination", "the talk says linear combinations: pairs, because M'_1 = M_1 / 2, with a fixed difference "
             "of their coefficients or of unit norm", choices=("pairs apart", "unit pairs")),
        Axis("noise", "none, as the paper's model has it, up to somewhat above figure 12's", low=0.0, high=1.5),
        Axis("training_noise", "none, as the paper's model has it, up to somewhat above figure 12's",
             low=0.0, high=1.5),
        Axis("training_prompts", "always new ones, or a finite set", choices=(0, 2048, 4096, 8192)),
        Axis("task_shifts", "12 to 24 of the 30 tasks; one cycle is below the share (M_1 - 1)^(-1/2) of all, five "
             "leave no unseen task for figure 13", choices=(2, 3, 4)),
        Axis("learning_rate", "from half the rate at which 400 steps suffice to one at which some runs do not learn",
             low=1e-4, high=1e-3, log=True),
        Axis("pattern_norm", "labels have norm 1: patterns of their norm, up to somewhat above the one-layer model's",
             low=1.0, high=4.0, log=True),
        Axis("least_contexts", "every length is asked in training, which takes twice as long, or the longest alone, as "
             "the theory has it", choices=(0, 20), searched=False),
    ),
    fitted=("figure12",),
    held_out=("figure13",),
    judged=("figure12", "figure13"),
    together=(),
    shared=("training_prompts", "task_shifts", "learning_rate", "pattern_norm", "training_noise"),
    amounts={"": {"prompts": 100}, "figure12": {"prompts": 200}},
    # The drawn run is tested on four times as many prompts.
    floors={"figure12": 1 / 800},
    readings={
        **{
            f"error at {label}": Reading("figure12", "main", label, 20.0)
            for label in ("S_1=1.3", "S_1=1.1", "S_1=0.9", "S_1=0.7", "S_1=0.5")
        },
        "error at S_1=1.3 after 2": Reading("figure12", "main", "S_1=1.3", 2.0),
    },
    trials=6,
    batch=2,
    seeds=2,
    finalists=1,
    settled_seeds=4,
    values=2,
    smoke={"prompts": 4, "batch": 2, "steps": 20, "width": 8, "mlp_width": 16, "training_prompts": 0},
)  # fmt: skip
